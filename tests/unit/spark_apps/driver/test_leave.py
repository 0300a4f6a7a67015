"""A driver ends when its result is written, and nothing that it said is lost; it ends with the spark-submit that started it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_cdc.spark_apps.driver.task import lives
from stack.process import wait_until

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


# what an application imports before it has asked anything
IMPORTS = """
import sys
import airflow_cdc.spark_apps.apply_changes, airflow_cdc.spark_apps.recover, airflow_cdc.spark_apps.verify
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_no_driver_imports_what_only_a_page_needs() -> None:
    """Great Expectations was half of a verification without a session, and it brought the others."""
    done = subprocess.run((sys.executable, "-c", IMPORTS), capture_output=True, text=True, check=True)
    names = set(done.stdout.split())
    assert {"airflow_cdc", "pyspark"} <= names
    assert not names & {"great_expectations", "scipy", "altair", "jsonschema", "pandas", "airflow"}


# spark-submit in little: it starts the driver, which says its pid, and waits for it
PARENT = """
import subprocess, sys
subprocess.run((sys.executable, "-c", sys.argv[1]))
"""
DRIVER = """
import os, signal
from airflow_cdc.spark_apps.driver import task
task._EVERY_S = 0.05
task.end_with_parent()
print(os.getpid(), flush=True)
signal.pause()
"""


@pytest.mark.parametrize("heard", [True, False])
def test_it_ends_with_its_parent_and_not_before(heard: bool) -> None:
    """Also if nobody is left who reads what it says, as when its words went through the parent."""
    pipe = subprocess.PIPE
    with subprocess.Popen((sys.executable, "-c", PARENT, DRIVER), stdout=pipe, stderr=pipe, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        driver = int(parent.stdout.readline())
        with pytest.raises(subprocess.TimeoutExpired):
            parent.wait(1)
        assert lives(driver)
        if not heard:
            parent.stderr.close()
        parent.kill()
        wait_until(lambda: not lives(driver) or None, timeout=10, what="the driver to end")
        assert not heard or "who started this driver was ended" in parent.stderr.read()
