"""What a recovery of many tables costs the control table: a change per step, not one per table, and nothing that stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import SinkError
from airflow_cdc.flows import close as closing
from airflow_cdc.flows import observe as observing
from airflow_cdc.flows import publish as publishing
from airflow_cdc.flows.run import Run
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.sinks.iceberg.client import Lake
from tests.contract.lakes import run_on
from tests.recoveries import advance_to

TABLES = [f"shop.table_{number:03}" for number in range(200)]
MATCH = {"verdict": "MATCH", "snapshot_id": 7, "source_rows": 1, "sink_rows": 1, "compared_at": {"position": "x" * 200}}


@pytest.fixture
def run(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A verified recovery of 200 tables; their publishing itself is left out."""
    made = run_on(lake, tmp_path, *TABLES)
    control = made.clients.control
    control.acquire(made.run_id, 600)
    control.open_recovery(made.run_id, tables=TABLES)
    advance_to(control, made.run_id, verified=dict.fromkeys(TABLES, MATCH))
    monkeypatch.setattr(publishing, "_refused", lambda *_: {})
    monkeypatch.setattr(publishing, "mirror", lambda *_: None)
    monkeypatch.setattr(publishing, "_publish_one", lambda *_: 7)
    return made


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the control table was written for."""
    seen: list[str] = []
    real = Control.update

    def update(control: Control, change: Any, what: str) -> Any:
        seen.append(what)
        return real(control, change, what)

    monkeypatch.setattr(Control, "update", update)
    return seen


def test_publishing_writes_the_document_no_more_often_than_its_tables_double(run: Run, commits: list[str]) -> None:
    publishing.publish(run)
    assert len([what for what in commits if what.startswith("change of the recovery")]) <= 10
    assert set(run.clients.control.state()["recovery"]["published"]) == set(TABLES)


def test_a_look_at_tables_without_a_stamp_reads_the_document_once(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the stamps of all tables: 2,000 readings of 2,000 stamps were most of what writing an offset took."""
    made = run_on(lake, tmp_path, *TABLES[:20])
    reads: list[object] = []
    for table in TABLES[:20]:
        lake.ensure_table(made.pipeline.sink.namespace, made.pipeline.sink_table(table), [("id", "bigint")])
    real = Control._read

    def read(control: Control, stored: Any) -> Any:
        reads.append(stored)
        return real(control, stored)

    monkeypatch.setattr(Control, "_read", read)
    facts = observing._sink(made)
    assert [(one.exists, one.stamp) for one in facts.tables.values()] == [(True, None)] * 20
    assert len(reads) == 1


def test_what_was_published_before_an_error_is_known_but_for_the_last_few(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of them is found on main by the next try."""

    def half(_run: Run, _open: Any, table: str) -> int:
        if table == TABLES[150]:
            raise SinkError("the catalog is away")
        return 7

    monkeypatch.setattr(publishing, "_publish_one", half)
    with pytest.raises(SinkError):
        publishing.publish(run)
    assert set(run.clients.control.state()["recovery"]["published"]) == set(TABLES[:128])


def test_a_closed_recovery_stays_beside_its_report_and_not_in_the_ledger(run: Run) -> None:
    publishing.publish(run)
    closing.close(run)
    ledger = run.clients.control.ledger_get(run.run_id)
    assert TABLES[0] not in str(ledger)
    report = closing.assemble(run)
    assert [table.table for table in report.tables] == TABLES
    assert {str(table.verdict) for table in report.tables} == {"MATCH"}


def test_a_report_folder_that_is_away_keeps_no_recovery_open(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise SinkError("no such bucket")

    monkeypatch.setattr(ReportStore, "write", away)
    publishing.publish(run)
    assert closing.close(run)["closed"]
    assert TABLES[0] in str(run.clients.control.ledger_get(run.run_id)["document"])
