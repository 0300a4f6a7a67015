"""The sink's tests, in a process whose Spark is Hudi's: an environment holds one pyspark."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stack.hudi import driver_environment
from tests.paths import ROOT

LATE_S = 540.0


@pytest.mark.slow
def test_the_sink_on_its_own_spark() -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/on_hudi"]
    done = subprocess.run(
        argv, cwd=ROOT, env=driver_environment(), capture_output=True, text=True, timeout=LATE_S, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
