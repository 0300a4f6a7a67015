"""The DAG cdc_recovery with a detour, run by Airflow on real servers: its tasks, its report, and no password anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from stack import connections, fetch
from tests.integration.replicated import REPLICA, Pair
from tests.integration.test_detour import gap, pair, pair_servers
from tests.spark_session import spark_conf

__all__ = ["pair", "pair_servers"]  # fixtures

# kafka-python reads its own message schemas with a deprecated call
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]

RUN = """
import json, sys
from airflow.utils.db import initdb
initdb()
from airflow_cdc.dags._recovery import recovery_dag
run = recovery_dag().test(run_conf={"pipeline": sys.argv[1]})
print("\\nSTATES", json.dumps({ti.task_id: str(ti.state) for ti in run.get_task_instances()} | {"": str(run.state)}))
"""
DONE = {
    "diagnose",
    "approve",
    "open_recovery",
    "detour_connector",
    "return_connector",
    "compare",
    "verdict",
    "report",
}


def environment(pair: Pair, folder: Path) -> dict[str, str]:
    """An Airflow of its own, with the pipeline's registry and connections."""
    registry = folder / "pipelines.yaml"
    made: dict[str, Any] = {
        "source": {"kind": "mysql", "conn_id": "shop_mysql", "tables": [pair.table], "replicas": [REPLICA]},
        "connector": {"kind": "debezium", "conn_id": "shop_connect", "name": pair.name},
        "transport": {"kind": "kafka", "conn_id": "shop_kafka"},
        "sink": {"kind": "iceberg", "catalog": "lake", "namespace": pair.name},
    }
    registry.write_text(yaml.safe_dump({"pipelines": {pair.name: made}}))
    known = {
        "shop_mysql": connections.to_mysql(pair.source),
        REPLICA: connections.to_mysql(pair.replica),
        "shop_connect": connections.to_connect(pair.worker.url),
        "shop_kafka": connections.to_kafka(pair.kafka),
        "lake": connections.to_lake(pair.lake),
        "spark_default": connections.to_spark("local[1]"),
    }
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        **connections.variables(known),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parents[2] / "dags"),
        "AIRFLOW__CDC__REGISTRY": str(registry),
        "AIRFLOW__CDC__REPORT_DIR": str(folder / "reports"),
        "AIRFLOW__CDC__SPARK_JARS": ",".join(str(jar) for jar in fetch.set_jars("spark")),
        "AIRFLOW__CDC__SPARK_CONF": json.dumps(spark_conf(folder / "spark", dict(pair.lake))),
    }


def test_airflow_runs_the_detour_and_its_report_says_match(pair: Pair, tmp_path: Path) -> None:
    pair.sink()
    copied, expected = pair.events(), gap(pair)
    done = subprocess.run(
        [sys.executable, "-c", RUN, pair.name],
        env=environment(pair, tmp_path),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    said = f"{done.stdout}\n{done.stderr}"
    assert "STATES" in said, said[-4000:]
    states = json.loads(said.rpartition("STATES ")[2].splitlines()[0])
    assert states.pop("") == "success", said[-4000:]
    assert {task for task, state in states.items() if state == "success"} == DONE
    assert pair.events() == [*copied, *expected]
    (path,) = (tmp_path / "reports").rglob("report.json")
    report = json.loads(path.read_text())
    assert (report["problem"], report["strategy"], report["verdict"]) == ("GTID_PURGED", "replica_detour", "MATCH")
    assert {"detour_connector", "return_connector"} <= {step["name"] for step in report["steps"]}
    assert report["tables"][0]["source_rows"] == 1
    passwords = [pair.replica.cdc.password.encode(), pair.source.debezium.password.encode()]
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept for word in passwords if word in path.read_bytes()]
    assert not any(word.decode() in said for word in passwords)
