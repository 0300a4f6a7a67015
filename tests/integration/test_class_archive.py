"""The archive of a driver's classes on a real JVM: the first driver writes it, the second loads from it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_cdc.operators.class_archive import class_archive
from airflow_cdc.spark_apps.driver.session import JAVA_OPTIONS, LOCAL, python_of
from tests.bench.whole import EMPTY

pytestmark = pytest.mark.slow

SPARK_SUBMIT = str(Path(sys.executable).with_name("spark-submit"))
FROM_THE_ARCHIVE = "source: shared objects file (top)"


def classes_loaded(folder: Path, archives: Path, name: str) -> str:
    """The JVM's own list of the classes of a driver, with where each came from."""
    script, loaded = folder / "empty.py", folder / f"{name}.log"
    script.write_text(EMPTY)
    conf = {**LOCAL, JAVA_OPTIONS: f"-Duser.timezone=UTC -Xlog:class+load:file={loaded}"}
    with class_archive(archives, conf, SPARK_SUBMIT) as given:
        settings = [f"--conf={key}={value}" for key, value in given.items()]
        done = subprocess.run(
            [SPARK_SUBMIT, *settings, str(script)],
            env={**os.environ, **python_of(local=True)},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
    assert "[warning][cds" not in done.stdout
    return loaded.read_text()


def test_the_first_driver_writes_the_archive_and_the_second_loads_from_it(tmp_path: Path) -> None:
    archives = tmp_path / "classes"
    first = classes_loaded(tmp_path, archives, "first")
    assert FROM_THE_ARCHIVE not in first
    (archive,) = archives.iterdir()
    written = archive.stat().st_mtime_ns
    second = classes_loaded(tmp_path, archives, "second")
    assert second.count(FROM_THE_ARCHIVE) > 5_000, "Spark's session alone is more than that"
    assert archive.stat().st_mtime_ns == written
