"""Flink CDC, whose job writes Hudi tables itself: MySQL's log was purged, and the table is put right in place.

It runs in the environment of Hudi's Spark (elsewhere.py), with Hudi's bundle for Flink (stack.hudi.flink_bundle).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import stack
from airflow_cdc.sinks.hudi.endpoint import COPY_ON_WRITE
from stack import versions
from stack.flink import start_flink
from stack.hudi import flink_bundle
from stack.mysql import MySqlSettings
from tests.integration.flink.recovered import Copied
from tests.on_hudi.flink import FlinkIntoHudi
from tests.systems.case import Case
from tests.systems.flink_mysql import KINDS, FlinkMySql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

NAME = "systems_flink_hudi"


@contextmanager
def opened(folder: Path, spark: SparkSession, lake: Lake, table_type: str = COPY_ON_WRITE) -> Iterator[FlinkMySql]:
    """Servers of its own, and a database with the table."""
    bundle = flink_bundle()
    with stack.start(folder / "stack", ("mysql",), mysql_settings=[MySqlSettings(max_binlog_size=4194304)]) as running:
        server = running.mysql["mysql"]
        columns = ", ".join(f"`{name}` {kind.declared}" for name, (_, kind) in KINDS.items())
        server.execute(
            f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            f"CREATE TABLE {NAME}.kinds (id bigint PRIMARY KEY, {columns})",
        )
        declared = ", ".join(["`id` BIGINT", *(f"`{name}` {kind}" for name, (kind, _) in KINDS.items())])
        flink = start_flink(folder / "flink", sets=("flink-iceberg",), jars=(bundle,))
        tables = {"kinds": Copied(declared, "id")}
        followed = FlinkIntoHudi(server, flink, spark, lake, {}, folder, NAME, tables, table_type=table_type)
        try:
            yield FlinkMySql(
                followed,
                f"MySQL {server.version}, Flink CDC {versions.FLINK_CDC}, Flink {versions.FLINK}, Hudi {versions.HUDI}",
            )
        finally:
            followed.flink.cancel(NAME)
            followed.flink.stop()


CASES = tuple(
    Case(
        f"Flink CDC to Hudi ({kind})",
        "the log was purged past the savepoint's GTIDs",
        partial(opened, table_type=kind),
        elsewhere=True,
        needs=flink_bundle,
    )
    for kind in (COPY_ON_WRITE, "merge-on-read")
)
