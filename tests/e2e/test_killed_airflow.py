"""Airflow itself killed in the middle of a recovery: its scheduler with all below it, and a task's supervisor alone."""

from __future__ import annotations

import os
import signal

import pytest

from stack.guard import parents
from stack.shop import connectors
from stack.shop.gap import make_gap
from tests.e2e.conftest import Shop
from tests.e2e.test_recovery import control, reader, report, wait_settled

# the world's start and first copy count too, and Airflow takes its time to notice
pytestmark = pytest.mark.timeout(1800)
DAG = "cdc_recovery"
ENDED = ("success", "failed")


def pid_of(shop: Shop, run_id: str, task: str) -> int:
    """The process of a running task."""
    one = shop.client.wait_task(DAG, run_id, task, ("running",), timeout=600, interval=0.1)
    return int(one["pid"])


def cleared_to_the_end(shop: Shop, run_id: str, task: str) -> None:
    """The task's end, however long Airflow takes to notice; one that failed is cleared, as a person would.

    What a killed scheduler left running is begun anew by the next one; a task without a supervisor fails.
    """
    one = shop.client.wait_task(DAG, run_id, task, ENDED, timeout=300)
    if one["state"] == "failed":
        wait_settled(shop, run_id)
        shop.client.clear(DAG, run_id, [task], downstream=task != "hold_binlog")


def test_a_recovery_ends_in_match_though_scheduler_and_supervisor_are_killed(shop: Shop) -> None:
    worker = shop.worker
    connectors.stop(worker, "shop")
    make_gap(shop.world.mysql.connect(), alter=False, shift=1)
    connectors.failure(worker, "shop")
    with reader(shop, "customers", "orders") as seen:
        run_id = shop.trigger()
        pid_of(shop, run_id, "recover")
        airflow = shop.world.stack.airflow
        assert airflow is not None
        # its guard then ends the tasks and drivers below it, as with a machine
        os.kill(airflow.children["scheduler"].server_pid, signal.SIGKILL)
        shop.world.stack.restart_airflow("scheduler")
        for task in ("hold_binlog", "recover"):
            cleared_to_the_end(shop, run_id, task)
        os.kill(parents()[pid_of(shop, run_id, "verify")], signal.SIGKILL)
        cleared_to_the_end(shop, run_id, "verify")
        state = shop.finish(run_id)
        assert state == "success", shop.client.states(DAG, run_id)
    made = report(shop, run_id)
    assert made["verdict"] == "MATCH", made
    assert {table: len(states) for table, states in seen.items()} == {"customers": 2, "orders": 2}
    assert control(shop).state()["recovery"] is None
