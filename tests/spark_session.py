"""A session of Spark in the tests' own process, with an embedded Iceberg catalog: no server."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stack import fetch, jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# pyspark leaves the socket of each collect() to the garbage collector, which may find it in a later test
COLLECTED: Final = (
    "ignore:unclosed <socket.socket fd=[0-9]+, family=2, type=1, proto=6, laddr=.'127.0.0.1', [0-9]+., raddr=.'127.0.0.1'"
    ":ResourceWarning"
)


# set it, and the tests' session is on a Spark Connect server (make connect)
ON_A_SERVER: Final = "CDC_TESTS_ON_SPARK_CONNECT"


def embedded_catalog(folder: Path) -> dict[str, str]:
    """Properties of a catalog (SQLite file and local warehouse) in this folder, for PyIceberg."""
    (folder / "warehouse").mkdir()
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder / 'catalog.db'}",
        "warehouse": f"file://{folder / 'warehouse'}",
    }


def spark_conf(folder: Path, lake_properties: dict[str, str]) -> dict[str, str]:
    """Configuration of a test session; jars come as paths, so that Spark resolves nothing itself."""
    from airflow_cdc.sinks.iceberg.client import Lake
    from airflow_cdc.spark_apps.driver.session import EXACT

    return {
        **EXACT,
        "spark.jars": ",".join(str(jar) for jar in fetch.set_jars("spark")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1500m",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.shuffle.partitions": "2",
        **Lake("lake", lake_properties).spark_conf(),
    }


@contextmanager
def local_session(folder: Path, lake_properties: dict[str, str], **settings: str) -> Iterator[SparkSession]:
    """A session that ends with the block: two cores, ANSI mode and UTC; the catalog `lake` is that of `lake_properties`.

    `settings`: others of Spark's, with `__` for a dot.
    """
    if os.environ.get(ON_A_SERVER):
        with session_on_a_server(folder, lake_properties) as session:
            yield session
        return
    conf = spark_conf(folder, lake_properties)
    del conf["spark.jars"]  # on the class path instead, where the archive of classes counts
    conf |= {
        "spark.master": "local[2]",
        **jvm.conf(),
        **{name.replace("__", "."): one for name, one in settings.items()},
    }
    with session_with(conf) as session:
        yield session


@contextmanager
def session_on_a_server(folder: Path, lake_properties: dict[str, str]) -> Iterator[SparkSession]:
    """The product's own session, on a Spark Connect server that ends with the block."""
    from airflow_cdc.sinks.iceberg.client import Lake
    from airflow_cdc.spark_apps.driver.session import remote_session, stop
    from stack.spark_connect import start_spark_connect

    server = start_spark_connect(folder, folder / "logs")
    try:
        lake = Lake("lake", lake_properties)
        session = remote_session("cdc-tests", lake, {"url": server.url, "token": server.token})
        yield session
        stop(session)
    finally:
        server.stop()


@contextmanager
def session_with(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session with these settings in this process's Python, which ends with the block."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("cdc-tests")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
