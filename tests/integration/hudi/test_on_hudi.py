"""The sink's tests, in a process whose Spark is Hudi's: an environment holds one pyspark."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stack.hudi import driver_environment
from tests.paths import ROOT

LATE_S = 1_500.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    ["test_hudi_writer.py", "test_hudi_shared.py", "test_flink_followed.py", "test_followed.py"],
)
def test_the_sink_on_its_own_spark(file: str) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", f"tests/on_hudi/{file}"]
    done = subprocess.run(
        argv, cwd=ROOT, env=driver_environment(), capture_output=True, text=True, timeout=LATE_S, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
