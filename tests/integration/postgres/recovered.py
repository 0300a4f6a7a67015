"""A PostgreSQL database that a real connector follows into the lake, and the steps of its recovery as a run does them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.postgres import PostgresCodec
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
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.settings import PostgresSettings
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.types import sink_type
from airflow_cdc.spark_apps.verify import verify
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.settings import KafkaSettings
from tests.integration.postgres.support import endpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stack.postgres import PostgresServer

SECONDS = 120.0


@dataclass(slots=True)
class Followed:
    """Tables of one database, its connector, and their mirror in a namespace of the database's name."""

    server: PostgresServer
    spark: SparkSession
    lake: Lake
    kafka: str
    connect_url: str
    folder: Path
    database: str
    tables: tuple[str, ...]
    source: PostgresSource = field(init=False)
    connector: DebeziumConnector = field(init=False)
    base: Run = field(init=False)

    def __post_init__(self) -> None:
        register_functions(self.spark)
        name, full = self.database, tuple(f"public.{table}" for table in self.tables)
        self.source = PostgresSource(replace(endpoint(self.server, name), slot=name, publication=name))
        self.connector = DebeziumConnector(ConnectEndpoint(self.connect_url), PostgresCodec())
        pipeline = Pipeline(
            name,
            PostgresSettings("postgres", "p", full, slot=name, publication=name, database=name),
            DebeziumSettings("debezium", "c", name),
            KafkaSettings("kafka", "k"),
            IcebergSettings("iceberg", name, self.lake.name),
            policy=Policy(hold=HoldPolicy(mode="off")),
        )
        control = Control(IcebergControlStore(self.lake), name)
        transport = KafkaTransport(KafkaEndpoint(self.kafka))
        clients: Any = Parts(self.source, self.connector, transport, self.lake, control)
        self.base = Run(pipeline, clients, "run-0", str(self.folder))

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, dbname=self.database)

    def follow(self, settings: Mapping[str, str]) -> None:
        """Start the connector on the empty tables, and stamp their mirrors at the beginning of their topics."""
        server, name = self.server, self.database
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.debezium.user,
            "database.password": server.debezium.password,
            "database.dbname": name,
            "plugin.name": "pgoutput",
            "topic.prefix": name,
            "slot.name": name,
            "publication.name": name,
            "publication.autocreate.mode": "disabled",
            "snapshot.mode": "no_data",
            "table.include.list": ",".join(f"public.{table}" for table in self.tables),
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.replace.null.with.default": "false",
            "heartbeat.interval.ms": "500",
            **settings,
        }
        self.connector.create(name, config)
        poll_until(lambda: self._active() or None, timeout=SECONDS, what="the connector to read its slot")
        for table in self.tables:
            made = self.source.definitions([f"public.{table}"])[f"public.{table}"]
            self.lake.ensure_table(name, sink_name(table), [(c.name, sink_type(c)) for c in made.mirrored])
            append_nothing(self.spark, self.sink(table), Stamp(0).to_summary())

    def _active(self) -> bool:
        slot = self.source.facts().slot
        return slot is not None and slot.active

    def sink(self, table: str) -> str:
        return f"`{self.lake.name}`.`{self.database}`.`{sink_name(table)}`"

    def apply(self, run_id: str) -> dict[str, Any]:
        """Apply all that the source has committed so far."""
        position = self.source.position().position
        poll_until(
            lambda: self._past(position), timeout=SECONDS, what=f"the connector to commit an offset past {position}"
        )
        done: dict[str, Any] = apply_changes(replace(self.base, run_id=run_id), self.spark)["tables"]
        return done

    def _past(self, position: Any) -> bool | None:
        stored = self.connector.facts(self.database).offset
        return True if stored and stored.position and stored.position.covers(position) else None

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
        """Rows that only the source has, and rows that only the sink has: read by psycopg and by PyIceberg alone."""
        columns = ", ".join(f'"{name}"' for name in order)
        with self.server.connect(dbname=self.database) as connection:
            theirs = Counter(_plain(row) for row in connection.execute(f"SELECT {columns} FROM public.{table}"))
        found = self.lake.read_arrow(self.database, sink_name(table)).to_pylist()
        ours = Counter(_plain([row[name] for name in order]) for row in found)
        return sorted(theirs - ours, key=repr), sorted(ours - theirs, key=repr)


def _plain(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_value(value) for value in row)


def _value(value: Any) -> Any:
    """One form of what the two libraries make of a value: moments in UTC, lists as tuples, the rest as it is."""
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC)
    if isinstance(value, list):
        return tuple(map(_value, value))
    return bytes(value) if isinstance(value, memoryview) else value


@contextmanager
def writing(followed: Followed, *statements: str) -> Iterator[threading.Event]:
    """Run the statements again and again meanwhile, {n} counting up; what they raise is raised at the end."""
    stop, failures = threading.Event(), []

    def write() -> None:
        try:
            with followed.server.connect(dbname=followed.database) as connection:
                n = 0
                while not stop.wait(0.02):
                    n += 1
                    with connection.transaction():
                        for statement in statements:
                            connection.execute(statement.format(n=n))
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(30)
    if failures:
        raise failures[0]
