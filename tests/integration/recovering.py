"""A database that a real connector follows into the lake, and the steps of its recovery as a run does them.

What concerns one kind of source stands in the `recovered.py` of its folder.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.control.control import Control
from airflow_cdc.core.pipeline import HoldPolicy, Pipeline, Policy, sink_name
from airflow_cdc.core.recovery import Decision
from airflow_cdc.core.stamp import Stamp
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
from airflow_cdc.sinks.iceberg.kind import IcebergSettings
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.types import sink_type
from airflow_cdc.spark_apps.verify import verify
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.kind import KafkaSettings
from stack.process import wait_until
from tests.on_demand import on_demand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stack.mysql import MySqlServer

SECONDS = 120.0


class SinkParts(NamedTuple):
    """A sink: its client, its settings in the pipeline, and the control store in it."""

    client: Any
    settings: Any
    control: Any


@dataclass(slots=True)
class FollowedDatabase:
    """Tables of one database, its connector, and their mirror in a namespace of the database's name."""

    server: Any
    spark: SparkSession
    lake: Lake
    kafka: str
    connect_url: str
    folder: Path
    database: str
    tables: tuple[str, ...]
    publishing: Callable[[Run], Any] = field(default=publish, init=False)
    source: Any = field(init=False)
    connector: DebeziumConnector = field(init=False)
    base: Run = field(init=False)

    def set_up(self, source: Any, settings: Any, codec: Any) -> None:
        """The run over this source: its client, its settings in the pipeline, and the codec of its offsets."""
        register_functions(self.spark)
        name = self.database
        self.source = source
        self.connector = DebeziumConnector(ConnectEndpoint(self.connect_url), codec)
        sink = self.sink_parts()
        pipeline = Pipeline(
            name,
            settings,
            DebeziumSettings("debezium", "c", name),
            KafkaSettings("kafka", "k"),
            sink.settings,
            policy=Policy(hold=HoldPolicy(mode="off")),
        )
        transport = KafkaTransport(KafkaEndpoint(self.kafka))
        clients: Any = Parts(self.source, self.connector, transport, sink.client, Control(sink.control, name))
        self.base = Run(pipeline, clients, "run-0", str(self.folder))

    def sink_parts(self) -> SinkParts:
        """Where the tables are mirrored: the lake."""
        settings = IcebergSettings("iceberg", self.database, self.lake.name)
        return SinkParts(self.lake, settings, IcebergControlStore(self.lake))

    def mirror(self, schema: str) -> None:
        """Empty tables of the sink, stamped at the beginning of their topics."""
        for table in self.tables:
            name = f"{schema}.{table}"
            definition = self.source.definitions([name])[name]
            columns = [(column.name, sink_type(column)) for column in definition.mirrored]
            self.lake.ensure_table(self.database, sink_name(table), columns)
            append_nothing(self.spark, self.sink(table), Stamp(0).to_summary())

    def sink(self, table: str) -> str:
        return f"`{self.lake.name}`.`{self.database}`.`{sink_name(table)}`"

    def wait_read(self) -> None:
        """Wait until the connector has committed an offset past all that the source has committed so far."""
        position = self.source.position()
        wait_until(lambda: self._past(position), timeout=SECONDS, what=f"the connector to commit past {position}")

    def _past(self, position: Any) -> bool | None:
        stored = self.connector.facts(self.database).offset
        return True if stored and stored.has_read(position) else None

    def apply(self, run_id: str) -> dict[str, Any]:
        """Apply all that the source has committed so far."""
        self.wait_read()
        with on_demand(self.spark) as spark:
            applied: dict[str, Any] = apply_changes(replace(self.base, run_id=run_id), spark)["tables"]
        return applied

    def heads(self) -> list[int | None]:
        """The newest snapshot of each sink table."""
        return [self.lake.head(self.database, sink_name(table)) for table in self.tables]

    def failure(self) -> str:
        """What the connector's task says once it has failed."""
        trace: str = wait_until(
            lambda: next((t.trace for t in self.connector.facts(self.database).tasks if t.state == "FAILED"), None),
            timeout=SECONDS,
            what="the connector to fail",
        )
        return trace

    def recover(self, run_id: str) -> dict[str, Any]:
        """The steps of cdc_recovery, one after the other. Returns what was decided, and the facts of `verify`."""
        run = replace(self.base, run_id=run_id)
        decision = up_to_watermark(run)
        with on_demand(self.spark) as spark:
            recover(run, spark)
        resume(run)
        with on_demand(self.spark) as spark:
            compared = verify(run, spark)
        self.publishing(run)
        close(run)
        return {"decision": decision, "verify": compared}

    def source_rows(self, table: str, order: Sequence[str]) -> Sequence[Sequence[Any]]:
        """All rows of a table with these columns, read by the database's own client library alone."""
        raise NotImplementedError

    def plain(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """One form of what the two libraries make of a row."""
        raise NotImplementedError

    def differences(self, table: str, order: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """Rows that only the source has, and rows that only the sink has; the sink is read by PyIceberg alone."""
        theirs = Counter(self.plain(row) for row in self.source_rows(table, order))
        mirrored = self.lake.read_arrow(self.database, sink_name(table)).to_pylist()
        ours = Counter(self.plain([row[name] for name in order]) for row in mirrored)
        return sorted(theirs - ours, key=repr), sorted(ours - theirs, key=repr)


def up_to_watermark(run: Run, asked: str | None = None) -> dict[str, Any]:
    """The steps of cdc_recovery before rows are read, by the strategy that is asked for; what was decided."""
    decision = decide(run, asked)
    open_recovery(run, Decision.from_json(decision))
    connector_steps.stop(run)
    watermark.fence_and_watermark(run)
    return decision


def resume(run: Run) -> None:
    """The steps after rows were read: the new offset is written, and the connector continues from it."""
    reset_offset.reset_offset(run)
    connector_steps.resume(run)


@contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[threading.Event]:
    """Run `work` beside the block; it has to end once its event is set. What it raises is raised at the end."""
    stop, failures = threading.Event(), []

    def run() -> None:
        try:
            work(stop)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(30)
    if failures:
        raise failures[0]


def writing(
    server: MySqlServer, database: str, *statements: str, pause: float = 0.02
) -> AbstractContextManager[threading.Event]:
    """Run the statements again and again meanwhile, {n} counting up, in one transaction each time."""

    def write(stop: threading.Event) -> None:
        connection = server.connect(database=database, autocommit=False)
        with connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00'")
            n = 0
            while not stop.wait(pause):
                n += 1
                for statement in statements:
                    cursor.execute(statement.format(n=n))
                connection.commit()

    return meanwhile(write)
