"""A night on a real scheduler with a real connector and a live writer: what is wrong is named, asked about and mended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import And, BooleanExpression, EqualTo

from airflow_cdc.reports.store import ReportStore
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.snapshots import make
from demo.world import NAMESPACE, PIPELINE
from stack.process import wait_until
from stack.shop.dataset import CATALOG
from tests.e2e.conftest import FAR, RUN_SECONDS, Shop, parked

NIGHT = "cdc_nightly_consistency__{}"
BACKFILL = f"cdc_backfill__{PIPELINE}"
ASKED = ("awaiting_input", "deferred")


@pytest.fixture(scope="module", autouse=True)
def asking(shop: Shop) -> Iterator[None]:
    """The demo asks nobody; these tests have a person."""
    path = shop.world.folder / "pipelines.yaml"
    before = path.read_text()
    declared = yaml.safe_load(before)
    declared["pipelines"][PIPELINE]["policy"] |= {"approval": "when_destructive", "approval_timeout": "1h"}
    path.write_text(yaml.safe_dump(declared, sort_keys=False))
    yield
    path.write_text(before)


def table(shop: Shop, name: str) -> Any:
    return load_catalog(CATALOG, **shop.world.lake).load_table(f"{NAMESPACE}.{name}")


def equal(column: str, value: int | str) -> BooleanExpression:
    return make(EqualTo, term=column, value=value)


def spoil(shop: Shop, name: str, which: BooleanExpression, /, **values: Any) -> int:
    """Overwrite values of some rows of main behind everybody's back; how many."""
    iceberg_table = table(shop, name)
    rows = iceberg_table.scan(row_filter=which).to_arrow()
    changed = [{**row, **values} for row in rows.to_pylist()]
    iceberg_table.overwrite(pa.Table.from_pylist(changed, schema=rows.schema), overwrite_filter=which)
    return len(changed)


def heads(shop: Shop) -> dict[str, int | None]:
    lake = Lake(CATALOG, shop.world.lake)
    return {name: lake.head(NAMESPACE, name) for name in ("customers", "orders", "order_items", "events", "all_types")}


def report(shop: Shop, pipeline: str, run_id: str) -> dict[str, Any]:
    reports = [json.loads(p.read_text()) for p in (shop.world.folder / "reports" / pipeline).rglob("report.json")]
    return next(one for one in reports if one["run_id"] == run_id)


def listed(shop: Shop) -> tuple[str, str, tuple[str, ...]]:
    """What the page is told of the newest run: whose it is, what it was, and which tables are known to differ."""
    newest = ReportStore(str(shop.world.folder / "reports")).runs(PIPELINE)[0]
    return newest.dag_id, newest.kind, newest.differs


def airflow(shop: Shop, *words: str) -> subprocess.CompletedProcess[str]:
    """A command beside the running Airflow."""
    argv = [sys.executable, "-m", "airflow", *words]
    return subprocess.run(
        argv,
        env=shop.server.environment,
        cwd=shop.server.home,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_night_names_asks_and_mends(shop: Shop) -> None:
    """Two wrong rows in two tables; nothing is touched before the answer, and afterwards only these tables are."""
    # rows that the writer never touches: it would mend them
    line = And(equal("order_id", 5), equal("line", 0))
    assert spoil(shop, "customers", equal("code", "x.3"), name="never written") == 1
    assert spoil(shop, "order_items", line, qty=99) == 1
    before, dag = heads(shop), NIGHT.format(PIPELINE)
    run_id = shop.trigger(dag)

    def asked() -> dict[str, Any] | None:
        one = shop.client.tasks(dag, run_id).get("approve") or {}
        states = shop.client.states(dag, run_id)
        assert states.get("compare") != "failed", shop.said(run_id, "compare", dag)
        return one if one.get("state") in ASKED else None

    wait_until(asked, timeout=RUN_SECONDS, what="the night to ask", interval=1.0)
    path = f"/dags/{quote(dag)}/dagRuns/{quote(run_id, safe='')}/taskInstances/approve/-1/hitlDetails"
    body = str(shop.client.call("GET", path)["body"])
    assert "different: 3|x.3" in body
    assert "different: 5|0" in body
    assert heads(shop) == before
    assert report(shop, PIPELINE, run_id)["verdict"] == "MISMATCH"
    assert listed(shop) == (dag, "check", ("shop.customers", "shop.order_items"))
    parked(shop.client)
    shop.client.call("PATCH", path, {"chosen_options": ["Approve"], "params_input": {}})
    state = shop.finish(run_id, dag)
    assert state == "success", f"{shop.client.states(dag, run_id)}\n{shop.said(run_id, 'repair', dag)}"
    after = heads(shop)
    assert {name for name in after if after[name] != before[name]} == {"customers", "order_items"}
    made = report(shop, PIPELINE, run_id)
    assert (made["verdict"], made["strategy"]) == ("MATCH", "diff_repair"), made
    assert listed(shop) == (dag, "repair", ())
    (row,) = table(shop, "order_items").scan(row_filter=line).to_arrow().to_pylist()
    assert row["qty"] != 99
    assert list((shop.world.folder / "reports" / PIPELINE).rglob("data_docs/index.html"))


def test_a_source_that_cannot_be_reached_is_inconclusive_and_red(shop: Shop) -> None:
    dag = NIGHT.format(FAR)
    run_id = shop.trigger(dag)
    assert shop.finish(run_id, dag) == "failed"
    states = shop.client.states(dag, run_id)
    assert (states["compare"], states["repair"], states["verdict"]) == ("success", "skipped", "failed"), states
    assert "INCONCLUSIVE" in shop.said(run_id, "verdict", dag)
    made = report(shop, FAR, run_id)
    assert (made["verdict"], made["problem"]) == ("INCONCLUSIVE", "UNKNOWN")


def test_a_backfill_of_two_days_by_airflows_own_command(shop: Shop) -> None:
    """Rows of one of the days are wrong; a row of a day that was not asked for stays as it is."""
    days = ("2024-02-02", "2024-02-03", "2024-02-05")
    assert all(spoil(shop, "orders", equal("paid_on", day), status="lost") for day in days)
    done = airflow(
        shop,
        "backfill",
        "create",
        "--dag-id",
        BACKFILL,
        "--from-date",
        "2024-02-02",
        "--to-date",
        "2024-02-03",
        "--max-active-runs",
        "2",
    )
    assert done.returncode == 0, done.stdout + done.stderr

    def ended() -> list[dict[str, Any]] | None:
        runs = [run for run in shop.client.runs(BACKFILL) if run["run_type"] == "backfill"]
        return runs if len(runs) == 2 and all(run["state"] in ("success", "failed") for run in runs) else None

    runs = wait_until(ended, timeout=RUN_SECONDS, what="both days", interval=1.0)
    assert [run["state"] for run in runs] == ["success"] * 2, [
        shop.said(r["dag_run_id"], "backfill", BACKFILL) for r in runs
    ]
    wrong = table(shop, "orders").scan(row_filter=equal("status", "lost")).to_arrow().to_pylist()
    assert {str(row["paid_on"]) for row in wrong} == {"2024-02-05"}
    scheduled = [run for run in shop.client.runs(BACKFILL) if run["run_type"] == "scheduled"]
    for run in scheduled:
        assert shop.client.states(BACKFILL, run["dag_run_id"])["backfill"] in ("skipped", "none")
