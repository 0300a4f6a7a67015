"""A driver in another environment: `spark.python` names its Python, and with it its Spark."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import airflow_cdc
from airflow_cdc.core.errors import ConfigError

ASK_TIMEOUT_S: Final = 60.0
# on which the applications were run; a kind of sink may name another one (SinkKind.spark)
TESTED: Final = "4.1"
QUESTION: Final = (
    "import json, pyspark, airflow_cdc, airflow_cdc.spark_main as launcher; "
    "print(json.dumps([airflow_cdc.__version__, pyspark.__version__, pyspark.__file__, launcher.__file__]))"
)


@dataclass(frozen=True, slots=True)
class OtherSpark:
    """What the environment of a Python has.

    Attributes:
        version, home: its Spark's.
        launcher: its own copy of spark_main.py: ours would put our packages before its own.
    """

    python: str
    version: str
    home: str
    launcher: str

    def environment(self) -> Mapping[str, str]:
        """The variables by which spark-submit is its own, and driver and executors are its Python."""
        path = os.pathsep.join((f"{self.home}/bin", str(Path(self.python).parent), os.environ.get("PATH", os.defpath)))
        python = {"PYSPARK_PYTHON": self.python, "PYSPARK_DRIVER_PYTHON": self.python}
        # this process's PYTHONPATH may lead to packages of Airflow's environment
        return {**python, "PATH": path, "SPARK_HOME": self.home, "PYTHONPATH": ""}


def ask(python: str, where: str, release: str = "") -> OtherSpark:
    """Ask the Python what it has. Raises ConfigError unless it has this release of Spark and this version of the package."""
    release = release or TESTED
    try:
        done = subprocess.run(
            [python, "-I", "-c", QUESTION], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unfit(f"spark.python does not run: {error}", where, release) from error
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise _unfit(f"the environment of {python} cannot run a driver: {reason}", where, release)
    ours, spark, package, launcher = json.loads(done.stdout.splitlines()[-1])
    if ours != airflow_cdc.__version__:
        raise _unfit(
            f"the environment of {python} has version {ours} of this package, not {airflow_cdc.__version__}",
            where,
            release,
        )
    if not spark.startswith(f"{release}."):
        what = f"the environment of {python} has Spark {spark}, on which this package has not been run"
        raise _unfit(what, where, release)
    return OtherSpark(python, spark, str(Path(package).parent), launcher)


def check_ours(title: str, release: str, where: str) -> None:
    """Raise ConfigError for a sink that needs another release of Spark than this environment has; "" needs none."""
    if release:
        raise ConfigError(
            f"{title} is written by Spark {release}, and this environment has {TESTED}",
            where=where,
            todo=f"Make an environment with pyspark {release} and this package, and name its Python as spark.python.",
        )


def _unfit(what: str, where: str, release: str) -> ConfigError:
    return ConfigError(
        what,
        where=where,
        todo=f"Install pyspark {release} and this package, in this version, in that environment, or name another one.",
    )
