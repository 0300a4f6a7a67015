"""A driver that is its own executor is Python, which starts Spark's JVM if it needs one; any other is spark-submit's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc import spark_main
from airflow_cdc.operators import spark
from airflow_cdc.operators.python_first import OPTIONS, below, end, is_own
from airflow_cdc.spark_apps.driver.session import LATE_JVM
from airflow_cdc.spark_apps.driver.task import lives
from stack.process import wait_until
from tests.unit.operator_support import Submitted, context

MAIN = str(Path(spark_main.__file__).resolve())


@pytest.fixture(autouse=True)
def own_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)


def operator(**kwargs: Any) -> spark.CdcSparkOperator:
    return spark.CdcSparkOperator(**{"task_id": "t", "app": "recover", "pipeline": "shop", **kwargs})


def programme(folder: Path, name: str = "spark-submit") -> Path:
    """Something that can be started."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_local_driver_starts_as_python_and_its_jvm_by_the_same_options(submitted: Submitted) -> None:
    task = operator(conf={"spark.x": "a b"})
    for _ in range(2):  # a retry uses the operator again
        task.execute(context())
        assert submitted.command == [sys.executable, MAIN, "recover", "--settings", str(submitted.path)]
        assert submitted.options[-1] == "pyspark-shell"
        assert {"local[1]", "spark.x=a b"} <= set(submitted.options)
        assert "recover" not in submitted.options
        assert (submitted.env[LATE_JVM], submitted.env["PYTHONUNBUFFERED"]) == ("1", "1")


@pytest.mark.parametrize("master", ["spark://one:7077", "yarn", "spark://localhost:7077"])
def test_a_cluster_is_given_its_driver_by_spark_submit(
    master: str, submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SPARK", json.dumps({"conn_type": "spark", "host": master}))
    operator().execute(context())
    assert submitted.command[0].endswith("spark-submit")
    assert not {LATE_JVM, OPTIONS} & set(submitted.env)


def test_another_installation_of_spark_brings_its_own_pyspark(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours would meet the classes of another version."""
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    operator().execute(context())
    assert submitted.command[0] == "spark-submit"
    assert LATE_JVM not in submitted.env


def test_only_the_spark_submit_of_this_environment_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "pyspark"
    packaged, beside = programme(package / "bin"), programme(tmp_path / "venv")
    other, third = programme(tmp_path / "opt"), programme(tmp_path / "venv", "spark3-submit")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    where = SimpleNamespace(submodule_search_locations=[str(package)])
    monkeypatch.setattr("airflow_cdc.java.find_spec", lambda _name: where)
    found = {path: is_own(str(path), {}) for path in (packaged, beside, other, third, tmp_path / "absent")}
    assert [path for path, own in found.items() if own] == [packaged, beside]
    assert is_own("spark-submit", {"PATH": str(beside.parent)})
    assert not is_own("spark-submit", {"PATH": str(other.parent)})
    assert not is_own(str(packaged), {"SPARK_HOME": "/opt/spark"})
    monkeypatch.setattr("airflow_cdc.java.find_spec", lambda _name: None)
    assert not is_own(str(packaged), {})


# a driver in little, whose JVM is a process that waits
DRIVER = """
import subprocess, sys
child = subprocess.Popen((sys.executable, "-c", "import signal; signal.pause()"))
print(child.pid, flush=True)
child.wait()
"""


def test_who_ends_the_driver_ends_its_jvm(submitted: Submitted) -> None:
    """A JVM that only saw its Python gone would end in order, and might still commit what it had begun."""
    del submitted
    task = operator()
    with subprocess.Popen((sys.executable, "-c", DRIVER), stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        jvm = int(driver.stdout.readline())
        task._conn_id = "shop_spark"
        task._hook = task._get_hook()
        task._hook._submit_sp = driver
        task.on_kill()
        wait_until(lambda: not lives(jvm) or None, timeout=10, what="the JVM to end")
        assert driver.wait(10) != 0
    assert below(driver.pid) == []


def test_of_a_driver_that_has_ended_nothing_more_is_ended(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pid may be that of another process by then."""
    del submitted
    task, asked = operator(), list[int]()

    def noted(pid: int) -> list[Any]:
        asked.append(pid)
        return []

    monkeypatch.setattr(spark, "below", noted)
    with subprocess.Popen((sys.executable, "-c", "")) as driver:
        driver.wait(10)
        task._conn_id = "shop_spark"
        task._hook = task._get_hook()
        task._hook._submit_sp = driver
        task.on_kill()
    assert asked == []


def test_a_driver_that_never_started_has_nothing_to_end(submitted: Submitted) -> None:
    del submitted
    task = operator()
    task._conn_id = "shop_spark"
    task.on_kill()
    end([])
