"""A source with a replica, a connector on the source, and what the connector sent: what the detour's tests stand on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.flows.checks import conclude
from airflow_cdc.flows.run import Facts, Run, RunOptions
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from airflow_cdc.sinks.iceberg.kind import IcebergSettings
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.kind import MySqlSettings
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.repair import repair
from airflow_cdc.spark_apps.types import sink_type
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.kind import KafkaSettings
from airflow_cdc.transports.kafka.wire import read_all
from stack.connect import DEBEZIUM_CLASS, ConnectWorker
from stack.mysql import MySqlServer, User
from stack.process import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPLICA = "shop_replica"


def client(server: MySqlServer) -> MySqlSource:
    """The product's own login on a server."""
    return MySqlSource(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password))


def gtids(server: MySqlServer) -> GtidSet:
    return GtidSet.parse(server.execute("SELECT @@GLOBAL.gtid_executed")[0][0])


def replicate(replica: MySqlServer, source: MySqlServer) -> None:
    """Let `replica` follow `source` by GTID."""
    replica.execute(
        f"CHANGE MASTER TO MASTER_HOST = '{source.host}', MASTER_PORT = {source.port},"
        f" MASTER_USER = '{source.debezium.user}', MASTER_PASSWORD = '{source.debezium.password}',"
        " MASTER_AUTO_POSITION = 1, MASTER_CONNECT_RETRY = 1",
        "START SLAVE",
    )


def follows(replica: MySqlServer, source: MySqlServer) -> None:
    """Wait until the replica has all that the source has."""
    wanted = gtids(source)
    wait_until(
        lambda: True if wanted.issubset(gtids(replica)) else None,
        timeout=60,
        what=f"{replica.settings.name} to follow",
        child=replica.child,
    )


def purge(server: MySqlServer) -> None:
    """Close the log file and remove all before the new one."""
    newest = server.execute("FLUSH BINARY LOGS", "SHOW MASTER STATUS")[0][0]
    server.execute(f"PURGE BINARY LOGS TO '{newest}'")


@dataclass(slots=True)
class Pair:
    """One table on a source and its replica, and a connector that has copied it."""

    source: MySqlServer
    replica: MySqlServer
    worker: ConnectWorker
    kafka: str
    lake: Mapping[str, str]
    name: str
    table: str = field(init=False)
    # where connector and product go: another address than the source's own while a name or a proxy stands before it
    address: tuple[str, int] | None = None
    login: User | None = None

    reports: str = field(default_factory=tempfile.mkdtemp)

    def __post_init__(self) -> None:
        self.table = f"{self.name}.t"

    def run(self, run_id: str = "run-1", **options: Any) -> Run:
        """A run of this pipeline, with new clients."""
        lake = Lake("lake", self.lake)
        pipeline = Pipeline(
            self.name,
            MySqlSettings("mysql", "shop_mysql", (self.table,), (REPLICA,)),
            DebeziumSettings("debezium", "c", self.name),
            KafkaSettings("kafka", "k"),
            IcebergSettings("iceberg", self.name, "lake"),
        )
        clients = Parts(
            self._client(),
            DebeziumConnector(ConnectEndpoint(self.worker.url), MySqlCodec()),
            KafkaTransport(KafkaEndpoint(self.kafka)),
            lake,
            Control(IcebergControlStore(lake), self.name),
            {REPLICA: client(self.replica)},
        )
        return Run(pipeline, clients, run_id, self.reports, RunOptions.from_json(options))

    def _client(self) -> MySqlSource:
        host, port = self.address or (self.source.host, self.source.port)
        login = self.login or self.source.cdc
        return MySqlSource(MySqlEndpoint(host, port, login.user, login.password))

    @property
    def config(self) -> dict[str, str]:
        host, port = self.address or (self.source.host, self.source.port)
        login = self.login or self.source.debezium
        return {
            "connector.class": DEBEZIUM_CLASS,
            "database.hostname": host,
            "database.port": str(port),
            "database.user": login.user,
            "database.password": login.password,
            "snapshot.mode": "no_data",
            "database.server.id": str(42000 + int(self.name[-3:], 16)),
            "database.ssl.mode": "preferred",
            "driver.allowPublicKeyRetrieval": "true",
            "topic.prefix": self.name,
            "database.include.list": self.name,
            "schema.history.internal.kafka.bootstrap.servers": self.kafka,
            "schema.history.internal.kafka.topic": f"{self.name}.history",
            "heartbeat.interval.ms": "500",
            "connect.keep.alive.interval.ms": "500",
        }

    def follow(self) -> None:
        """Create the connector and wait until it streams."""
        self.worker.call("PUT", f"/connectors/{self.name}/config", self.config)
        self.wait_read(self.source)

    def offset(self) -> dict[str, Any]:
        entries = self.worker.call("GET", f"/connectors/{self.name}/offsets")["offsets"]
        return dict(entries[0]["offset"] or {}) if entries else {}

    def wait_read(self, server: MySqlServer) -> None:
        """Wait until the connector has read all that `server` holds now."""
        wanted = gtids(server)
        wait_until(
            lambda: True if not (wanted - GtidSet.parse(self.offset().get("gtids") or "")) else None,
            timeout=90,
            what=f"{self.name} to read {wanted}",
            child=self.worker.child,
        )

    def events(self) -> list[tuple[str, Any, Any]]:
        """(op, row before, row after) of all that is in the table's topic; rows as (id, v)."""
        try:
            records = read_all(KafkaEndpoint(self.kafka), f"{self.name}.{self.table}")
        except CdcError as error:
            raise AssertionError(str(error)) from None
        bodies = [json.loads(record.value) for record in records if record.value]
        plain = [body.get("payload", body) for body in bodies]
        return [(body["op"], _row(body["before"]), _row(body["after"])) for body in plain]

    def sink(self) -> None:
        """The sink table, empty and stamped: all of the topic is to be applied."""
        with closing(self._client().connect()) as connection:
            made = read_table_defs(connection, [self.table])[self.table]
        lake = Lake("lake", self.lake)
        lake.ensure_table(self.name, "t", [(c.name, sink_type(c)) for c in made.mirrored])
        table = lake.table(self.name, "t")
        table.append(table.schema().as_arrow().empty_table(), snapshot_properties=Stamp(0).to_summary())

    def compared(self, spark: SparkSession, run: Run) -> Facts:
        """What the tasks `compare` and `verdict` of the run do. Raises VerificationError unless all rows are equal."""
        register_functions(spark)
        repair(self.run(run.run_id, dry_run=True), spark)
        return conclude(run)


def _row(image: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    return None if image is None else (image["id"], image["v"])
