"""Ordinary schemas through a real connector: NULL stays NULL with the documented settings, and is refused without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.errors import CdcError, ConfigError
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.doctor import doctor_pipeline
from airflow_cdc.flows.null_defaults import require_nulls, set_converter
from tests.integration.followed import Followed
from tests.integration.ordinary_schemas import CHANGES, DJANGO, ROWS, SAKILA
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from stack.connect import ConnectWorker

JSON = "org.apache.kafka.connect.json.JsonConverter"
Follow = Callable[[Mapping[str, str], Mapping[str, str]], Followed]
# as the page about the first pipeline gives them
DOCUMENTED = {
    f"{side}.converter{more}": value
    for side in ("key", "value")
    for more, value in (("", JSON), (".schemas.enable", "false"), (".replace.null.with.default", "false"))
}
REPLACES = {**DOCUMENTED, "value.converter.replace.null.with.default": "true"}
T = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) NULL DEFAULT 'new', seen DATETIME NULL DEFAULT CURRENT_TIMESTAMP)"
NULLS = "INSERT INTO t VALUES (1, NULL, NULL)"


@pytest.fixture
def follow(rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path) -> Iterator[Follow]:
    """`follow(tables, settings)`: a connector from before the first row, ended with the test."""
    made: list[Followed] = []

    def start(tables: Mapping[str, str], settings: Mapping[str, str]) -> Followed:
        made.append(Followed(rig, connect_worker, kafka, tmp_path, tables))
        made[-1].follow(settings)
        made[-1].stamp()
        return made[-1]

    yield start
    for one in made:
        connect_worker.call("DELETE", f"/connectors/{one.base.pipeline.connector.name}")


@pytest.mark.slow  # two whole foreign schemas; the rule itself stands below
def test_sakila_and_django_are_carried_with_the_documented_settings(rig: Rig, follow: Follow) -> None:
    tables = {**SAKILA, **DJANGO}
    made = follow(tables, DOCUMENTED)
    require_nulls(made.base, captured(made.base))
    checks = doctor_pipeline(made.base)
    assert [c for c in checks if c.name in {"events", "NULL in events"} and c.state != "ok"] == []
    rig.run(*ROWS)
    made.apply("first")
    rig.run(*CHANGES)
    made.apply("second")
    assert {name: made.differences(name) for name in tables} == dict.fromkeys(tables, ([], []))


def test_a_converter_that_writes_defaults_is_refused_before_and_after_it_is_set_right(rig: Rig, follow: Follow) -> None:
    """Doctor and the opening of a recovery name it; once it is set, what was written before is refused by its events."""
    made = follow({"t": T}, REPLACES)
    run, forbidden = made.base, replace(made.base.pipeline, policy=Policy(set_converter=False))
    with pytest.raises(ConfigError, match=r"t\.v, .*t\.seen arrives as the column's default"):
        require_nulls(replace(run, pipeline=forbidden), captured(run))
    (check,) = [c for c in doctor_pipeline(run) if c.name == "NULL in events"]
    assert (check.state, "the next recovery sets it" in check.found) == ("warn", True)
    rig.run(NULLS)
    with pytest.raises(CdcError, match="arrives as the column's default"):
        made.apply("refused")
    assert set_converter(run) == ("value.converter.replace.null.with.default",)
    with pytest.raises(CdcError, match="were written by a converter that replaces NULL with the default"):
        made.apply("still refused")


def test_what_a_connector_says_of_its_workers_converter_is_not_believed(rig: Rig, follow: Follow) -> None:
    """Connect does not read value.converter.* of a connector that names no value.converter: NULL arrived as 'new'."""
    made = follow({"t": T}, {"value.converter": ""})
    rig.run(NULLS)
    with pytest.raises(CdcError, match=f"Set value.converter={JSON}"):
        made.apply("refused")
    with pytest.raises(ConfigError, match=r"names no value\.converter"):
        require_nulls(made.base, captured(made.base))
