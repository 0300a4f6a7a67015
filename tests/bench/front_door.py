"""`make bench`: how long the front door takes, side by side in one run → build/bench/front_door.json.

Read-only commands against `airflow pools list`; parsing the DAGs of 200 pipelines; the page with 200 pipelines and 10,000
past runs. The limits are printed beside the figures; the exit status is 1 when one is passed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

PIPELINES = 200
RUNS_EACH = 50
ROUNDS = 5
OUT = Path("build/bench/front_door.json")
COMMANDS = {
    "pipelines": ("cdc", "pipelines", "-o", "json"),
    "verify": ("cdc", "verify", "p000", "-o", "json"),
}
COMMAND_TIMES, PARSE_SECONDS, PAGE_SECONDS = 1.5, 1.0, 0.3


def main() -> int:
    """Measure, write, print; 1 when a limit is passed."""
    with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder:
        home = Path(folder)
        environment(home)
        declare(home)
        fill(home)
        figures = {**commands(), "parse_seconds": parses(), "page_seconds": pages(home)}
    verdict = judge(figures)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(
        json.dumps({"taken_at": datetime.now(UTC).isoformat(), **figures, "limits": verdict}, indent=2) + "\n"
    )
    print(OUT.read_text())
    return 0 if all(one["kept"] for one in verdict.values()) else 1


def environment(home: Path) -> None:
    """An Airflow home of its own, with its database."""
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path("dags").absolute()),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__CDC__REGISTRY": str(home / "pipelines.yaml"),
        "AIRFLOW__CDC__REPORT_DIR": str(home / "reports"),
        "AIRFLOW__API_AUTH__JWT_SECRET": "0" * 64,
        "PYTHONWARNINGS": "ignore",
    }
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)


def names() -> list[str]:
    return [f"p{number:03}" for number in range(PIPELINES)]


def declare(home: Path) -> None:
    """200 pipelines of three tables."""

    def one(name: str) -> dict[str, Any]:
        tables = [f"{name}.{table}" for table in ("customers", "orders", "items")]
        return {
            "source": {"kind": "mysql", "conn_id": f"{name}_mysql", "tables": tables},
            "connector": {"kind": "debezium", "conn_id": f"{name}_connect", "name": name},
            "transport": {"kind": "kafka", "conn_id": f"{name}_kafka"},
            "sink": {"kind": "iceberg", "catalog": "lake", "namespace": name, "writer": "cdc_apply"},
            "backfill": {"table": tables[0], "by": "created_at"},
        }

    text = yaml.safe_dump({"pipelines": {name: one(name) for name in names()}}, sort_keys=False)
    (home / "pipelines.yaml").write_text(text)


def fill(home: Path) -> None:
    """An observation and 50 past runs of each pipeline, as diagnoses and runs leave them."""
    from airflow_cdc.core.codec import plain
    from airflow_cdc.reports.store import ReportStore, safe
    from airflow_cdc.reports.stored import RunSummary, StoredObservation
    from tests.diagnosing import diagnose
    from tests.unit.builders import HEALTHY
    from tests.unit.core.test_report import REPORT

    store, now = ReportStore(str(home / "reports")), datetime.now(UTC)
    seen = StoredObservation.of(replace(HEALTHY, taken_at=now.isoformat()), diagnose(HEALTHY))
    for name in names():
        store.keep_observation(replace(seen, pipeline=name))
        runs = []
        for number in range(RUNS_EACH):
            report = replace(REPORT, pipeline=name, run_id=f"manual__{number}")
            store.keep_report(report)
            runs.append(RunSummary.of(report, safe(report.run_id), (now - timedelta(days=number)).isoformat()))
        store.write(json.dumps([plain(run) for run in runs]), name, "runs.json")


def median(act: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Median seconds of so many rounds."""

    def once() -> float:
        began = time.perf_counter()
        act()
        return time.perf_counter() - began

    return round(statistics.median(once() for _ in range(rounds)), 3)


def airflow(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "airflow", *words], check=True, capture_output=True)


def commands() -> dict[str, Any]:
    """Seconds of each command and of `airflow pools list`, in turns, so that a busy machine slows all alike."""
    every = {"pools list": ("pools", "list"), **COMMANDS}
    seconds: dict[str, list[float]] = {name: [] for name in every}
    for _ in range(ROUNDS):
        for name, words in every.items():
            began = time.perf_counter()
            airflow(*words)
            seconds[name].append(time.perf_counter() - began)
    return {"command_seconds": {name: round(statistics.median(samples), 3) for name, samples in seconds.items()}}


def parses() -> dict[str, float]:
    """Seconds of each DAG file in a process of its own, as the dag processor parses it, and of the whole folder in one."""
    files = sorted(Path("dags").glob("cdc_*.py"))
    return {file.name: parse(file, 1) for file in files} | {"the whole folder": parse(Path("dags"), 4 * PIPELINES)}


def parse(path: Path, dags: int) -> float:
    """Seconds in which a fresh process, Airflow imported, makes at least so many DAGs from a file or a folder."""
    script = (
        "import time, airflow.sdk, airflow.dag_processing.dagbag as d\n"
        "from pathlib import Path\n"
        "began = time.perf_counter()\n"
        f"bag = d.DagBag(dag_folder=Path({str(path)!r}))\n"
        "assert not bag.import_errors, bag.import_errors\n"
        f"assert len(bag.dags) >= {dags}, len(bag.dags)\n"
        "print(time.perf_counter() - began)"
    )

    def once() -> float:
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        return float(done.stdout.split()[-1])

    return round(statistics.median(once() for _ in range(3)), 3)


def pages(home: Path) -> dict[str, float]:
    """Seconds of each page, through the application as Airflow mounts it, after one request that builds it."""
    from airflow.api_fastapi import app as airflow_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from airflow_cdc.plugin import PREFIX, CdcPlugin

    root = FastAPI()
    root.mount(PREFIX, CdcPlugin.fastapi_apps[0]["app"])
    manager = airflow_app.init_auth_manager(root)
    client = TestClient(root)
    client.cookies.set("_token", manager.generate_jwt(SimpleAuthManagerUser(username="u", role="ADMIN")))
    paths = {"overview": "/", "pipeline": "/pipelines/p000", "report": "/pipelines/p000/runs/manual__0"}

    def get(path: str) -> None:
        assert client.get(PREFIX + path).status_code == 200, path

    for path in paths.values():
        get(path)
    return {name: median(lambda path=path: get(path), 15) for name, path in paths.items()}  # type: ignore[misc]


def judge(figures: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each limit with what was found."""
    pools = figures["command_seconds"]["pools list"]
    slowest = max(figures["command_seconds"].values())
    values = {
        "commands, times `airflow pools list`": (round(slowest / pools, 2), COMMAND_TIMES),
        "parse of the slowest DAG file, 200 pipelines, seconds": (
            max(seconds for name, seconds in figures["parse_seconds"].items() if name.endswith(".py")),
            PARSE_SECONDS,
        ),
        "page, seconds": (max(figures["page_seconds"].values()), PAGE_SECONDS),
    }
    return {name: {"found": value, "limit": limit, "kept": value <= limit} for name, (value, limit) in values.items()}


if __name__ == "__main__":
    sys.exit(main())
