"""A database that a real connector follows from before its first row, and the run that applies its events."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.core.pipeline import sink_name
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.flows.run import RunOptions
from airflow_cdc.sources.mysql.encoding import row_hash as mysql_row_hash
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.sources.mysql.quoting import quote_table
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.canonical.spark import row_hash as spark_row_hash
from airflow_cdc.spark_apps.types import sink_type
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack.process import wait_until
from tests.integration.every_type import LOAD_MODE
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from stack.connect import ConnectWorker


class Followed:
    """A database that a connector follows from before its first row, and the run that applies its events."""

    def __init__(self, rig: Rig, worker: ConnectWorker, kafka: str, folder: Path, tables: Mapping[str, str]) -> None:
        self.rig, self.worker, self.kafka, self.tables = rig, worker, kafka, tuple(tables)
        self.connector = DebeziumConnector(ConnectEndpoint(worker.url), MySqlCodec())
        transport = KafkaTransport(KafkaEndpoint(kafka))
        rig.run(*tables.values())
        self.base = rig.recovery_run(self.tables, folder, self.connector, transport)

    def follow(self, settings: Mapping[str, str]) -> None:
        """Start the connector with these settings beside its own; "" leaves one of its own out."""
        server, name = self.rig.server, self.base.pipeline.connector.name
        config = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.debezium.user,
            "database.password": server.debezium.password,
            "database.server.id": str(80000 + int(uuid.uuid4().hex[:4], 16)),
            "database.include.list": self.rig.schema,
            "database.ssl.mode": "disabled",
            "driver.allowPublicKeyRetrieval": "true",
            "topic.prefix": name,
            "snapshot.mode": "no_data",
            "schema.history.internal.kafka.bootstrap.servers": self.kafka,
            "schema.history.internal.kafka.topic": f"history-{name}",
            "schema.history.internal.store.only.captured.databases.ddl": "true",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.replace.null.with.default": "false",
            "heartbeat.interval.ms": "500",
            "connect.keep.alive.interval.ms": "500",  # the clock of its heartbeats while nothing comes
            "enable.time.adjuster": "false",
            **settings,
        }
        config = {name: value for name, value in config.items() if value}
        self.worker.call("PUT", f"/connectors/{name}/config", config)
        wait_until(self._streams, timeout=120, what=f"{name} to have a position")

    def _streams(self) -> bool | None:
        return True if self.connector.facts(self.base.pipeline.connector.name).offset else None

    def stamp(self) -> None:
        """Every sink table empty, to be read from the beginning of its topic."""
        for table in self.tables:
            made = self.rig.table(table)
            self.rig.lake.ensure_table(
                self.rig.schema, sink_name(table), [(c.name, sink_type(c)) for c in made.mirrored]
            )
            append_nothing(self.rig.spark, self.sink(table), Stamp(0).to_summary())

    def sink(self, table: str) -> str:
        return f"`{self.rig.lake.name}`.`{self.rig.schema}`.`{sink_name(table)}`"

    def apply(self, run_id: str, *tables: str) -> dict[str, Any]:
        """Apply all that the source has committed so far, to all tables or these."""
        position = self.rig.source.position()
        wait_until(
            lambda: self.past(position) or None, timeout=120, what=f"the connector to commit an offset past {position}"
        )
        return self.apply_now(run_id, *tables)

    def apply_now(self, run_id: str, *tables: str) -> dict[str, Any]:
        """Apply what is in the topics to all tables or these."""
        options = RunOptions(tables=tuple(f"{self.rig.schema}.{table}" for table in tables))
        done = apply_changes(replace(self.base, run_id=run_id, options=options), self.rig.spark)["tables"]
        return {name.partition(".")[2]: result for name, result in done.items()}

    def past(self, position: Watermark) -> bool:
        """Whether the stored offset holds the position."""
        facts = self.connector.facts(self.base.pipeline.connector.name)
        stored = GtidSet.parse(str((facts.offset.raw if facts.offset else {}).get("gtids") or ""))
        gtids = mysql_position(position.position).gtids
        assert gtids is not None
        return gtids.issubset(stored)

    def differences(self, table: str) -> tuple[list[Any], list[Any]]:
        """Row hashes that only the source has, and that only the sink has."""
        made = self.rig.table(table)
        with closing(self.rig.server.connect(database=self.rig.schema)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = %s, time_zone = '+00:00'", [LOAD_MODE])
            cursor.execute(f"SELECT {mysql_row_hash(made)} FROM {quote_table(made)}")
            theirs = Counter(row[0] for row in cursor.fetchall())
        found = self.rig.spark.sql(f"SELECT {spark_row_hash(made)} FROM {self.sink(table)}").collect()
        ours = Counter(row[0] for row in found)
        return list(theirs - ours), list(ours - theirs)
