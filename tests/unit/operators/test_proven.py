"""Tables that were proven equal are assets: other DAGs can be scheduled on them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.asset import AssetModel
from airflow.sdk import DAG, Asset, AssetAlias
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc import metrics
from airflow_cdc.core.report import Verdict
from airflow_cdc.dags import _checks, _recovery
from airflow_cdc.flows import checks, close
from airflow_cdc.operators.proven import PROVEN, AnnounceOperator, proven_asset
from airflow_cdc.operators.repair import ConcludeOperator
from airflow_cdc.operators.report import ReportOperator
from airflow_cdc.reports.store import ReportStore
from tests.odd_names import ODD_TABLES
from tests.unit.operator_support import DECISION, Ledger, context


def announced(made: Any) -> list[tuple[str, dict[str, Any]]]:
    events: list[tuple[str, dict[str, Any]]] = made["outlet_events"][PROVEN].added
    return events


def test_each_published_table_is_an_event_of_the_report(step: Any, ledger: Ledger) -> None:
    step(close, "report", {})
    made = context({"diagnose": DECISION, "publish": {"published": {"shop.orders": 7, "shop.customers": 8}}})
    ReportOperator(task_id="report", pipeline="shop").execute(made)
    assert [uri for uri, _ in announced(made)] == ["cdc://shop/proven/shop.customers", "cdc://shop/proven/shop.orders"]
    assert announced(made)[0][1] == {
        "pipeline": "shop", "table": "shop.customers", "run_id": "manual__1", "by": "recovery",
    }  # fmt: skip


def test_a_run_that_published_nothing_announces_nothing(step: Any, ledger: Ledger) -> None:
    step(close, "report", {})
    made = context({"diagnose": DECISION})
    ReportOperator(task_id="report", pipeline="shop").execute(made)
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
    facts = ConcludeOperator(task_id="verdict", pipeline="shop").execute(context())
    made = context({"verdict": facts})
    announcing = AnnounceOperator(task_id="announce", pipeline="shop")
    if proven:
        announcing.execute(made)
    else:
        with pytest.raises(AirflowSkipException):
            announcing.execute(made)
    assert [uri for uri, _ in announced(made)] == ([proven_asset("shop", "shop.orders").uri] if proven else [])


def test_a_dag_can_wait_for_it_and_own_outlets_stay() -> None:
    with DAG("marts", schedule=[proven_asset("shop", "shop.orders")]):
        task = AnnounceOperator(task_id="announce", pipeline="shop", outlets=[Asset("mine://x")])
    assert [type(one) for one in task.outlets] == [Asset, AssetAlias]


def test_no_run_fails_because_airflow_could_not_record_its_events(registry: Path) -> None:
    """Airflow on SQLite fails a task whose many assets take longer to record than its client waits: all was published by then."""
    dags = [*_checks.nightly_dags().values(), _checks.repair_dag(), _recovery.recovery_dag()]
    for dag in dags:
        announcing = [task for task in dag.tasks if PROVEN in task.outlets]
        assert [task.task_id for task in announcing] == (["report"] if "recovery" in dag.dag_id else ["announce"])
        assert all(task.is_teardown and not task.on_failure_fail_dagrun for task in announcing)


def test_tables_of_any_name_have_assets_of_their_own_that_airflow_accepts() -> None:
    """Airflow's API server refuses a URI that is not ASCII, when main is published already; and it drops what follows a #."""
    made = [proven_asset("shop", f"shop.{table}") for table in ODD_TABLES]
    assert len({asset.uri for asset in made}) == len({asset.name for asset in made}) == len(ODD_TABLES)
    for asset in made:
        AssetModel(uri=asset.uri, name=asset.name)
    assert proven_asset("shop", "shop.Größe") == Asset("cdc://shop/proven/shop.Gr%C3%B6%C3%9Fe")
