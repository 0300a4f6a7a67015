"""A MariaDB database that a real connector follows into the lake, and the steps of its recovery as a run does them."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mariadb import MariaDbCodec
from airflow_cdc.connectors.debezium.settings import DebeziumSettings
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.control.control import Control
from airflow_cdc.core.apply.stamp import Stamp
from airflow_cdc.core.pipeline import HoldPolicy, Pipeline, Policy, sink_name
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import connector as connector_steps
from airflow_cdc.flows import reset_offset, watermark
from airflow_cdc.flows.close import close
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from airflow_cdc.sinks.iceberg.settings import IcebergSettings
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.sources.mariadb.settings import MariaDbSettings
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.types import sink_type
from airflow_cdc.spark_apps.verify import verify
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.settings import KafkaSettings
from stack.connect import MARIADB_CLASS
from tests.integration.mariadb.support import endpoint, purge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stack.mysql import MySqlServer

SECONDS = 120.0


@dataclass(slots=True)
class Followed:
    """Tables of one database, its connector, and their mirror in a namespace of the database's name."""

    server: MySqlServer
    spark: SparkSession
    lake: Lake
    kafka: str
    connect_url: str
    folder: Path
    database: str
    tables: tuple[str, ...]
    source: MariaDbSource = field(init=False)
    connector: DebeziumConnector = field(init=False)
    base: Run = field(init=False)

    def __post_init__(self) -> None:
        register_functions(self.spark)
        name, full = self.database, tuple(f"{self.database}.{table}" for table in self.tables)
        self.source = MariaDbSource(endpoint(self.server))
        self.connector = DebeziumConnector(ConnectEndpoint(self.connect_url), MariaDbCodec())
        pipeline = Pipeline(
            name,
            MariaDbSettings("mariadb", "m", full),
            DebeziumSettings("debezium", "c", name),
            KafkaSettings("kafka", "k"),
            IcebergSettings("iceberg", name, self.lake.name),
            policy=Policy(hold=HoldPolicy(mode="off")),
        )
        control = Control(IcebergControlStore(self.lake), name)
        clients: Any = Parts(self.source, self.connector, KafkaTransport(KafkaEndpoint(self.kafka)), self.lake, control)
        self.base = Run(pipeline, clients, "run-0", str(self.folder))

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(f"USE {self.database}", "SET SESSION time_zone = '+00:00'", *statements)

    def follow(self, settings: Mapping[str, str]) -> None:
        """Start the connector on the empty tables, and stamp their mirrors at the beginning of their topics."""
        name = self.database
        config = connector_config(self.server, name, self.kafka, settings)
        self.connector.create(name, config)
        poll_until(
            lambda: self.connector.facts(name).offset is not None or None,
            timeout=SECONDS,
            what="the connector to have a position",
        )
        for table in self.tables:
            made = self.source.definitions([f"{name}.{table}"])[f"{name}.{table}"]
            self.lake.ensure_table(name, sink_name(table), [(c.name, sink_type(c)) for c in made.mirrored])
            append_nothing(self.spark, self.sink(table), Stamp(0).to_summary())

    def sink(self, table: str) -> str:
        return f"`{self.lake.name}`.`{self.database}`.`{sink_name(table)}`"

    def apply(self, run_id: str) -> dict[str, Any]:
        """Apply all that the source has committed so far."""
        position = self.source.position()
        poll_until(lambda: self._past(position), timeout=SECONDS, what=f"the connector to commit past {position}")
        done: dict[str, Any] = apply_changes(replace(self.base, run_id=run_id), self.spark)["tables"]
        return done

    def _past(self, position: Any) -> bool | None:
        stored = self.connector.facts(self.database).offset
        return True if stored and stored.has_read(position) else None

    def stored(self) -> Mapping[str, Any]:
        """The raw offset."""
        offset = self.connector.facts(self.database).offset
        assert offset is not None
        return offset.raw

    def purge(self) -> None:
        """All but the newest file of the log."""
        purge(self.server)

    def failure(self) -> str:
        """What the connector's task says once it has failed."""
        found: str = poll_until(
            lambda: next((t.trace for t in self.connector.facts(self.database).tasks if t.state == "FAILED"), None),
            timeout=SECONDS,
            what="the connector to fail",
        )
        return found

    def recover(self, run_id: str) -> dict[str, Any]:
        """The steps of cdc_recovery, one after the other. Returns what was decided, and the facts of `verify`."""
        run = replace(self.base, run_id=run_id)
        decision = decide(run)
        open_recovery(run, Decision.from_json(decision))
        connector_steps.stop(run)
        watermark.fence_and_watermark(run)
        recover(run, self.spark)
        reset_offset.reset_offset(run)
        connector_steps.resume(run)
        compared = verify(run, self.spark)
        publish(run)
        close(run)
        return {"decision": decision, "verify": compared}

    def differences(self, table: str, order: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """Rows that only the source has, and rows that only the sink has: read by PyMySQL and by PyIceberg alone."""
        columns = ", ".join(f"`{name}`" for name in order)
        theirs = Counter(_plain(row) for row in self.execute(f"SELECT {columns} FROM {table}"))
        found = self.lake.read_arrow(self.database, sink_name(table)).to_pylist()
        ours = Counter(_plain([row[name] for name in order]) for row in found)
        return sorted(theirs - ours, key=repr), sorted(ours - theirs, key=repr)


def _plain(row: Sequence[Any]) -> tuple[Any, ...]:
    """One form of what the two libraries make of a row: moments without their zone, which is UTC in both."""
    return tuple(value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value for value in row)


def connector_config(server: MySqlServer, name: str, kafka: str, settings: Mapping[str, str]) -> dict[str, str]:
    """A connector on the database `name`, whose topics begin with it; "" leaves one of its settings out."""
    config = {
        "connector.class": MARIADB_CLASS,
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.debezium.user,
        "database.password": server.debezium.password,
        "database.server.id": str(80000 + int(uuid.uuid4().hex[:4], 16)),
        "database.include.list": name,
        "database.ssl.mode": "disable",
        "topic.prefix": name,
        "snapshot.mode": "no_data",
        "schema.history.internal.kafka.bootstrap.servers": kafka,
        "schema.history.internal.kafka.topic": f"history-{name}",
        "schema.history.internal.store.only.captured.databases.ddl": "true",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.replace.null.with.default": "false",
        "heartbeat.interval.ms": "500",
        "connect.keep.alive.interval.ms": "500",
        "enable.time.adjuster": "false",
        **settings,
    }
    return {name: value for name, value in config.items() if value}


@contextmanager
def writing(followed: Followed, *statements: str) -> Iterator[None]:
    """Run the statements again and again meanwhile, {n} counting up; what they raise is raised at the end."""
    stop, failures = threading.Event(), []

    def write() -> None:
        try:
            connection = followed.server.connect(database=followed.database, autocommit=False)
            with connection, connection.cursor() as cursor:
                n = 0
                while not stop.wait(0.02):
                    n += 1
                    for statement in statements:
                        cursor.execute(statement.format(n=n))
                    connection.commit()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    if failures:
        raise failures[0]
