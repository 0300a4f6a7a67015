"""The operator starts an application in another environment, with jars of its own; a Spark that was not tried is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_cdc.sinks.iceberg.client import Lake
from stack import fetch, hudi
from stack.versions import SPARK_OF_HUDI
from tests.paths import ROOT

LATE_S = 240.0
OURS = Path(sysconfig.get_path("purelib"))
FILES = 3
PIPELINE = """
pipelines:
  far:
    source:    {kind: mysql, conn_id: m, tables: [shop.orders]}
    connector: {kind: debezium, conn_id: c, name: shop}
    transport: {kind: kafka, conn_id: k}
    sink:      {kind: iceberg, catalog: lake, namespace: shop}
    spark:     {conn_id: s, python: PYTHON, jars: [JARS]}
    policy:    {maintenance: {small_files: 2}}
"""
HUDI = PIPELINE.replace(
    "{kind: iceberg, catalog: lake, namespace: shop}", "{kind: hudi, path: FOLDER, namespace: shop}"
).replace("    policy:    {maintenance: {small_files: 2}}", "    control:   {kind: sql, conn_id: state}")
# in a process of its own: an Airflow has its own database and settings
EXECUTE = """
import json, sys
from unittest.mock import Mock
from airflow_cdc.operators.spark import MaintainOperator
ti = Mock(dag_id="d", try_number=1, task_id="t")
done = MaintainOperator(task_id="t", pipeline="far").execute({"run_id": "r", "ti": ti, "params": {}})
print("DONE", json.dumps(done))
"""

PUBLISH = EXECUTE.replace(
    "operators.spark import MaintainOperator", "operators.publish import PublishOperator"
).replace("MaintainOperator(", "PublishOperator(")


def catalog(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A catalog with a table of several small files."""
    (tmp_path / "warehouse").mkdir()
    made = Lake("lake", catalog(tmp_path))
    made.ensure_table("shop", "orders", [("id", "bigint")])
    table = made.table("shop", "orders")
    for number in range(FILES):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
    return made


def other_python(folder: Path, *packages: Path) -> Path:
    """The Python of a new virtual environment, which finds these folders of packages; the first one wins."""
    venv.create(folder, with_pip=False, symlinks=True)
    # addsitedir reads the .pth files there, which lead to an editable install
    lines = "".join(f"import site; site.addsitedir({str(path)!r})\n" for path in packages)
    (folder / OURS.relative_to(sys.prefix) / "other.pth").write_text(lines)
    return folder / "bin" / "python"


def environment(folder: Path, python: Path, pipeline: str, jars: str) -> dict[str, str]:
    registry = folder / "pipelines.yaml"
    listed = ", ".join(map(str, fetch.set_jars(jars)))
    registry.write_text(pipeline.replace("PYTHON", str(python)).replace("JARS", listed).replace("FOLDER", str(folder)))
    conns = {
        "m": {"conn_type": "cdc_mysql", "host": "db", "login": "cdc", "password": "p"},
        "c": {"conn_type": "kafka_connect", "host": "connect"},
        "k": {"conn_type": "cdc_kafka", "extra": {"bootstrap.servers": "broker:9092"}},
        "lake": {"conn_type": "iceberg_catalog", "extra": catalog(folder)},
        "s": {"conn_type": "spark", "host": "local[1]"},
        "state": {"conn_type": "cdc_sql_control", "host": f"{folder}/control.db", "extra": {"dialect": "sqlite"}},
    }
    return {
        **os.environ,
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CDC__REGISTRY": str(registry),
        "AIRFLOW__CDC__REPORT_DIR": str(folder / "reports"),
        # what other pipelines use: no Spark would start with it
        "AIRFLOW__CDC__SPARK_JARS": "/nowhere/ours.jar",
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(conn) for name, conn in conns.items()},
    }


def ran(folder: Path, python: Path, execute: str = EXECUTE, pipeline: str = PIPELINE, jars: str = "spark") -> str:
    """What the task printed."""
    argv = [sys.executable, "-c", execute]
    env = environment(folder, python, pipeline, jars)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LATE_S, check=False)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_application_runs_in_the_other_environment(tmp_path: Path, lake: Lake) -> None:
    said = ran(tmp_path, other_python(tmp_path / "env", ROOT, OURS))
    done: list[Any] = [json.loads(line[5:]) for line in said.splitlines() if line.startswith("DONE ")]
    assert done, said[-4000:]
    tidied = done[0]["tables"]["shop.orders"]
    assert (tidied["rewritten"], tidied["written"]) == (FILES, 1)
    assert sorted(lake.table("shop", "orders").scan().to_arrow()["id"].to_pylist()) == list(range(FILES))


def test_a_spark_on_which_nothing_was_run_is_refused(tmp_path: Path) -> None:
    theirs = hudi.python().parents[1] / OURS.relative_to(sys.prefix)
    said = ran(tmp_path, other_python(tmp_path / "env", theirs, ROOT, OURS))
    assert f"has Spark {SPARK_OF_HUDI}, on which this package has not been run" in said
    assert "DONE" not in said


@pytest.mark.slow
def test_a_hudi_pipeline_publishes_by_a_driver_on_its_own_spark(tmp_path: Path) -> None:
    """The run holds no lease, which the driver finds out: its error is the task's."""
    theirs = hudi.python().parents[1] / OURS.relative_to(sys.prefix)
    python = other_python(tmp_path / "env", theirs, ROOT, OURS)
    said = ran(tmp_path, python, PUBLISH, HUDI, "hudi")
    assert "in _on_spark" in said
    assert "LeaseHeldError: the lease of r is lost" in said, said[-3000:]
