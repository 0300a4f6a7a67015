"""The question before a recovery, on a real scheduler: Reject, silence, Approve, a plan that changes while one is asked.

The pipeline asks before every plan (`approval: always`). The connector is broken in the order of the tests.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from airflow_cdc.control.control import Control
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from demo.world import PIPELINE
from stack.process import wait_until
from stack.shop import connectors
from stack.shop.dataset import CATALOG
from stack.shop.gap import binlog_files
from tests.e2e.conftest import Shop, parked
from tests.unit.http_server import Answer, serving

# the first of these tests also waits for the whole world to start and to be copied
pytestmark = pytest.mark.timeout(1800)
DAG = "cdc_recovery"
ASKED = ("awaiting_input", "deferred")
UNTOUCHED = (
    "restart_connector",
    "open_recovery",
    "stop_connector",
    "fence_and_watermark",
    "recover",
    "reset_offset",
    "publish",
    "close",
)


@pytest.fixture(scope="module", autouse=True)
def told(shop: Shop) -> Iterator[list[str]]:
    """`approval: always` for this file's tests, and what the webhook was told that the policy names."""
    path = shop.world.folder / "pipelines.yaml"
    before = path.read_text()
    with serving() as hook:
        lines: list[str] = []

        def take(_method: str, _path: str, body: Any) -> Answer:
            lines.append(body["text"])
            return Answer(200)

        hook.respond = take
        shop.client.call("POST", "/connections", {"connection_id": "ops", "conn_type": "http", "host": hook.url})
        policy(shop, approval="always", approval_timeout="1h", notify=["ops"])
        yield lines
        path.write_text(before)


def policy(shop: Shop, **changes: Any) -> None:
    path = shop.world.folder / "pipelines.yaml"
    declared = yaml.safe_load(path.read_text())
    declared["pipelines"][PIPELINE]["policy"] |= changes
    path.write_text(yaml.safe_dump(declared, sort_keys=False))


def state(shop: Shop) -> dict[str, Any]:
    """Everything that a recovery changes: epoch, open recovery, lease; connector and its offset; main of each table."""
    lake = Lake(CATALOG, shop.world.lake)
    kept = Control(IcebergControlStore(lake), PIPELINE).state()
    worker = shop.worker
    tables = [f"shop.{table}" for table in ("customers", "orders", "order_items", "events", "all_types")]
    return {
        "epoch": kept["epoch"],
        "recovery": kept["recovery"],
        "lease": kept["lease"],
        "connector": connectors.state(worker, "shop")[0],
        "offset": connectors.stored(worker, "shop"),
        "heads": {table: lake.facts("shop", table.partition(".")[2]).head for table in tables},
    }


def asked(shop: Shop, run_id: str) -> dict[str, Any]:
    """Wait until the task asks; the question."""

    def probe() -> dict[str, Any] | None:
        one = shop.client.tasks(DAG, run_id).get("approve") or {}
        return one if one.get("state") in ASKED else None

    wait_until(probe, timeout=180, what=f"the question of {run_id}")
    parked(shop.client)
    return shop.client.question(DAG, run_id, "approve")


def stopped(shop: Shop) -> None:
    connectors.stop(shop.worker, "shop")


def purge(shop: Shop) -> None:
    """Changes that the connector has not read are purged, and it fails on them."""
    stopped(shop)
    with shop.world.mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM shop.orders ORDER BY id LIMIT 20")
        cursor.execute("COMMIT")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute(f"PURGE BINARY LOGS TO '{binlog_files(cursor)[-1]}'")
    assert "no longer available" in connectors.failure(shop.worker, "shop")


