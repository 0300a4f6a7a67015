"""What earlier processes stored, other versions of this package and people among them: control, reports, stamps, letters."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro

from airflow_cdc.alerting.outage import Outage, OutageLog, Sighting, advance
from airflow_cdc.control.control import Control
from airflow_cdc.control.document import EMPTY
from airflow_cdc.control.ledger import LedgerEntry
from airflow_cdc.core.codec import plain
from airflow_cdc.core.errors import MALFORMED, CdcError, SchemaError, UnknownStateError
from airflow_cdc.core.pipeline import AlertPolicy
from airflow_cdc.core.ports import StoredDocument
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.core.stamp import EPOCH, LEDGER, OFFSETS, WATERMARK, ChunkLedger, Stamp
from airflow_cdc.decisions.apply.applied import APPLIED, Applied, Highest, LastChange
from airflow_cdc.decisions.apply.schema_change import load_definition
from airflow_cdc.kinds import read_pipeline, rules_for
from airflow_cdc.plugin import view
from airflow_cdc.reports.store import OBSERVATION, REPORT, RUNS, SILENCES, ReportStore
from airflow_cdc.reports.stored import Silence, StoredObservation
from airflow_cdc.sinks.hudi import letters, notes
from airflow_cdc.sinks.hudi.timeline import commits
from airflow_cdc.sinks.opensearch.record import Record
from tests.diagnosing import diagnose
from tests.fuzz.connectors import TABLE
from tests.fuzz.mutate import blobs, json_bytes, json_texts, objects
from tests.fuzz.parser import Parser, in_file
from tests.fuzz.positions import UUID
from tests.fuzz.positions import WATERMARK as WATERMARK_JSON
from tests.unit.builders import HEALTHY, PIPELINE
from tests.unit.core.test_report import REPORT as REPORT_OBJECT

AT = "2026-11-28T02:00:00+00:00"
NOW = datetime(2026, 11, 28, 3, tzinfo=UTC)
STAMP = {
    EPOCH: "3",
    WATERMARK: json.dumps(WATERMARK_JSON),
    OFFSETS: json.dumps({"t": {"id": "x", "partitions": {"0": 5}}}),
    LEDGER: json.dumps(
        {"w": "h", "server_uuid": UUID, "fingerprint": "f", "done_to": [1, "a"], "rows": 2, "complete": False}
    ),
    APPLIED: Applied(
        {"0": 1}, {"u": Highest(5, 6, 7, "1/bin", 3)}, {"0": LastChange("u", (5, 6, 7), "1/bin", 3, "u:5", 8)}
    ).to_text(),
}
OPEN = json.loads(json.dumps(asdict(OpenRecovery("run-1", 1, tables=("shop.t",)))))
CONTROL = {
    **EMPTY,
    "epoch": 3,
    "lease": {"owner": "r", "expires_at": AT, "seconds": 120, "renewal": "a"},
    "recovery": OPEN,
    "ledger": {
        "run-1": {"epoch": 3, "steps": {"diagnose": {"started": AT, "seconds": 1.5, "state": "done"}}, "decision": {}},
        "lasting:recovered": {"closed_at": AT, "read_seconds": 1.0},
        "lasting:refused": {"shop.t": {"why": "w", "at": AT}},
    },
}
OBSERVED = plain(StoredObservation.of(HEALTHY, diagnose(HEALTHY)))
SUMMARY = {
    "run_id": "r", "folder": "r", "kind": "recovery", "problem": "GTID_PURGED", "strategy": "full_snapshot", "verdict": "MATCH",
    "ended_at": AT, "seconds": 1.0, "dag_id": "d", "differs": ["shop.t"], "verified_through": {"shop.t": AT},
}  # fmt: skip
SILENCE = plain(Silence("u", AT, "2026-11-29T00:00:00+00:00", "why", "GTID_PURGED"))
OUTAGES = plain(OutageLog(3, (Outage("GTID_PURGED", 3, AT, AT, 1),)))
NOTES = asdict(notes.Notes("n", "t", "l", 3, (("id", "bigint"),), "{}", 5.0))
LETTER = {
    "table": "shop.t", "topic": "t", "topic_id": "i", "partition": 0, "offset": 5, "key": "YQ==", "value": None, "reason": "r",
    "first_seen": AT, "resolved_at": None, "attempts": 1,
}  # fmt: skip
RECORD = {
    "index": "i", "alias": "a", "table": "shop.t", "columns": [["id", "bigint"]], "base_columns": [], "commits": [], "before": [],
}  # fmt: skip
COMMIT_SCHEMA = {
    "type": "record", "name": "C", "fields": [
        {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "operationType", "type": ["null", "string"]},
    ],
}  # fmt: skip


class _Store:
    """A control store that holds one text."""

    where = "here"

    def __init__(self, text: str) -> None:
        self.text = text

    def place(self, pipeline: str) -> str:
        return pipeline

    def load(self, pipeline: str) -> StoredDocument:
        return StoredDocument(self.text, "1")

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        self.text = text


def _control(text: str) -> object:
    control = Control(_Store(text), "shop")
    return control.facts(), control.update(lambda state: {**state, "epoch": 5}, "x")


def _summary(key: str) -> Callable[[str], object]:
    def read(text: str) -> object:
        summary = {**STAMP, key: text}
        return Stamp.from_summary(summary), ChunkLedger.from_summary(summary), Applied.from_summary(summary)

    return read


def _report_folder() -> Callable[[str], Callable[[bytes], object]]:
    root = Path(tempfile.mkdtemp(prefix="cdc-fuzz-"))

    def of(name: str) -> Callable[[bytes], object]:
        folder = root / name
        place = folder / "shop" / ("run-1" if name == REPORT else "")
        place.mkdir(parents=True)
        store = ReportStore(str(folder))

        def read(content: bytes) -> object:
            (place / name).write_bytes(content)
            # the page of all pipelines has a row for each, whatever its files hold
            row = view.row(store, "shop", NOW)
            return row.urgency, row.data_age, row.expected, view.timeline(row), row.chart, row.last_runs, store.report("shop", "run-1"), (
                store.silences("shop"), store.runs("shop"), store.observation("shop"), store.silence("shop", "X", AT),
            )  # fmt: skip

        return read

    return of


def _outages(value: dict[str, Any]) -> object:
    log = OutageLog.from_json(value)
    return advance("shop", log, Sighting("HEALTHY", 3, AT), AlertPolicy(), rules_for(PIPELINE).ranks)


def _timeline() -> Callable[[bytes], object]:
    folder = Path(tempfile.mkdtemp(prefix="cdc-fuzz-"))
    (folder / ".hoodie" / "timeline").mkdir(parents=True)
    path = folder / ".hoodie" / "timeline" / "20261128020000000_20261128020001000.commit"

    def read(content: bytes) -> object:
        from airflow_cdc.sinks.hudi import timeline

        path.write_bytes(content)
        timeline._read.cache_clear()
        return [(one.stamp, one.ledger) for one in commits(folder)]

    return read


def _commit() -> bytes:
    out = io.BytesIO()
    record = {"extraMetadata": {EPOCH: "3", **STAMP}, "operationType": "UPSERT"}
    fastavro.writer(out, fastavro.parse_schema(COMMIT_SCHEMA), [record])
    return out.getvalue()


STORED = _report_folder()
PARSERS = (
    Parser("control document", _control, json_texts(CONTROL), (UnknownStateError,)),
    Parser("entry of the ledger", LedgerEntry.from_json, objects(*CONTROL["ledger"].values()), MALFORMED),
    Parser("stamp: watermark", _summary(WATERMARK), json_texts(WATERMARK_JSON), (UnknownStateError,)),
    Parser("stamp: offsets", _summary(OFFSETS), json_texts(json.loads(STAMP[OFFSETS])), (UnknownStateError,)),
    Parser("stamp: ledger of chunks", _summary(LEDGER), json_texts(json.loads(STAMP[LEDGER])), (UnknownStateError,)),
    Parser("stamp: what was applied", _summary(APPLIED), json_texts(json.loads(STAMP[APPLIED])), (UnknownStateError,)),
    Parser(
        "definition in a table's properties",
        lambda text: load_definition({"cdc.definition": text}),
        json_texts(TABLE.to_json()),
        (SchemaError,),
    ),
    Parser("pipeline as JSON", read_pipeline, json_texts(PIPELINE.to_json()), (CdcError,)),
    Parser("stored observation", STORED(OBSERVATION), json_bytes(OBSERVED), (CdcError,)),
    Parser("stored runs", STORED(RUNS), json_bytes([SUMMARY, SUMMARY]), (CdcError,)),
    Parser("stored silences", STORED(SILENCES), json_bytes([SILENCE]), (CdcError,)),
    Parser("report of a run", STORED(REPORT), json_bytes(REPORT_OBJECT.to_json()), (CdcError,)),
    Parser("report as text", RecoveryReport.from_json, json_texts(REPORT_OBJECT.to_json()), (CdcError, *MALFORMED)),
    Parser("outages", _outages, objects(OUTAGES)),
    Parser("record of OpenSearch", Record.from_json, objects(RECORD), (UnknownStateError,)),
    Parser("notes of Hudi", in_file(notes.read), json_bytes(NOTES), (UnknownStateError,)),
    Parser("dead letter of Hudi", in_file(letters._read), json_bytes(LETTER), (UnknownStateError,)),
    Parser("commit of Hudi", _timeline(), blobs(_commit()), (UnknownStateError,)),
)
