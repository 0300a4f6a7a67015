"""`airflow cdc verify`, `check`, `apply`, and what is refused while a recovery is open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.cli import repair, runs, trigger
from airflow_cdc.control.control import Control
from airflow_cdc.core.observation import ControlFacts, OpenFacts
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from tests.unit.builders import HEALTHY
from tests.unit.conftest import Answer
from tests.unit.core.test_report import REPORT


@pytest.fixture
def ended(spec: Any) -> Callable[..., Any]:
    """`ended(state, tasks, …)`: the run `r_1` is triggered and ends so; returns what triggered it."""
    spec(runs, "refuse_while_open", None)

    def make(state: str, tasks: dict[str, str], reasons: dict[str, str] | None = None, **left: Any) -> Any:
        spec(trigger, "wait", trigger.Ended(state, tasks, 12.0, reasons or {}))
        spec(trigger, "left", left)
        return spec(trigger, "start", "r_1")

    return make


@pytest.mark.parametrize(("verdict", "status"), [("MATCH", 0), ("INCONCLUSIVE", 3)])
def test_verify_compares_now_and_shows_each_table(
    verdict: str, status: int, cdc: Callable[..., Answer], ended: Any, registry: Path
) -> None:
    started = ended("success", {"compare": "success", "approve": "skipped"})
    report = RecoveryReport.from_json({**REPORT.to_json(), "run_id": "r_1", "verdict": verdict})
    folder = registry.parent / "reports" / "shop" / "r_1"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(report.to_json()))
    answer = cdc("verify", "shop", "--table", "shop.orders")
    assert answer.status == status
    started.assert_called_once_with("cdc_repair", {"pipeline": "shop", "tables": ["shop.orders"], "dry_run": True})
    assert f"{verdict}, run r_1: success after 12 s" in answer.err
    assert all(table.table in answer.out for table in report.tables)


def test_check_and_apply_only_trigger_unless_they_wait(cdc: Callable[..., Answer], ended: Any) -> None:
    started = ended("success", {})
    assert cdc("check", "shop", "-o", "json").data == {"dag_id": "cdc_nightly_consistency__shop", "run_id": "r_1"}
    assert cdc("apply", "shop", "-o", "json").data == {"dag_id": "cdc_apply__shop", "run_id": "r_1"}
    assert [call.args for call in started.call_args_list] == [
        ("cdc_nightly_consistency__shop", {}),
        ("cdc_apply__shop", {"tables": []}),
    ]


def test_apply_that_waits_shows_what_became_of_each_table(cdc: Callable[..., Answer], ended: Any) -> None:
    tables = {"shop.orders": {"records": 7, "published": True}, "shop.customers": {"records": 0, "reread": True}}
    ended("success", {"apply": "success"}, apply={"tables": tables})
    answer = cdc("apply", "shop", "--wait")
    assert answer.status == 0
    assert [line.split("|")[0].strip() for line in answer.out.splitlines()[2:4]] == ["shop.orders", "shop.customers"]
    ended("success", {"apply": "skipped"}, {"apply": "all tables are at the ends of their topics"})
    idle = cdc("apply", "shop", "--wait", "-o", "json")
    assert (idle.status, idle.data["outcome"]) == (0, "all tables are at the ends of their topics")
    ended("failed", {"apply": "failed"}, {"apply": "2 tables stopped"})
    stopped = cdc("apply", "shop", "--wait")
    assert (stopped.status, "error: apply: 2 tables stopped" in stopped.err) == (1, True)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("words", [("repair", "shop", "--dry-run"), ("verify", "shop"), ("check", "shop")])
def test_while_a_recovery_is_open_comparing_is_refused_in_one_sentence(
    words: tuple[str, ...], kept: bool, cdc: Callable[..., Answer], spec: Any, clients: Any
) -> None:
    clients.control.facts.return_value = ControlFacts(2, OpenFacts("manual__1", offset_kept=kept))
    started = spec(trigger, "start", "r_1")
    answer = cdc(*words)
    assert answer.status == 1
    assert answer.err.startswith("error: nothing is compared or repaired while the recovery of run manual__1 is open")
    assert 'airflow cdc abandon shop --reason "…"' in answer.err
    assert (answer.err.count("\n"), started.call_count) == (1, 0)


@pytest.fixture
def clients(spec: Any) -> Any:
    """The clients of the run that the commands open."""
    made = create_autospec(Parts, instance=True)
    made.control = create_autospec(Control, instance=True)
    for module in (repair, runs):
        spec(module, "run_of", Run(HEALTHY.pipeline, made, "cli", "reports"))
    return made
