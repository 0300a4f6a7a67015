"""What a driver sends to executors elsewhere: enough to import the adapters that work there, without Airflow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_cdc.spark_apps.driver.session import is_local, python_of
from airflow_cdc.spark_apps.driver.shipped import write_archive

# what executors unpickle functions of
ON_EXECUTORS = ("adapters.rabbitmq", "adapters.opensearch_documents", "driver.functions")


def test_the_archive_alone_is_enough_to_import_what_executors_run(tmp_path: Path) -> None:
    archive = tmp_path / "shipped.zip"
    write_archive(archive)
    names = [f"airflow_cdc.spark_apps.{name}" for name in ON_EXECUTORS]
    code = f"""
import sys, importlib
sys.path.insert(0, {str(archive)!r})
for name in {names!r}:
    assert importlib.import_module(name).__file__.startswith({str(archive)!r}), name
assert not [name for name in sys.modules if name == "airflow" or name.startswith("airflow.")]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,4]", True),
        ("localhost", False),
        ("spark://localhost:7077", False),
        ("local-cluster[2,1,1024]", False),
        ("yarn", False),
    ],
)
def test_only_a_driver_that_is_its_own_executor_is_local(master: str, *, local: bool) -> None:
    assert is_local(master) is local
    assert ("PYSPARK_PYTHON" in python_of(local=local)) is local
