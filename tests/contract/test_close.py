"""Closing a recovery, and closing it again after a kill: the lease goes, and nothing else happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import LeaseHeldError
from airflow_cdc.core.report import Verdict
from airflow_cdc.decisions.diagnosis.strategy import DETOUR
from airflow_cdc.flows.close import close, report
from airflow_cdc.flows.run import Run
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import CHECK, RunSummary
from airflow_cdc.sinks.iceberg.client import Lake
from tests.contract.lakes import run_on
from tests.recoveries import advance_to


@pytest.fixture
def run(lake: Lake, tmp_path: Path) -> Run:
    """A run whose recovery is published, and nothing but the control table is left to change."""
    made = run_on(lake, tmp_path, "shop.orders")
    control = made.clients.control
    control.acquire(made.run_id, 60)
    control.open_recovery(made.run_id, tables=["shop.orders"])
    advance_to(control, made.run_id, published={"shop.orders": 7})
    return made


def test_a_close_that_was_killed_before_it_let_the_lease_go_ends_by_that(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(Control, "release", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            close(run)
    control = run.clients.control
    assert (control.state()["recovery"], control.state()["lease"]["owner"]) == (None, "run:1")
    assert close(run) == {"closed": True, "epoch": 1}
    assert control.state()["lease"] is None
    assert close(run) == {"closed": True, "epoch": 1}


def test_a_recovery_whose_lease_is_lost_is_not_closed(run: Run) -> None:
    run.clients.control.release(run.run_id)
    run.clients.control.acquire("another", 60)
    with pytest.raises(LeaseHeldError):
        close(run)
    assert run.clients.control.state()["recovery"]["run_id"] == "run:1"


@pytest.mark.parametrize(("published", "left"), [({}, ("shop.orders",)), ({"shop.orders": 7}, ())])
def test_a_recovery_proves_what_a_check_found_gone_once_it_is_published(
    run: Run, published: dict[str, int], left: tuple[str, ...]
) -> None:
    """Before that, what was compared is a stage that no reader sees."""
    store, at = ReportStore(run.report_dir), "2026-11-21T02:00:00+00:00"
    night = RunSummary(
        "night", "night", CHECK, "SINK_DIFFERS", "none", Verdict.MISMATCH, at, 1.0, differs=("shop.orders",)
    )
    store.keep_run(run.pipeline.name, night)
    advance_to(run.clients.control, run.run_id, verified={"shop.orders": {"verdict": "MATCH"}}, published=published)
    report(run)
    newest = store.runs(run.pipeline.name)[0]
    assert (newest.run_id, newest.kind, newest.differs) == (run.run_id, "recovery", left)


def test_what_is_compared_after_a_move_of_the_position_is_what_readers_see(run: Run) -> None:
    """Such a recovery has no stage: rows that differ then are known to differ, also when its report is written last."""
    control = run.clients.control
    advance_to(control, run.run_id, strategy=DETOUR)
    control.ledger_set(run.run_id, "decision", {"plan": {"strategy": DETOUR}})
    control.ledger_set(run.run_id, "check", {"shop.orders": {"verdict": "MISMATCH", "different": 1}})
    report(run)
    newest = ReportStore(run.report_dir).runs(run.pipeline.name)[0]
    assert (newest.kind, newest.verdict, newest.differs) == ("recovery", "MISMATCH", ("shop.orders",))
