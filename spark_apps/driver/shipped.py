"""This package, and what it reads events with, for executors on other machines: their Python need not have them installed."""

from __future__ import annotations

import importlib.util
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
# What decodes events besides the standard library, as far as it reads the same without its compiled files: Avro. JSON is read
# without msgspec, which has no Python files that would do.
READERS: Final = ("fastavro",)


def ship(spark: SparkSession) -> None:
    """Send the package's Python files to the session's executors, as they are on this machine."""
    from pyspark import SparkFiles

    # a folder that Spark removes when the session ends; files are served from it until then
    archive = Path(SparkFiles.getRootDirectory()) / "shipped" / NAME
    archive.parent.mkdir(exist_ok=True)
    write_archive(archive)
    spark.sparkContext.addPyFile(str(archive))


def write_archive(path: Path) -> None:
    """Write the package, and the readers of events that are installed beside it, as an importable zip."""
    roots = [Path(airflow_cdc.__file__).parent, *filter(None, map(_installed, READERS))]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for root in roots:
            for file in _sources(root):
                out.write(file, Path(root.name) / file.relative_to(root))


def _installed(name: str) -> Path | None:
    """The folder of a package; None if it is not installed."""
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _sources(root: Path) -> Iterator[Path]:
    # followlinks: in a checkout spark_apps is a link
    for folder, names, files in os.walk(root, followlinks=True):
        names[:] = sorted(set(names) - LEFT_OUT)
        yield from (Path(folder) / name for name in sorted(files) if name.endswith(".py"))
