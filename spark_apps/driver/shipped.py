"""This package for executors on other machines: their Python need not have it installed."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import airflow_cdc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

NAME: Final = "airflow_cdc_shipped.zip"
# Airflow's own side of the package: no executor has Airflow, and none needs these.
LEFT_OUT: Final = frozenset({"__pycache__", "dags", "operators", "plugin", "templates"})


def ship(spark: SparkSession) -> None:
    """Send the package's Python files to the session's executors, as they are on this machine."""
    from pyspark import SparkFiles

    # a folder that Spark removes when the session ends; files are served from it until then
    archive = Path(SparkFiles.getRootDirectory()) / "shipped" / NAME
    archive.parent.mkdir(exist_ok=True)
    write_archive(archive)
    spark.sparkContext.addPyFile(str(archive))


def write_archive(path: Path) -> None:
    """Write the package, as an importable zip."""
    root = Path(airflow_cdc.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for file in _sources(root):
            out.write(file, Path(root.name) / file.relative_to(root))


def _sources(root: Path) -> Iterator[Path]:
    # followlinks: in a checkout spark_apps is a link
    for folder, names, files in os.walk(root, followlinks=True):
        names[:] = sorted(set(names) - LEFT_OUT)
        yield from (Path(folder) / name for name in sorted(files) if name.endswith(".py"))
