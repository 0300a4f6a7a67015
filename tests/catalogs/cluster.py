"""A lake whose Spark runs on a cluster of processes, as an application's driver builds its session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.driver.session import build_session
from stack import fetch
from stack.jvm import QUICK
from stack.ports import HOST
from stack.spark_cluster import start_spark_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def on_a_cluster(
    folder: Path, properties: Mapping[str, str], more_jars: Sequence[Path] = ()
) -> Iterator[tuple[Lake, SparkSession]]:
    """A catalog, and a session on a master and two workers; the executors get nothing but what the driver ships."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.pop(name, None)
    cluster = start_spark_cluster(folder, folder / "logs")
    try:
        lake = Lake("lake", dict(properties))
        jars = [str(jar) for jar in (*fetch.set_jars("spark"), *more_jars)]
        session = build_session("cdc-catalogs", lake, jars, _settings(cluster.master, folder))
        try:
            yield lake, session
        finally:
            session.stop()
    finally:
        cluster.stop()


def _settings(master: str, folder: Path) -> dict[str, str]:
    return {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.driver.memory": "1g",
        "spark.executor.memory": "800m",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {QUICK}",
        "spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {QUICK}",
        "spark.sql.shuffle.partitions": "2",
        "spark.locality.wait": "0s",
        "spark.local.dir": str(folder / "driver"),
    }
