"""`airflow cdc repair`: what it triggers, what it shows, and its exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.cli import repair as repairing
from airflow_cdc.cli import trigger
from airflow_cdc.core.report import ComparedAt, RecoveryReport, TableReport, Verdict
from tests.unit.conftest import Answer


@pytest.fixture(autouse=True)
def no_recovery_is_open(spec: Any) -> Any:
    return spec(repairing, "refuse_while_open", None)


KEYS = {"shop.orders": [{"action": "delete", "why": "ghosts", "key": ["a|b", 7]}]}


def stored(registry: Path, verdict: Verdict) -> None:
    """What the driver leaves behind."""
    wrong: dict[str, Any] = {"ghosts": 1} if verdict is Verdict.MISMATCH else {"ghosts": 0}
    zero: dict[str, Any] = dict.fromkeys(
        ("source_rows", "sink_rows", "missing", "different", "leaves", "leaves_rechecked"), 0
    )
    samples = ("the source is down",) if verdict is Verdict.INCONCLUSIVE else ()
    table = TableReport(
        "shop.orders",
        **zero,
        **wrong,
        columns_not_compared=(),
        compared_at=ComparedAt(1, "p"),
        verdict=verdict,
        samples=samples,
    )
    made = RecoveryReport("shop", "r_1", "x", {}, "none", "nothing", None, 0, None, None, (table,), ())
    folder = registry.parent / "reports" / "shop" / "r_1"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(made.to_text())
    (folder / "repair.json").write_text(json.dumps(KEYS if verdict is Verdict.MISMATCH else {}))


def test_repair_triggers_its_dag_with_what_was_asked(cdc: Callable[..., Answer], spec: Any) -> None:
    started = spec(trigger, "start", "r_1")
    answer = cdc("repair", "shop", "--table", "shop.orders", "--note", "why", "-o", "json")
    assert (answer.status, answer.data) == (0, {"dag_id": "cdc_repair", "run_id": "r_1"})
    asked = {"pipeline": "shop", "tables": ["shop.orders"], "dry_run": False, "approved": False, "note": "why"}
    started.assert_called_once_with("cdc_repair", asked)


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Verdict.MISMATCH, (1, "a|b, 7")),
        (Verdict.MATCH, (0, "MATCH")),
        (Verdict.INCONCLUSIVE, (3, "the source is down")),
    ],
)
def test_a_dry_run_waits_and_shows_every_key(
    verdict: Verdict, told: tuple[int, str], cdc: Callable[..., Answer], spec: Any, registry: Path
) -> None:
    started = spec(trigger, "start", "r_1")
    waited = spec(trigger, "wait", trigger.Ended("success", {"compare": "success"}))
    stored(registry, verdict)
    answer = cdc("repair", "shop", "--dry-run")
    assert answer.status == told[0]
    assert told[1] in answer.out
    assert started.call_args.args[1]["dry_run"] is True
    assert waited.call_args.kwargs["dag_id"] == "cdc_repair"


def test_a_run_that_left_no_report_failed(cdc: Callable[..., Answer], spec: Any) -> None:
    spec(trigger, "start", "r_1")
    spec(trigger, "wait", trigger.Ended("failed", {"compare": "failed"}))
    assert cdc("repair", "shop", "--wait").status == 1


@pytest.mark.parametrize(("verdict", "status"), [(Verdict.MATCH, 1), (Verdict.MISMATCH, 1), (Verdict.INCONCLUSIVE, 3)])
def test_a_run_that_failed_is_never_equal_whatever_its_report_says(
    verdict: Verdict, status: int, cdc: Callable[..., Answer], spec: Any, registry: Path
) -> None:
    spec(trigger, "start", "r_1")
    spec(trigger, "wait", trigger.Ended("failed", {"compare": "success", "publish": "failed"}))
    stored(registry, verdict)
    assert cdc("repair", "shop", "--wait").status == status


def test_repair_refuses_a_table_of_another_pipeline(cdc: Callable[..., Answer], spec: Any) -> None:
    started = spec(trigger, "start", "r_1")
    answer = cdc("repair", "shop", "--table", "shop.order")
    assert answer.status == 2
    assert "has no table shop.order" in answer.err
    assert started.call_count == 0
