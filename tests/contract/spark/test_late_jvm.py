"""A driver that starts as Python: its JVM has spark-submit's options, no secret on its command line, and ends with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_cdc.operators.python_first import with_late_jvm
from airflow_cdc.spark_apps.driver.session import python_of
from airflow_cdc.spark_apps.driver.task import lives
from stack import jvm
from stack.process import wait_until
from tests.spark_session import embedded_catalog

# what the catalog needs stands in the driver alone
DRIVER = """
import sys
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.driver.session import SessionOnDemand, build_session
uri, warehouse = sys.argv[1:]
lake = Lake("lake", {"type": "sql", "uri": uri, "warehouse": warehouse, "jdbc.password": "s3cret-of-the-catalog"})
spark = SessionOnDemand.of(lambda: build_session("late", lake))
print("ready", flush=True)
sys.stdin.readline()
conf = spark.conf
print(spark.sparkContext.master, conf.get("spark.sql.shuffle.partitions"), conf.get("spark.sql.ansi.enabled"), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A driver that has asked for no session yet; each line that it reads lets it go on."""
    own = embedded_catalog(tmp_path)
    options = ["--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=3", "--conf", "spark.ui.enabled=false"]
    options += [word for key, value in jvm.conf().items() for word in ("--conf", f"{key}={value}")]
    pipe = subprocess.PIPE
    command = (sys.executable, "-c", DRIVER, own["uri"], own["warehouse"])
    env = {**os.environ, **python_of(local=True), **with_late_jvm(options)}
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.kill()


def next_line(process: subprocess.Popen[str], word: str) -> str:
    """What it says next that has the word in it: its JVM speaks there, too."""
    assert process.stdout is not None
    return next(line for line in process.stdout if word in line).strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def command_line(process: psutil.Process) -> str:
    """What ps shows of it; nothing of one that has ended, as what starts the JVM does beside this."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def test_the_jvm_starts_with_the_session_without_secrets_and_ends_with_its_python(
    driver: subprocess.Popen[str],
) -> None:
    next_line(driver, "ready")
    python = psutil.Process(driver.pid)
    assert python.children(recursive=True) == []
    go_on(driver)
    assert next_line(driver, "local[") == "local[1] 3 true"  # its own options, and what every session has
    started = python.children(recursive=True)
    assert any("java" in command_line(one) for one in started)
    assert not [one for one in started if "s3cret-of-the-catalog" in command_line(one)]
    driver.kill()
    for one in started:
        wait_until(lambda pid=one.pid: not lives(pid) or None, timeout=30, what="the JVM to end")  # type: ignore[misc]
