"""A MySQL database that a real connector follows into Hudi, in a process whose pyspark is Hudi's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.pipeline import sink_name
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.sinks.hudi.client import HudiSink
from airflow_cdc.sinks.hudi.endpoint import COPY_ON_WRITE, HudiEndpoint
from airflow_cdc.sinks.hudi.kind import HudiSettings
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.kind import MySqlSettings
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from airflow_cdc.spark_apps.adapters.hudi import HudiWriter
from airflow_cdc.spark_apps.publish import publish_by_spark
from airflow_cdc.spark_apps.types import sink_type
from tests.integration.mariadb.recovered import connector_config
from tests.integration.recovering import FollowedDatabase, SinkParts
from tests.on_demand import on_demand


@dataclass(slots=True)
class IntoHudi(FollowedDatabase):
    """Tables of one database, mirrored into the folder `tables`; the lake is not used."""

    table_type: Any = COPY_ON_WRITE

    def __post_init__(self) -> None:
        server, name = self.server, self.database
        source = MySqlSource(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password))
        self.publishing = self.publish_by_spark
        self.set_up(source, MySqlSettings("mysql", "m", tuple(f"{name}.{t}" for t in self.tables)), MySqlCodec())

    def publish_by_spark(self, run: Run) -> Facts:
        """As the operator does it: by a driver."""
        with on_demand(self.spark) as spark:
            return publish_by_spark(run, spark)

    def sink_parts(self) -> SinkParts:
        """See FollowedDatabase: the control document is in SQL."""
        path = self.folder / "tables"
        path.mkdir(exist_ok=True)
        control = SqlControlStore(SqlEndpoint("sqlite", str(self.folder / "control.db")))
        settings = HudiSettings("hudi", self.database, str(path), self.table_type)
        return SinkParts(HudiSink(HudiEndpoint(str(path), self.table_type)), settings, control)

    def mirror(self, schema: str) -> None:
        """See FollowedDatabase."""
        sink: Any = self.base.clients.sink
        writer = HudiWriter(sink)
        for table in self.tables:
            name = f"{schema}.{table}"
            definition = self.source.definitions([name])[name]
            columns = [(column.name, sink_type(column)) for column in definition.mirrored]
            sink.ensure_table(self.database, sink_name(table), columns)
            stage = sink.stage_for_changes(self.database, sink_name(table), "empty")
            writer.note_definition(stage, definition)
            writer.nothing(self.spark, stage, Stamp(0).to_summary())

    def execute(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        rows: Sequence[tuple[Any, ...]] = self.server.execute(
            f"USE {self.database}", "SET SESSION time_zone = '+00:00'", *statements
        )
        return rows

    def follow(self) -> None:
        """Start the connector on the empty tables, and stamp their mirrors at the beginning of their topics."""
        name = self.database
        own = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.ssl.mode": "disabled",
            "driver.allowPublicKeyRetrieval": "true",
        }
        self.connector.create(name, connector_config(self.server, name, self.kafka, own))
        self.wait_read()
        self.mirror(name)

    def purge(self) -> None:
        """All but the newest file of the log."""
        self.server.execute("FLUSH BINARY LOGS")
        newest = self.server.execute("SHOW BINARY LOGS")[-1][0]
        self.server.execute(f"PURGE BINARY LOGS TO '{newest}'")

    def sink_rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """What a reader of the folder finds, in a session of its own."""
        sink: Any = self.base.clients.sink
        folder = sink.folder((self.database, sink_name(table)))
        frame = self.spark.newSession().read.format("hudi").load(str(folder))
        return [row.asDict(recursive=True) for row in frame.collect()]
