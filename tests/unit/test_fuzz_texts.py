"""Bad input, generated: whatever a file, an offset, a GTID set, a stamp or a report holds, the answer is a value or one typed error.

Derandomized: the same inputs each time. An error of another kind (KeyError, RecursionError, …) fails the test by itself.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.cli import reports
from airflow_cdc.config.registry import load_registry
from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.history import compare_history, fold_history
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlOffset, validate
from airflow_cdc.connectors.debezium.schema_changes import read_ddl
from airflow_cdc.core.errors import OffsetRejectedError, PositionError
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.recovery import OpenRecovery, VerifiedTable
from airflow_cdc.core.report import DecisionReport, StepReport, TableReport
from airflow_cdc.core.stamp import EPOCH, LEDGER, OFFSETS, WATERMARK, ChunkLedger, Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.applied import APPLIED, Applied, Highest, LastChange
from airflow_cdc.decisions.apply.schema_change import load_definition
from airflow_cdc.kinds import read_position
from airflow_cdc.reports.store import REPORT as REPORT_FILE
from airflow_cdc.sources.mysql.ddl_clauses import read_statement
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.schema_steps import clauses_of
from tests.unit.conftest import REGISTRY
from tests.unit.fuzzing import damaged, joined, made_by, many, value_or_typed_error
from tests.unit.tables import col

# --- GTID sets, positions, offsets -----------------------------------------------------------------------------------

UUID = "75ac0c48-0000-11f0-8000-000000000001"
GTID_TEXTS = joined(UUID, UUID.upper(), "tag", ":", "-", ",", "\n", " ", "1", "0", "9" * 25, "5-3", "1-5", "²", "_")


@many(1500)
@given(GTID_TEXTS)
def test_gtid_texts(text: str) -> None:
    gtids = value_or_typed_error(lambda: GtidSet.parse(text), PositionError)
    if gtids is not None:
        assert GtidSet.parse(str(gtids)) == gtids


OFFSET = {
    "file": "mysql-bin.000004",
    "pos": 198,
    "gtids": f"{UUID}:1-29",
    "ts_sec": 1795244529,
    "server_id": 1,
    "event": 2,
    "row": 1,
    "snapshot": True,
    "incremental_snapshot_maximum_key": "x",
}


@many(1500)
@given(damaged(OFFSET))
def test_offsets(value: Any) -> None:
    if not isinstance(value, dict):
        return
    offset = value_or_typed_error(lambda: MySqlOffset.from_value(value), OffsetRejectedError)
    faults = validate(value)
    assert (offset is not None) or faults
    if offset is not None:
        assert MySqlOffset.from_value(offset.to_value()) == offset


W = {
    "format": 2,
    "position": {"kind": "mysql", "file": "b.000003", "pos": 5, "gtids": f"{UUID}:1-50", "server_id": 1},
    "server": UUID,
    "taken_at": "2026-11-21T10:00:00+00:00",
}


@many(700)
@given(damaged(W))
def test_watermarks(value: Any) -> None:
    value_or_typed_error(lambda: Watermark.from_json(value, read_position))


# --- pipelines.yaml --------------------------------------------------------------------------------------------------

GOOD_YAML = yaml.safe_load(REGISTRY) | {}
GOOD_YAML["pipelines"]["shop"]["policy"] = {
    "approval": "always",
    "approval_timeout": "2h",
    "max_deletes": "1%",
    "hold": {"mode": "auto", "max": "2h"},
    "notify": ["ops"],
}
YAML_TEXTS = joined(
    "pipelines:",
    "  shop:",
    "\n",
    "\t",
    "{",
    "}",
    "[",
    "]",
    "&a",
    "*a",
    "!!python/object:os.system x",
    "<<: *a",
    "'",
    '"',
    "- ",
    ": ",
    "1:2",
    "\x00",
    "é",
)


@many(800)
@given(damaged(GOOD_YAML).map(lambda value: yaml.safe_dump(value, allow_unicode=True)))
def test_damaged_registries(registry: Path, text: str) -> None:
    read_registry(registry, text)


@many(700)
@given(YAML_TEXTS)
def test_texts_as_registries(registry: Path, text: str) -> None:
    read_registry(registry, text)


def read_registry(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    pipelines = value_or_typed_error(lambda: load_registry(path))
    assert pipelines is None or all(name == pipeline.name for name, pipeline in pipelines.items())


# --- stamps, ledgers, definitions ------------------------------------------------------------------------------------

STAMP = {
    EPOCH: "3",
    WATERMARK: json.dumps(W),
    OFFSETS: json.dumps({"t": {"id": "x", "partitions": {"0": 5}}}),
    LEDGER: json.dumps(
        {"w": "h", "server_uuid": UUID, "fingerprint": "f", "done_to": [1], "rows": 2, "complete": False}
    ),
    APPLIED: Applied(
        {"0": 1}, {"u": Highest(5, 6, 7, "1/bin", 3)}, {"0": LastChange("u", (5, 6, 7), "1/bin", 3, "u:5", 8)}
    ).to_text(),
}


@many(1500)
@given(st.sampled_from(sorted(STAMP)), damaged(json.loads(STAMP[OFFSETS])), st.booleans())
def test_stamps(key: str, document: Any, cut: bool) -> None:
    text = json.dumps(document)
    summary = {**STAMP, key: text[: len(text) // 2] if cut else text}
    value_or_typed_error(lambda: Stamp.from_summary(summary))
    value_or_typed_error(lambda: ChunkLedger.from_summary(summary))
    value_or_typed_error(lambda: Applied.from_summary(summary))


TABLE = Table(
    "shop",
    "t",
    (col("id", 1, "bigint", "bigint"), col("e", 2, "enum", "enum('a')", labels=("a",))),
    ("id",),
)


@many(700)
@given(damaged(TABLE.to_json()))
def test_definitions(value: Any) -> None:
    value_or_typed_error(lambda: load_definition({"cdc.definition": json.dumps(value)}))


# --- what Debezium keeps ---------------------------------------------------------------------------------------------

HISTORY = {
    "source": {"server": "p"},
    "position": {"file": "b.000001", "pos": 4, "snapshot": None},
    "databaseName": "shop",
    "ddl": "ALTER TABLE t ADD a INT",
    "tableChanges": [
        {
            "type": "ALTER",
            "id": '"shop"."t"',
            "previousId": None,
            "table": {
                "primaryKeyColumnNames": ["id"],
                "columns": [{"name": "id", "position": 1, "typeName": "BIGINT", "length": 20, "enumValues": ["'a'"]}],
            },
        }
    ],
}


@many(1000)
@given(damaged(HISTORY))
def test_schema_changes(record: Any) -> None:
    if not isinstance(record, dict):
        return
    with suppress(ValueError):  # its reader makes a TransportError of it that names the offset
        ddl = read_ddl(record)
        assert ddl is None or clauses_of(ddl)


@many(500)
@given(damaged(HISTORY["tableChanges"][0]["table"]))  # type: ignore[index]
def test_tables_of_a_history(table: Any) -> None:
    if isinstance(table, dict):
        assert all(isinstance(text, str) for text in compare_history(TABLE, table))


@many(500)
@given(damaged(HISTORY))
def test_histories(record: Any) -> None:
    if isinstance(record, dict):
        value_or_typed_error(lambda: fold_history([record]))


@many(500)
@given(joined("ALTER TABLE t ", "ADD ", "(", ")", "'", "`", "\\", ",", "/*", "*/", "DROP a", "--"))
def test_statements(text: str) -> None:
    assert read_statement(text).clauses


CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "p",
    "transforms": "r",
    "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.r.regex": "(.*)",
    "transforms.r.replacement": "$1",
    "table.include.list": "shop.t",
    "decimal.handling.mode": "string",
    "heartbeat.interval.ms": "5",
}
REGEXES = joined(*["(", "[a", "(?<n>x)", "$9", "${q}", "\\", "*", "(?P=x)"])


@many(800)
@given(st.sampled_from(sorted(CONFIG)), REGEXES)
def test_connector_settings(key: str, text: str) -> None:
    changes = {key: text}
    made = value_or_typed_error(lambda: ConnectorSettings.from_config({**CONFIG, **changes}))
    if made is None:
        return

    def use() -> None:
        made.mixed(["shop.t", "shop.u"])
        made.check_table(TABLE)

    value_or_typed_error(use)


# --- report files ----------------------------------------------------------------------------------------------------

DECISION = {
    "diagnosis": {"code": "GTID_PURGED", "evidence": {}},
    "plan": {"strategy": "full_snapshot", "data_loss": "nothing"},
}
VERIFIED = {
    "verdict": "MATCH",
    "source_rows": 1,
    "sink_rows": 1,
    "compared_at": {"snapshot_id": 5, "position": "p"},
    "columns_not_compared": [],
}
VERIFIED_TABLE = VerifiedTable(TableReport.verified_from_json("shop.t", VERIFIED))
RECOVERED = OpenRecovery("run-1", 1, tables=("shop.t",), verified={"shop.t": VERIFIED_TABLE})
REPORT = RECOVERED.report("shop", "run-1", DecisionReport.from_json(DECISION), [StepReport("s", 1.0, "done")]).to_json()


@many(800)
@given(
    damaged(REPORT).map(lambda value: json.dumps(value).encode())
    | made_by(lambda rng: rng.randbytes(rng.randrange(60)))
)
def test_report_files(report_file: Path, data: bytes) -> None:
    report_file.write_bytes(data)
    value_or_typed_error(lambda: reports.load("shop", "run-1"))
    assert report_file.read_bytes() == data


@pytest.fixture
def report_file(registry: Path, tmp_path: Path) -> Path:
    path = tmp_path / "reports" / "shop" / "run-1" / REPORT_FILE
    path.parent.mkdir(parents=True)
    return path
