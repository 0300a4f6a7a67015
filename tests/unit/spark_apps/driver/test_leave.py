"""A driver ends when its result is written, and nothing that it said is lost."""

from __future__ import annotations

import subprocess
import sys

LAST_WORDS = """
import atexit, logging, sys
from airflow_cdc.spark_main import leave
logging.basicConfig(stream=sys.stderr)
atexit.register(print, "modules are taken apart")
sys.stdout.write("said")
logging.warning("logged")
leave(3)
"""


def test_what_was_said_is_kept_and_nothing_is_taken_apart() -> None:
    done = subprocess.run((sys.executable, "-c", LAST_WORDS), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, "logged" in done.stderr) == (3, "said", True)
