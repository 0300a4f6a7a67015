"""Tables on the real server, an embedded lake and an open recovery: what the snapshot and verify tests stand on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.control.control import Control
from airflow_cdc.core.pipeline import Pipeline, sink_name
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from airflow_cdc.sinks.iceberg.kind import IcebergSettings
from airflow_cdc.sinks.iceberg.stage import Stage
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.kind import MySqlSettings
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.spark_apps.adapters.iceberg import IcebergWriter
from airflow_cdc.spark_apps.adapters.iceberg_schema import fit_columns
from airflow_cdc.spark_apps.adapters.mysql import MySqlReader
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.snapshot.read import Reading, Tools, read_table
from airflow_cdc.spark_apps.types import sink_type
from airflow_cdc.transports.kafka.kind import KafkaSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from stack.mysql import MySqlServer

CONTROL_NAME = "shop"


@dataclass(slots=True)
class Rig:
    """One database of its own on the server; sink tables live in a namespace of the same name."""

    server: MySqlServer
    spark: SparkSession
    lake: Lake
    schema: str
    source: MySqlSource = field(init=False)

    def __post_init__(self) -> None:
        login = self.server.cdc
        self.source = MySqlSource(MySqlEndpoint(self.server.host, self.server.port, login.user, login.password))
        register_functions(self.spark)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Statements as root in this database, zero dates allowed; rows of the last one."""
        with closing(self.server.connect(database=self.schema)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00', cte_max_recursion_depth = 3000000"
            )
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def table(self, name: str) -> Table:
        """The definition as the server has it now."""
        full = f"{self.schema}.{name}"
        with closing(self.source.connect()) as connection:
            return read_table_defs(connection, [full])[full]

    def tools(self) -> Tools:
        return Tools(self.spark, MySqlReader(self.source), IcebergWriter(self.lake))

    def reading(self, table: Table, watermark: Watermark, label: str = "recov_1_1", **sizes: int) -> Reading[Stage]:
        """A fresh stage for the table, with its columns, and nothing read."""
        stage = self.stage(table, label)
        ledger = ChunkLedger(watermark.hash, watermark.server, table.fingerprint)
        stamp = Stamp(1, watermark.to_json(), {})
        return Reading(table, stage, ledger, stamp, watermark, **sizes)

    def stage(self, table: Table, label: str = "recov_1_1") -> Stage:
        columns = [(column.name, sink_type(column)) for column in table.mirrored]
        name = sink_name(table.name)
        self.lake.ensure_table(self.schema, name, columns)
        stage = self.lake.stage(self.schema, name, label)
        fit_columns(self.lake, stage, columns)
        return stage

    def snapshot(self, table: Table, label: str = "recov_1_1", **sizes: int) -> tuple[Stage, int]:
        """Read the table into a stage as it is now; (stage, snapshot id)."""
        reading = self.reading(table, self.source.watermark(), label, **sizes)
        return reading.stage, read_table(self.tools(), reading, Progress({table.full_name: 0}))

    def staged(self, stage: Stage, columns: str = "*") -> list[tuple[Any, ...]]:
        """Rows of the stage, sorted."""
        rows = self.spark.sql(f"SELECT {columns} FROM {stage.spark_name(self.lake.name)}").collect()
        return sorted((tuple(row) for row in rows), key=repr)

    def recovery_run(
        self, tables: Sequence[str], report_dir: Path, connector: Any = None, transport: Any = None
    ) -> Run:
        """A run of a pipeline over these tables; clients that a test does not give are absent."""
        pipeline = Pipeline(
            CONTROL_NAME + self.schema,
            MySqlSettings("mysql", "m", tuple(f"{self.schema}.{name}" for name in tables)),
            DebeziumSettings("debezium", "c", self.schema),
            KafkaSettings("kafka", "k"),
            IcebergSettings("iceberg", self.schema, self.lake.name),
        )
        control = Control(IcebergControlStore(self.lake), pipeline.name)
        clients = Parts(self.source, cast("Any", connector), cast("Any", transport), self.lake, control)
        return Run(pipeline, clients, "run-1", str(report_dir))


RigMaker = Callable[[], Rig]
