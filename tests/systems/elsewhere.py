"""A row whose Spark is Hudi's runs in a process of its own: `python -m tests.systems.elsewhere SYSTEM FOLDER`."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from airflow_cdc.sinks.iceberg.client import Lake
from stack.hudi import driver_environment
from tests.on_hudi.session import hudi_session
from tests.systems import debezium_hudi, flink_hudi
from tests.systems.case import Case, Result
from tests.systems.running import run

CASES = (*debezium_hudi.CASES, *flink_hudi.CASES)


def run_elsewhere(case: Case, folder: Path) -> Result:
    """One row, in that process. Raises CalledProcessError if it fails."""
    argv = [sys.executable, "-m", "tests.systems.elsewhere", case.system, str(folder)]
    subprocess.run(argv, env=driver_environment(), check=True)
    return Result(**json.loads(_result(folder).read_text()))


def _result(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def main(system: str, folder: Path) -> None:
    """Run the row in this process, and leave its result beside the folder."""
    case = next(case for case in CASES if case.system == system)
    unused = Lake("unused", {})
    with hudi_session(folder.with_name(f"{folder.name}-spark")) as spark:
        _result(folder).write_text(json.dumps(asdict(run(case, folder, spark, unused))))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
