"""INV 37, with real processes: a lease lives as long as its process, and only a dead run's is taken over."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import LeaseHeldError, SinkError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows.close import let_go
from airflow_cdc.flows.lease import Lives, ended_by, free_dead, kept
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from airflow_cdc.spark_apps.driver.lease import leased
from tests.contract.lakes import run_on

ROOT = Path(__file__).parents[2]
LEASE = 2.0
DAG = "cdc_recovery"
Start = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def control(lake: Lake) -> Control:
    """The recovery `run:1` of the DAG has the lease, for the time that a step's lease lasts."""
    made = Control(IcebergControlStore(lake), "shop")
    made.acquire("run:1", LEASE, dag_id=DAG)
    return made


@pytest.fixture
def start(control: Control, tmp_path: Path) -> Iterator[Start]:
    """Start the process that carries out a step of `run:1`; it is in the step when this returns."""
    processes: list[subprocess.Popen[bytes]] = []

    def begun() -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.contract.lease_worker", str(tmp_path), str(LEASE), "run:1"]
        process = subprocess.Popen(words, cwd=ROOT)
        processes.append(process)
        control.renew("run:1", 60)  # until the interpreter has started
        poll_until(lambda: (tmp_path / "began").exists() or None, timeout=60, interval=0.05, what="the step to begin")
        return process

    yield begun
    for process in processes:
        process.kill()
        process.wait(timeout=30)


def ran_out(control: Control) -> bool | None:
    return datetime.fromisoformat(control.state()["lease"]["expires_at"]) <= datetime.now(UTC) or None


def taken(control: Control, lives: Lives | None) -> bool:
    """Whether another run gets the lease now."""
    try:
        control.acquire("run:2", LEASE, dag_id=DAG, ended=ended_by(lives))
    except LeaseHeldError:
        return False
    return True


def test_inv_37_a_live_step_keeps_the_lease_for_longer_than_it_lasts_and_a_killed_one_does_not(
    control: Control, start: Start, tmp_path: Path
) -> None:
    process = start()
    renewals: set[str] = set()

    def renewed() -> bool | None:
        renewals.add(control.state()["lease"]["expires_at"])
        if taken(control, lambda *_: False):
            raise AssertionError("the lease of a live step was taken over")
        return True if len(renewals) > 6 else None

    poll_until(renewed, timeout=60, interval=0.1, what="six renewals, which is two lifetimes of the lease")
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    poll_until(lambda: taken(control, lambda *_: False) or None, timeout=30, interval=0.1, what="the lease to be free")


def test_inv_37_a_frozen_process_has_lost_the_lease_only_if_airflow_says_that_its_run_has_ended(
    control: Control, start: Start, tmp_path: Path
) -> None:
    process = start()
    process.send_signal(signal.SIGSTOP)
    poll_until(lambda: ran_out(control), timeout=30, interval=0.1, what="the lease to run out")
    assert not taken(control, lambda *_: True)
    assert not taken(control, lambda *_: None), "not to know is no death"
    process.send_signal(signal.SIGCONT)
    (tmp_path / "end").touch()
    assert process.wait(timeout=60) == 0
    assert control.state()["ledger"]["run:1"]["step:long"]["state"] == "done"


def test_inv_37_a_frozen_process_whose_run_was_ended_finds_its_lease_lost(
    control: Control, start: Start, tmp_path: Path
) -> None:
    process = start()
    process.send_signal(signal.SIGSTOP)
    asked: list[tuple[str, str]] = []

    def ended(dag_id: str, run_id: str) -> bool:
        asked.append((dag_id, run_id))
        return False

    poll_until(lambda: taken(control, ended) or None, timeout=30, interval=0.1, what="the lease to be taken over")
    assert set(asked) == {(DAG, "run:1")}
    process.send_signal(signal.SIGCONT)
    (tmp_path / "end").touch()
    assert process.wait(timeout=60) == 1
    assert "lost: run:2 holds it" in control.state()["ledger"]["run:1"]["step:long"]["error"]


