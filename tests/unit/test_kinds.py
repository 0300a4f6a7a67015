from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from airflow_cdc import kinds
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.kind import Reads
from airflow_cdc.kinds import CONNECTORS, SOURCES, TRANSPORTS, WINGS
from airflow_cdc.sinks.jdbc.kind import JdbcSettings
from airflow_cdc.sources.postgres.kind import PostgresSettings
from tests.unit.builders import PIPELINE

HEAVY = ("pymysql", "kafka", "httpx", "pyiceberg", "pyarrow", "pyspark", "pydantic", "yaml", "airflow")


def _loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has imported after running `code`."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(run.stdout))


def test_a_list_of_names_imports_no_system() -> None:
    loaded = _loaded_by("from airflow_cdc import kinds\n'mysql' in kinds.SOURCES; list(kinds.SINKS)")

    assert not {name for name in loaded for wing in WINGS.values() if name.startswith(f"airflow_cdc.{wing.wing}")}


def test_a_kind_is_looked_up_without_its_clients() -> None:
    code = "from airflow_cdc import kinds\nfor wing in kinds.WINGS.values(): dict(wing)"
    loaded = _loaded_by(code)

    assert "airflow_cdc.sources.mysql" in loaded
    assert not {name for name in loaded if name.partition(".")[0] in HEAVY}
    assert not {
        name
        for name in loaded
        for wing in WINGS.values()
        if name.startswith(f"airflow_cdc.{wing.wing}.")
        and name.count(".") > 2
        and not name.endswith((".kind", ".settings"))
    }


def test_a_connector_reads_and_writes_kinds_that_there_are() -> None:
    for name, connector in CONNECTORS.items():
        assert set(connector.reads) <= set(SOURCES), name
        assert set(connector.through) <= set(TRANSPORTS), name


def test_the_kinds_of_a_pipeline() -> None:
    assert [kind.name for kind in kinds.kinds_of(PIPELINE)] == ["mysql", "debezium", "kafka", "iceberg"]
    assert kinds.reads_of(PIPELINE).decoder is not None


def test_a_name_that_there_is_not() -> None:
    assert "oracle" not in SOURCES
    with pytest.raises(KeyError):
        SOURCES["oracle"]


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("airflow_cdc.names:nothing", "cannot be imported"),
        ("no_such_module:KIND", "cannot be imported"),
        ("airflow_cdc.transports.kafka:KIND", "is no SourceKind"),
        ("airflow_cdc.sources.mysql:KIND", "calls itself 'mysql'"),
    ],
)
def test_an_entry_point_that_leads_to_no_such_kind(monkeypatch: pytest.MonkeyPatch, target: str, fault: str) -> None:
    point = EntryPoint("oracle", target, "airflow_cdc.sources")
    monkeypatch.setattr(kinds, "_others", lambda wing: {"oracle": point} if wing == "sources" else {})

    assert list(SOURCES) == ["mysql", "mariadb", "postgres", "oracle"]
    with pytest.raises(ConfigError, match=fault):
        SOURCES["oracle"]


def test_no_other_distribution_takes_a_built_in_name(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mysql", "no_such_module:KIND", "airflow_cdc.sources")
    monkeypatch.setattr(kinds, "_others", lambda _: {"mysql": point})

    assert SOURCES["mysql"].title == "MySQL"
    assert list(SOURCES) == ["mysql", "mariadb", "postgres"]


def test_what_lacks_a_reader_or_a_decoder_is_diagnosed_and_not_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kinds.no_recovery(PIPELINE) == ""
    monkeypatch.setattr(kinds, "SOURCES", {"mysql": replace(SOURCES["mysql"], reader=None, why_unread="no hands")})
    assert kinds.no_recovery(PIPELINE) == kinds.rules_for(PIPELINE).no_recovery == "no hands"
    monkeypatch.setattr(kinds, "SOURCES", SOURCES)

    monkeypatch.setattr(kinds, "reads_of", lambda _: Reads())
    assert (
        kinds.no_recovery(PIPELINE) == "events of Debezium about MySQL are not decoded: it is diagnosed, not recovered"
    )


def test_copies_are_recovered_where_the_connector_s_events_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = replace(PIPELINE, sink=JdbcSettings("jdbc", conn_id="t", database="postgres", connector="s"))
    assert kinds.no_recovery(copied) == ""
    slotted = PostgresSettings("postgres", conn_id="p", tables=("public.a",))
    assert kinds.no_recovery(replace(copied, source=slotted)) == ""
    other = replace(copied, source=replace(PIPELINE.source, kind="mariadb"))
    assert "events of Debezium about MariaDB are not written" in kinds.no_recovery(other)
    assert kinds.no_recovery(replace(other, sink=PIPELINE.sink)) == ""
