"""A run of cdc_watch through Airflow: the trigger fires, the task resumes, and one recovery is asked for, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec, patch

import pytest
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from airflow_cdc.alerting.outage import Outage, OutageLog, Progress
from airflow_cdc.core.codec import plain
from airflow_cdc.dags import _watch
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.decisions.diagnosis.strategy import Plan
from airflow_cdc.flows import watch as flow
from airflow_cdc.triggers import watch as trigger
from tests.unit.builders import HEALTHY
from tests.unit.dags.test_dags import in_process, run_here

LOST = Diagnosis("GTID_PURGED", "Transactions were purged.", {"x": "1"}, ("full_snapshot",), "runbook#gtid_purged")
RUN_ID = "watch__shop__gtid_purged_e3__20261123T090000"
FACTS = {
    "pipeline": "shop",
    "outage": "gtid_purged_e3",
    "alerts": [],
    "diagnosis": plain(LOST),
    "plan": {"strategy": "full_snapshot", "refused": False},
    "recover": True,
    "recovery_run_id": RUN_ID,
    "outages": {"version": 1, "outages": []},
}


@pytest.fixture
def world(connections: dict[str, str], registry: Path, airflow_db: Path) -> Iterator[dict[str, Any]]:
    """What the trigger sees, what the task tells, and the recovery that would be triggered."""
    plan = create_autospec(Plan, instance=True)
    made = {
        "look": create_autospec(
            flow.look, return_value=flow.Look(HEALTHY, LOST, plan, Progress(OutageLog()), None, True)
        ),
        "tell": create_autospec(flow.tell, return_value=dict(FACTS)),
        "recover": create_autospec(TriggerDagRunOperator.execute, return_value=None),
    }
    with (
        patch.object(trigger, "look", made["look"]),
        patch.object(flow, "tell", made["tell"]),
        patch.object(TriggerDagRunOperator, "execute", made["recover"]),
    ):
        yield made


def ran() -> tuple[str, dict[str, str]]:
    return run_here(_watch.watch_dags()["cdc_watch__shop"])


@in_process
def test_an_outage_asks_for_one_recovery_under_its_name(world: dict[str, Any]) -> None:
    assert ran() == ("success", {"watch": "success", "recover": "success"})
    task = world["recover"].call_args.args[0]
    assert task.trigger_run_id == RUN_ID
    assert task.conf["pipeline"] == "shop"


@in_process
def test_an_outage_that_is_for_a_person_asks_for_none(world: dict[str, Any]) -> None:
    world["tell"].return_value = {**FACTS, "recover": False}
    assert ran() == ("success", {"watch": "success", "recover": "skipped"})
    assert world["recover"].call_count == 0


@in_process
def test_the_next_run_knows_what_this_one_told(world: dict[str, Any]) -> None:
    """Through Airflow's own XCom: it counts while the control table cannot be read."""
    known = OutageLog(7, (Outage("UNKNOWN", 0, "2026-11-23T09:00:00+00:00", "2026-11-23T09:15:00+00:00", 1),))
    world["tell"].return_value = {**FACTS, "recover": False, "outages": plain(known)}
    ran()
    ran()
    assert world["look"].call_args.args[1] == known
