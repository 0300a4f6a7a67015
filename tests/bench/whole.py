"""A whole recovery through the DAG against Debezium's own: `python -m tests.bench.whole --rows 200000`.

The demo with so many rows: a purge under a live writer, recovered by `cdc_recovery` in a real Airflow; then the peer, whose
Connect worker has the options that Kafka ships and whose connector has the settings for a fast snapshot, reads all tables
again by `snapshot.mode=when_needed`. Ours are the seconds from the trigger to the end of the run, the peer's those until
its last row is in Kafka. Beside them, in the same run: for how long no task of the run ran, and what a Spark driver takes
that spark-submit starts and that only makes a session (a recovery has two), with the demo's settings and as Java has it. Writes
build/bench/whole-ROWS.json; ends with 1 if the goal is not held, if the recovery is not MATCH, or if a row differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from airflow_cdc.spark_apps.driver.session import python_of
from tests.bench.result import FOLDER, Ratio
from tests.faults.world import submit_command

GOALS = {200_000: 2.5, 2_000_000: 0.8, 10_000_000: 0.333}
EMPTY = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().stop()\n"
MINUTES = 90
# after the demo's own options, so that these count
AS_JAVA_HAS_IT = "--conf=spark.driver.extraJavaOptions=-Duser.timezone=UTC"


def main() -> int:
    """Run the demo; 0 if the goal for so many rows is held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, choices=GOALS, default=200_000, help="rows of all tables together")
    asked = parser.parse_args()
    subprocess.run([sys.executable, "-m", "demo", "--rows", str(asked.rows)], check=True, timeout=MINUTES * 60)
    report = json.loads(Path("build/demo/report.json").read_text())
    drivers = {"an empty Spark driver": empty_driver(), "as Java has it": empty_driver(AS_JAVA_HAS_IT)}
    return ratio(asked.rows, report, drivers).write(FOLDER / f"whole-{asked.rows}.json")


def ratio(rows: int, report: dict[str, Any], drivers: dict[str, float]) -> Ratio:
    """The row, from the demo's report."""
    run, peer = report["run"], report["peer"]
    return Ratio(
        f"a recovery of {rows:,} rows through the DAG, writer active, against when_needed",
        run["seconds"],
        round(peer["seconds"], 1),
        GOALS[rows],
        {
            "no task ran": run["no_task_ran"],
            **drivers,
            "steps": {step["name"]: step["seconds"] for step in report["steps"]},
            "ghosts of the peer": peer["ghosts"],
            "load": round(os.getloadavg()[0], 1),
        },
    )


def empty_driver(*settings: str, times: int = 3) -> float:
    """Seconds of the quickest of some drivers with the demo's settings and then these, which only make a session."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "empty.py"
        script.write_text(EMPTY)
        return round(min(_seconds([*submit_command(), *settings, str(script)]) for _ in range(times)), 1)


def _seconds(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, env={**os.environ, **python_of(local=True)}, check=True, capture_output=True, timeout=300)
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