def airflow(shop: Shop, *words: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    """`airflow …` as a person runs it beside the servers."""
    argv = [sys.executable, "-m", "airflow", *words]
    return subprocess.run(
        argv, env=shop.server.environment, capture_output=True, text=True, timeout=timeout, check=False
    )


@contextmanager
def started(shop: Shop, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The same, running beside the test; ended with the block."""
    argv = [sys.executable, "-m", "airflow", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, env=shop.server.environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


def test_reject_leaves_everything_as_it_was(shop: Shop, told: list[str]) -> None:
    purge(shop)
    before = state(shop)
    run_id = shop.trigger(note="rejected on purpose")
    question = asked(shop, run_id)
    (line,) = told  # as soon as it could be answered
    assert line.startswith(f"{PIPELINE}: GTID_PURGED: ")
    assert f"{shop.server.url}/dags/{DAG}/runs/{run_id}/tasks/approve/required_actions" in line
    for word in ("GTID_PURGED", "full_snapshot", "Loses: **nothing**", "gtids missing", "stop_connector", "Reject"):
        assert word in question["body"], word
    shop.client.answer(DAG, run_id, "approve", "Reject")
    assert shop.finish(run_id) == "success"
    states = shop.client.states(DAG, run_id)
    assert {states[task] for task in UNTOUCHED} == {"skipped"}, states
    assert state(shop) == before
    report = ReportStore(str(shop.world.folder / "reports")).report(PIPELINE, run_id)
    assert report is not None
    assert (report.reason, report.note) == ("rejected by admin: nothing was changed", "rejected on purpose")


def test_no_answer_in_time_is_reject_and_the_command_says_so(shop: Shop) -> None:
    policy(shop, approval_timeout="5s")
    before = state(shop)
    done = airflow(shop, "cdc", "recover", PIPELINE, "--wait", "-o", "json")
    policy(shop, approval_timeout="1h")
    assert done.returncode == 1, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert {told["tasks"][task] for task in UNTOUCHED} == {"skipped"}
    assert told["report"]["reason"] == "rejected by nobody in time: nothing was changed"
    assert state(shop) == before


def test_a_plan_that_changed_is_asked_about_again_and_the_command_follows(shop: Shop, told: list[str]) -> None:
    known = {run["dag_run_id"] for run in shop.client.runs(DAG)}
    with started(shop, "cdc", "recover", PIPELINE, "--wait", "-o", "json") as command:
        (run_id,) = wait_until(
            lambda: {run["dag_run_id"] for run in shop.client.runs(DAG)} - known or None,
            timeout=60,
            what="the run that the command triggers",
        )
        first = asked(shop, run_id)
        assert "full_snapshot" in first["body"]
        assert {"another_strategy"} == set(first["params"])
        # while one is asked: the offset is gone, so the problem is another one
        worker = shop.worker
        stopped(shop)
        with httpx.Client(base_url=worker.url, timeout=60) as rest:
            rest.delete("/connectors/shop/offsets").raise_for_status()
        before = state(shop)
        shop.client.answer(DAG, run_id, "approve", "Approve", another_strategy="as planned")
        assert shop.finish(run_id) == "success", shop.said(run_id, "approve")
        states = shop.client.states(DAG, run_id)
        assert {states[task] for task in UNTOUCHED} == {"skipped"}, states
        assert states["ask_again"] == "success"
        changed = ReportStore(str(shop.world.folder / "reports")).report(PIPELINE, run_id)
        assert changed is not None
        assert changed.reason is not None
        assert "GTID_PURGED, full_snapshot, nothing became OFFSET_MISSING, full_snapshot, nothing" in changed.reason
        again = shop.client.xcom(DAG, run_id, "ask_again", "trigger_run_id")
        assert f"run {again} asks about that: nothing was changed" in changed.reason
        assert "OFFSET_MISSING" in asked(shop, again)["body"]
        assert state(shop) == before
        assert [line.split(": ")[1] for line in told[-2:]] == ["GTID_PURGED", "OFFSET_MISSING"]
        shop.client.answer(DAG, again, "approve", "Approve", another_strategy="as planned")
        assert shop.finish(again) == "success", shop.client.states(DAG, again)
        out, errors = command.communicate(timeout=120)
    assert command.returncode == 0, errors[-3000:]
    assert f"a person is asked again: run {again}" in errors
    report = json.loads(out)["report"]
    assert (report["run_id"], report["problem"], report["verdict"]) == (again, "OFFSET_MISSING", "MATCH")


def test_recover_on_the_command_line_waits_and_says_how_it_went(shop: Shop) -> None:
    purge(shop)
    seen = airflow(shop, "cdc", "diagnose", PIPELINE, "-o", "json")
    assert (seen.returncode, json.loads(seen.stdout)["code"]) == (1, "GTID_PURGED"), seen.stderr[-2000:]
    done = airflow(shop, "cdc", "recover", PIPELINE, "--yes", "--wait", "-o", "json")
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert (told["state"], told["report"]["verdict"]) == ("success", "MATCH")
    assert "publish: success" in done.stderr
    healthy = airflow(shop, "cdc", "diagnose", PIPELINE, "-o", "json")
    assert (healthy.returncode, json.loads(healthy.stdout)["code"]) == (0, "HEALTHY"), healthy.stdout
    assert airflow(shop, "cdc", "verify", PIPELINE).returncode == 0
    again = airflow(shop, "cdc", "recover", PIPELINE, "--yes", "--wait", "-o", "json")
    assert (again.returncode, json.loads(again.stdout)["tasks"]["open_recovery"]) == (0, "skipped")


# ---- the page, on the same Airflow ------------------------------------------------------------------


def test_the_page_is_served_under_airflow_s_own_sign_in(shop: Shop) -> None:
    with httpx.Client(base_url=shop.server.url, timeout=60) as browser:
        assert browser.get("/cdc/").status_code == 401
        token = browser.post("/auth/token", json={"username": shop.server.user, "password": shop.server.password})
        browser.headers["Authorization"] = f"Bearer {token.json()['access_token']}"
        page = browser.get("/cdc/")
        assert page.status_code == 200
        assert re.search(r'badge green">HEALTHY', page.text), page.text
        assert 'recovery: <strong class="match">MATCH</strong>' in page.text
        runs = browser.get(f"/cdc/pipelines/{PIPELINE}").text
        report = re.findall(rf"/cdc/pipelines/{PIPELINE}/runs/[^\"]+", runs)
        shown = browser.get(report[0])
        assert shown.status_code == 200
        (docs,) = re.findall(r'href="([^"]+/data_docs/index.html)"', shown.text)
        assert "Great Expectations" in browser.get(docs).text or browser.get(docs).status_code == 200
        assert browser.post("/cdc/").status_code == 405
        plugins = browser.get("/api/v2/plugins").json()["plugins"]
        mine = next(one for one in plugins if one["name"] == "airflow_cdc")
        assert [view["href"] for view in mine["external_views"]] == ["/cdc/"]
        assert browser.get("/api/v2/plugins/importErrors").json()["import_errors"] == []


def test_links_on_tasks_lead_to_the_page(shop: Shop) -> None:
    run_id = next(
        run["dag_run_id"]
        for run in shop.client.runs(DAG)
        if shop.client.states(DAG, run["dag_run_id"])["verify"] == "success"
    )
    path = f"/dags/{DAG}/dagRuns/{run_id}/taskInstances"
    report = shop.client.call("GET", f"{path}/report/links")["extra_links"]["Recovery report"]
    docs = shop.client.call("GET", f"{path}/verify/links")["extra_links"]["Data Docs"]
    assert report.startswith(f"{shop.server.url}/cdc/pipelines/{PIPELINE}/runs/")
    assert docs.endswith("/files/data_docs/index.html")
    token = httpx.post(
        f"{shop.server.url}/auth/token", json={"username": shop.server.user, "password": shop.server.password}
    )
    headers = {"Authorization": f"Bearer {token.json()['access_token']}"}
    assert [httpx.get(url, headers=headers).status_code for url in (report, docs)] == [200, 200]


def test_the_stored_observation_holds_no_password(shop: Shop) -> None:
    mysql = shop.world.mysql
    text = Path(shop.world.folder / "reports" / PIPELINE / "observation.json").read_text()
    assert json.loads(text)["diagnosis"]["code"] == "HEALTHY"
    assert not any(secret in text for secret in (mysql.password, mysql.cdc.password, mysql.debezium.password))
