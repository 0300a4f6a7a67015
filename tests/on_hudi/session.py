"""A Spark session with Hudi, as a driver has it: only in a process whose pyspark is Hudi's (stack/hudi.py)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_cdc.sinks.hudi.client import HudiSink
from airflow_cdc.sinks.hudi.endpoint import HudiEndpoint
from airflow_cdc.spark_apps.driver.session import EXACT, LOCAL
from stack import fetch
from stack.versions import SPARK_OF_HUDI

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def hudi_session(folder: Path) -> Iterator[SparkSession]:
    """A local session that ends with the block."""
    import pyspark
    from pyspark.sql import SparkSession

    from airflow_cdc.spark_apps.driver.functions import register_functions

    if pyspark.__version__ != SPARK_OF_HUDI:
        raise RuntimeError(f"this is Spark {pyspark.__version__}, not Hudi's {SPARK_OF_HUDI}")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        **LOCAL,
        **EXACT,
        **HudiSink(HudiEndpoint(str(folder))).spark_conf(),
        "spark.master": "local[2]",
        "spark.jars": ",".join(map(str, fetch.set_jars("hudi"))),
        "spark.driver.memory": "1200m",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.appName("cdc-on-hudi")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register_functions(session)
    try:
        yield session
    finally:
        session.stop()
