"""A real Spark cluster of processes instead of a driver that is its own executor: a session of its own per run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stack
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.driver.session import build_session
from stack import fetch
from stack.jvm import QUICK
from stack.spark_cluster import SparkCluster, start_spark_cluster
from tests.integration.conftest import databases, lake_properties, mysql, rig, servers, stack_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["databases", "lake_properties", "mysql", "rig", "servers", "stack_dir"]


@pytest.fixture(scope="session")
def cluster(servers: stack.Stack, stack_dir: Path) -> Iterator[SparkCluster]:
    """A master and two workers."""
    running = start_spark_cluster(stack_dir, servers.logs)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def spark(
    cluster: SparkCluster, lake_properties: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A driver's session on the cluster, as the applications build it; the executors get nothing but what it ships."""
    os.environ.pop("PYSPARK_PYTHON", None)
    extra = {
        "spark.master": cluster.master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "800m",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {QUICK}",
        "spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {QUICK}",
        "spark.sql.shuffle.partitions": "2",
        "spark.locality.wait": "0s",
        "spark.local.dir": str(tmp_path_factory.mktemp("driver")),
    }
    jars = [str(jar) for jar in fetch.set_jars("spark")]
    session = build_session("cdc cluster tests", Lake("lake", lake_properties), jars, extra)
    yield session
    session.stop()
