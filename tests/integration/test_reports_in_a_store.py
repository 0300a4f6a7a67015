"""The report folder in a real object store, opened with an Airflow connection: nothing of it is on a disk of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from airflow_cdc.core.errors import CdcError, ConfigError
from airflow_cdc.flows.run import make_run
from airflow_cdc.hooks.report_folder import for_driver
from airflow_cdc.parts import Endpoints
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import RunSummary
from airflow_cdc.spark_apps.driver import app
from stack.object_store import BUCKET, REGION, ObjectStore, start_object_store
from stack.process import end
from tests.unit.builders import HEALTHY, PIPELINE
from tests.unit.core.test_report import REPORT
from tests.unit.reports.test_stored import kept

OF_A_TASK = "airflow-db-not-allowed:///"  # what Airflow's supervisor gives to the process of a task
URL = f"s3://reports@{BUCKET}/cdc/reports"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    folder = tmp_path_factory.mktemp("store")
    running = start_object_store(folder, folder / "logs")
    yield running
    end(running.child)


def connection(store: ObjectStore, **changes: str) -> str:
    extra = {"endpoint_url": store.url, "region_name": REGION}
    return json.dumps({"conn_type": "aws", "login": store.key, "password": store.secret, "extra": extra, **changes})


@pytest.fixture
def reports(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    monkeypatch.setenv("AIRFLOW_CONN_REPORTS", connection(store))
    return ReportStore(URL)


def test_reports_observations_and_runs_are_kept_in_the_store(reports: ReportStore, store: ObjectStore) -> None:
    seen = kept(HEALTHY)
    assert (reports.observation("shop"), reports.runs("shop"), reports.report("shop", "manual__1")) == (None, [], None)
    reports.keep_observation(seen)
    for _ in range(2):  # the second replaces the first
        where = reports.keep_report(REPORT)
        reports.keep_run("shop", RunSummary.of(REPORT, "manual__1", "2026-11-21T09:00:00+00:00"))
    assert reports.many(reports.observation, ["shop", "other"]) == {"shop": seen, "other": None}
    assert [run.run_id for run in reports.runs("shop")] == ["manual__1"]
    assert where.startswith(f"{URL}/shop/")
    files = [path for path in (store.folder / "data" / BUCKET / "cdc" / "reports").rglob("*") if path.is_file()]
    assert {"observation.json", "runs.json", "report.json"} <= {path.name for path in files}


def test_a_folder_of_pages_is_put_there(reports: ReportStore, tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "index.html").write_text("<p>é</p>")
    (tmp_path / "static" / "logo.png").write_bytes(b"\x89PNG\xff")
    ReportStore(reports.location("shop", "docs")).put(tmp_path)
    assert reports.read("shop", "docs", "index.html") == "<p>é</p>".encode()
    assert reports.read("shop", "docs", "static", "logo.png") == b"\x89PNG\xff"


def test_a_driver_opens_it_with_what_its_settings_file_holds(
    reports: ReportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot ask Airflow; and the connection may be in Airflow's database only."""
    reports.write("{}", "shop", "of_the_task.json")
    told = for_driver(URL)
    for name in told:
        monkeypatch.setenv(name, "set by the driver alone")  # restored after the test
        monkeypatch.delenv(name)
    settings = {"pipeline": PIPELINE.to_json(), "endpoints": {}, "run_id": "r", "report_dir": URL, "report_env": told}
    monkeypatch.setattr(Endpoints, "from_json", lambda _: None)
    made = create_autospec(make_run)
    monkeypatch.setattr(app, "make_run", made)
    app.read_run(settings)
    assert ReportStore(made.call_args.args[3]).read("shop", "of_the_task.json") == b"{}"


def test_a_driver_opens_it_in_the_environment_that_a_task_leaves_it(reports: ReportStore) -> None:
    """A process of its own: Airflow is imported there for the first time, with a task's database URL."""
    reports.write("of the task", "shop", "x.txt")
    script = (
        "import os, sys, json; os.environ |= json.load(sys.stdin);"
        "from airflow_cdc.reports.store import ReportStore;"
        f"store = ReportStore({URL!r}); store.write('of the driver', 'shop', 'y.txt'); print(store.read('shop', 'x.txt'))"
    )
    own = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_CONN_")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**own, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": OF_A_TASK, "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor"},
        input=json.dumps(for_driver(URL)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.strip().splitlines()[-1:]) == (0, ["b'of the task'"]), done.stderr[-2000:]
    assert reports.read("shop", "y.txt") == b"of the driver"


def test_what_is_refused_is_one_error_without_a_secret(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_REPORTS", connection(store, password="wrong-secret"))
    with pytest.raises(CdcError, match="can't write the stored file") as refused:
        ReportStore(URL).write("{}", "shop", "x.json")
    assert "wrong-secret" not in f"{refused.value}{refused.value.__cause__}"
    monkeypatch.delenv("AIRFLOW_CONN_REPORTS")
    with pytest.raises(ConfigError, match=r"'reports' is not defined.*airflow connections add reports"):
        ReportStore(URL).read("shop", "x.json")
