"""Tables that were proven equal are assets: other DAGs can be scheduled on them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetAlias

from airflow_cdc import metrics
from airflow_cdc.core.report import Verdict
from airflow_cdc.flows import checks
from airflow_cdc.flows import publish as publishing
from airflow_cdc.operators.proven import PROVEN, proven_asset
from airflow_cdc.operators.publish import PublishOperator
from airflow_cdc.operators.repair import ConcludeOperator
from airflow_cdc.reports.store import ReportStore
from tests.unit.operator_support import context


def announced(made: Any) -> list[tuple[str, dict[str, Any]]]:
    events: list[tuple[str, dict[str, Any]]] = made["outlet_events"][PROVEN].added
    return events


def test_each_published_table_is_an_event(step: Any) -> None:
    step(publishing, "publish", {"published": {"shop.orders": 7, "shop.customers": 8}})
    made = context()
    PublishOperator(task_id="publish", pipeline="shop").execute(made)
    assert [uri for uri, _ in announced(made)] == ["cdc://shop/proven/shop.customers", "cdc://shop/proven/shop.orders"]
    assert announced(made)[0][1] == {
        "pipeline": "shop", "table": "shop.customers", "run_id": "manual__1", "by": "recovery",
    }  # fmt: skip


def test_a_failed_publish_announces_nothing(step: Any) -> None:
    step(publishing, "publish", RuntimeError("killed"))
    made = context()
    with pytest.raises(RuntimeError):
        PublishOperator(task_id="publish", pipeline="shop").execute(made)
    assert announced(made) == []


@pytest.mark.parametrize(
    ("verdict", "proven"), [(Verdict.MATCH, True), (Verdict.MISMATCH, False), (Verdict.INCONCLUSIVE, False)]
)
def test_a_check_announces_the_tables_that_are_equal(
    step: Any, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, proven: bool
) -> None:
    step(checks, "conclude", {"verdict": verdict})
    table = SimpleNamespace(table="shop.orders", verdict=verdict)
    monkeypatch.setattr(ReportStore, "report", lambda *_: SimpleNamespace(tables=(table,)))
    monkeypatch.setattr(metrics, "of_report", lambda _: None)
    made = context()
    ConcludeOperator(task_id="verdict", pipeline="shop").execute(made)
    assert [uri for uri, _ in announced(made)] == ([proven_asset("shop", "shop.orders").uri] if proven else [])


def test_a_dag_can_wait_for_it_and_own_outlets_stay() -> None:
    with DAG("marts", schedule=[proven_asset("shop", "shop.orders")]):
        task = PublishOperator(task_id="publish", pipeline="shop", outlets=[Asset("mine://x")])
    assert [type(one) for one in task.outlets] == [Asset, AssetAlias]