def test_a_run_between_two_of_its_tasks_keeps_its_recovery(
    control: Control, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next task may wait for a slot for longer than the lease lasts."""
    control.open_recovery("run:1", tables=["shop.orders"])
    poll_until(lambda: ran_out(control), timeout=30, interval=0.1, what="the lease to run out")
    other = run_on(lake, tmp_path, "shop.orders", run_id="run:2")
    decision: dict[str, Any] = {"tables": ["shop.orders"], "plan": {"strategy": "replica_detour"}}
    with pytest.raises(LeaseHeldError, match=r"expired at .* but Airflow does not say that the run has ended"):
        open_recovery(replace(other, lives=lambda *_: True), Decision.from_json(decision))


def test_inv_37_a_run_that_ended_lets_go_at_once_and_a_cleared_task_takes_the_lease_again(
    control: Control, lake: Lake, tmp_path: Path
) -> None:
    """Its recovery is open: the next command may finish it now, not only when the lease has run out after 15 minutes."""
    control.acquire("run:1", 900, dag_id=DAG)
    control.open_recovery("run:1", tables=["shop.orders"])
    let_go(run_on(lake, tmp_path, "shop.orders", run_id="run:1"))
    assert not taken(control, lambda *_: True), "a run that goes on keeps it, although it let go"
    control.renew("run:1", 900)
    let_go(run_on(lake, tmp_path, "shop.orders", run_id="run:1"))
    assert taken(control, lambda *_: False)
    with pytest.raises(LeaseHeldError, match="is lost: run:2 holds it"):
        control.renew("run:1", 900)
    control.release("run:2")
    control.renew("run:1", 900)  # the task that is cleared, after a writer that met the open recovery


def test_inv_37_a_run_without_an_open_recovery_frees_the_lease_and_never_takes_it_again(
    control: Control, lake: Lake, tmp_path: Path
) -> None:
    let_go(run_on(lake, tmp_path, "shop.orders", run_id="run:1"))
    assert taken(control, lambda *_: True)
    let_go(run_on(lake, tmp_path, "shop.orders", run_id="run:1"))
    assert control.state()["lease"]["owner"] == "run:2"
    control.release("run:2")
    with pytest.raises(LeaseHeldError, match="the lease of run:1 is lost"):
        control.renew("run:1", 900)


def test_who_has_no_dag_run_is_dead_once_the_lease_has_run_out(lake: Lake) -> None:
    control = Control(IcebergControlStore(lake), "other")
    control.acquire("apply", 0)
    assert taken(control, lambda *_: True)


def test_a_lost_lease_is_not_renewed_again(lake: Lake) -> None:
    control = Control(IcebergControlStore(lake), "other")
    control.acquire("run:1", 60)
    with pytest.raises(LeaseHeldError, match="is lost"):
        _taken_meanwhile(control)
    assert control.state()["lease"]["owner"] == "run:2"


def test_inv_37_work_that_ends_before_the_next_renewal_asks_whether_the_lease_ran_out_meanwhile(lake: Lake) -> None:
    """A frozen process goes on with its work first and with its renewals later: nothing was renewed here but once."""
    control = Control(IcebergControlStore(lake), "other")
    control.acquire("run:1", 60)
    with pytest.raises(LeaseHeldError, match="is lost: run:2 holds it"):
        _taken_while_frozen(control)


def _taken_while_frozen(control: Control) -> None:
    frozen = _FirstRenewalOnly(control)
    with kept(frozen, "run:1", 0.3):
        poll_until(lambda: ran_out(control), timeout=20, interval=0.05, what="the lease to run out")
        control.acquire("run:2", 60)
        frozen.thawed = True


class _FirstRenewalOnly:
    """A control table that a frozen process cannot reach: its thread's renewals do nothing until it is thawed."""

    def __init__(self, control: Control) -> None:
        self._control, self._renewals, self.thawed = control, 0, False

    def renew(self, owner: str, ttl: float) -> object:
        self._renewals += 1
        if self._renewals > 1 and not self.thawed:
            raise SinkError("frozen")
        return self._control.renew(owner, ttl)


def _taken_meanwhile(control: Control) -> None:
    with kept(control, "run:1", 0.3):
        control.release("run:1")
        control.acquire("run:2", 60)
        poll_until(_thread_gone, timeout=20, interval=0.05, what="the renewals to stop")


def _thread_gone() -> bool | None:
    return None if any(thread.name == "lease" for thread in threading.enumerate()) else True


def test_inv_37_no_other_writer_begins_while_a_recovery_is_open(lake: Lake, tmp_path: Path) -> None:
    """A repair looks before it compares; a recovery that was opened meanwhile may wait for a slot, its lease run out."""
    run = run_on(lake, tmp_path, "shop.orders")
    run.clients.control.open_recovery("recovery", tables=["shop.orders"])
    with pytest.raises(SinkError, match=r"recovery of run recovery is open"), leased(run):
        pytest.fail("it wrote beside a recovery")
    assert run.clients.control.state()["lease"] is None


def test_inv_37_a_writer_that_meets_an_open_recovery_leaves_its_expired_lease_alone(lake: Lake, tmp_path: Path) -> None:
    """The recovery's next task waits for a slot. A writer that took the lease and gave it back would have ended it."""
    run, taken_by = run_on(lake, tmp_path, "shop.orders"), "recovery"
    control = run.clients.control
    control.acquire(taken_by, 0)
    control.open_recovery(taken_by, tables=["shop.orders"])
    with pytest.raises(SinkError, match=r"recovery of run recovery is open"), leased(run):
        pytest.fail("it wrote beside a recovery")
    assert control.renew(taken_by, LEASE).owner == taken_by


def test_inv_37_a_writer_cannot_ask_airflow_so_the_task_that_starts_it_frees_what_a_dead_run_left(
    lake: Lake, tmp_path: Path
) -> None:
    driver = replace(run_on(lake, tmp_path, "shop.orders"), run_id="apply__run:2")
    control = driver.clients.control
    control.acquire("run:1", 0.2, dag_id=DAG)
    poll_until(lambda: ran_out(control), timeout=30, interval=0.1, what="the lease to run out")
    with pytest.raises(LeaseHeldError, match="Airflow does not say that the run has ended"), leased(driver):
        pytest.fail("it took the lease of a run that may be alive")
    for answer, owner in ((True, "run:1"), (None, "run:1"), (False, None)):
        free_dead(replace(driver, run_id="run:2", dag_id="cdc_apply", lives=lambda *_, answer=answer: answer))
        lease = control.facts().lease
        assert (lease.owner if lease else None) == owner
    with leased(driver):
        assert control.state()["lease"]["owner"] == "apply__run:2"
