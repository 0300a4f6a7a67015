"""Pipelines without a sink whose events nobody here follows: Avro, flat rows, an outbox, a connector of Debezium 1.9."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

import stack
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium.offsets.postgres import PostgresCodec
from airflow_cdc.control.control import Control
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.stamp import Stamp
from stack import connections
from stack.connect import ConnectWorker, start_connect, wait_ready
from stack.mysql import MySqlSettings
from stack.process import end
from stack.registry import WORKER, Registry, start_registry
from tests.faults_diagnosis import postgres, world
from tests.faults_diagnosis.postgres import PostgresSubject, PostgresWorld
from tests.faults_diagnosis.subject import TABLES, Subject

# 9.7 keeps its log while it is held; Debezium 1.9 reads servers up to 8.0
MYSQL: Final = {"new": MySqlSettings(name="new", server_id=109, series="9.7"), "gtid": world.SERVERS["gtid"]}
# what a case asks for beside its server: one of two workers, and a schema registry
TODAYS: Final = "connect"
OLD: Final = "connect_1"
REGISTRY: Final = "registry"
_PLUGINS: Final = {TODAYS: ("debezium", "debezium-postgres", "registry-converters"), OLD: ("debezium-1",)}
_OLD_NAMES: Final = {
    "topic.prefix": "database.server.name",
    "table.include.list": "table.whitelist",
    "schema.history.internal.kafka.bootstrap.servers": "database.history.kafka.bootstrap.servers",
    "schema.history.internal.kafka.topic": "database.history.kafka.topic",
    "driver.allowPublicKeyRetrieval": "database.allowPublicKeyRetrieval",
}
# so that the tables are an outbox, too
_COLUMNS: Final = ("aggregatetype", "aggregateid", "type", "payload")


@dataclass(frozen=True, slots=True)
class Form:
    """How events are written: the settings that make them so, and the worker that runs such a connector."""

    name: str
    config: Mapping[str, str] = field(default_factory=dict)
    avro: bool = False
    worker: str = TODAYS

    @property
    def beside(self) -> tuple[str, ...]:
        """What a case of this form asks for beside its server."""
        return (self.worker, *((REGISTRY,) if self.avro else ()))

    def settings(self, plain: Mapping[str, str], schemas: Registry | None) -> dict[str, str]:
        """A connector's settings with which it writes its events so."""
        if self.worker == OLD:
            return {_OLD_NAMES.get(name, name): value for name, value in plain.items()}
        if schemas is None or not self.avro:
            return {**plain, **self.config}
        others = {name: value for name, value in plain.items() if ".converter" not in name}
        written = {**schemas.converter("key", "confluent"), **schemas.converter("value", "confluent")}
        return {**others, **self.config, **written}


def _transform(kind: str) -> dict[str, str]:
    return {"transforms": "t", "transforms.t.type": f"io.debezium.transforms.{kind}"}


FORMS: Final = (
    Form("avro", {"schema.name.adjustment.mode": "avro"}, avro=True),
    Form("flattened", _transform("ExtractNewRecordState")),
    Form("outbox", _transform("outbox.EventRouter")),
    Form("names_1x", {"snapshot.mode": "schema_only"}, worker=OLD),
)


@dataclass(slots=True)
class UnfollowedWorld(PostgresWorld):
    """Servers of both makes and Kafka; workers by the id of their connection, and a schema registry, where a case asks for them."""

    workers: dict[str, ConnectWorker] = field(default_factory=dict)
    schemas: Registry | None = None

    @property
    def control(self) -> SqlEndpoint:
        """Where a pipeline without a sink keeps its state."""
        return SqlEndpoint("sqlite", str(self.folder / "control.db"), options={"timeout": "30"})

    def declare(self, name: str, source: Mapping[str, Any], worker: str) -> None:
        """Add a pipeline without a sink to the registry."""
        self.pipelines[name] = {
            "source": dict(source),
            "connector": {"kind": "debezium", "conn_id": worker, "name": name},
            "transport": {"kind": "kafka", "conn_id": "kafka"},
            "control": {"kind": "sql", "conn_id": "control"},
        }
        self.registry.write_text(yaml.safe_dump({"pipelines": self.pipelines}))

    def own_connections(self) -> dict[str, connections.Connection]:
        """See World."""
        return {
            **{name: connections.to_connect(worker.url) for name, worker in self.workers.items()},
            "kafka": connections.to_kafka(self.bootstrap),
            "control": {"conn_type": "sqlite", "host": self.control.database},
        }

    def source_connections(self) -> dict[str, connections.Connection]:
        """See World."""
        return {**world.World.source_connections(self), **PostgresWorld.source_connections(self)}

    def environment(self) -> dict[str, str]:
        """See World. Offsets are moved from a shell: there is no Airflow that knows who asks."""
        own = {"AIRFLOW__CDC__CLI_USERS": "shell", "AIRFLOW__CDC__REPORT_DIR": str(self.folder / "reports")}
        return {**PostgresWorld.environment(self), **own}


@dataclass(slots=True)
class WithoutSink(Subject):
    """A pipeline of MySQL whose connector writes its events in this form."""

    form: Form = FORMS[0]

    @property
    def not_recovered(self) -> str:
        return "without a sink: nothing is recovered"

    @property
    def control(self) -> Control:
        return Control(SqlControlStore(here(self).control), self.name)

    def call(self, method: str, path: str = "", body: Any = None) -> Any:
        return here(self).workers[self.form.worker].call(method, f"/connectors/{self.name}{path}", body)

    def settings(self) -> dict[str, str]:
        return self.form.settings(Subject.settings(self), here(self).schemas)

    def declared(self) -> dict[str, Any]:
        """The source as the registry has it."""
        tables = [f"{self.name}.{table}" for table in TABLES]
        return {"kind": "mysql", "conn_id": f"mysql_{self.server}", "tables": tables}

    def make_tables(self) -> None:
        Subject.make_tables(self)
        self.sql(*of_an_outbox(self.name))

    def set_up(self) -> None:
        set_up(self)

    def at_the_end(self) -> dict[str, Any]:
        """The offset with which a connector continues at the source's end, and whatever the source needs for that."""
        value: dict[str, Any] = MySqlCodec().at(self.source.position().position, 1)
        return value

    def fill_sink(self, stamp: Stamp | None) -> None:
        """There is none."""

    def heads(self) -> dict[str, Any]:
        """A diagnosis moves no offset of a connector that rests."""
        return {"offset": self.offset()}


@dataclass(slots=True)
class PostgresWithoutSink(PostgresSubject):
    """A pipeline of PostgreSQL whose connector writes its events in this form."""

    form: Form = FORMS[0]

    not_recovered = WithoutSink.not_recovered
    control = WithoutSink.control
    call = WithoutSink.call
    fill_sink = WithoutSink.fill_sink
    heads = WithoutSink.heads
    set_up = WithoutSink.set_up

    def settings(self) -> dict[str, str]:
        return self.form.settings(PostgresSubject.settings(self), here(self).schemas)

    def declared(self) -> dict[str, Any]:
        """The source as the registry has it."""
        tables, name = [f"{self.name}.{table}" for table in TABLES], self.name
        source = {"kind": "postgres", "conn_id": f"pg_{self.server}", "tables": tables, "slot": name}
        return {**source, "publication": name, "database": name}

    def make_tables(self) -> None:
        PostgresSubject.make_tables(self)
        self.sql(*of_an_outbox(self.name))

    def at_the_end(self) -> dict[str, Any]:
        """A new slot, and the offset with which a connector continues at its place."""
        self.drop_slot()
        self.sql(f"SELECT pg_create_logical_replication_slot('{self.name}', 'pgoutput')")
        value: dict[str, Any] = PostgresCodec().at(self.source.position().position, 1)
        return value


AnySubject = WithoutSink | PostgresWithoutSink


def here(subject: Subject) -> UnfollowedWorld:
    """Its world."""
    assert isinstance(subject.world, UnfollowedWorld)
    return subject.world


def of_an_outbox(schema: str) -> Iterator[str]:
    """The tables get an outbox's columns."""
    columns = ", ".join(f"ADD COLUMN {column} VARCHAR(40) DEFAULT 'x'" for column in _COLUMNS)
    yield from (f"ALTER TABLE {schema}.{table} {columns}" for table in TABLES)


def set_up(subject: AnySubject) -> None:
    """A healthy pipeline."""
    here(subject).declare(subject.name, subject.declared(), subject.form.worker)
    subject.make_tables()
    subject.create_connector()
    subject.write(10)
    subject.catch_up()


@contextmanager
def started(folder: Path, names: set[str]) -> Iterator[UnfollowedWorld]:
    """The servers of these names, Kafka, and the workers and the registry of these names, ended with the block."""
    mysql = [settings for name, settings in MYSQL.items() if name in names]
    pg = [settings for name, settings in postgres.SERVERS.items() if name in names]
    kinds = ("kafka", *(("mysql",) if mysql else ()), *(("postgres",) if pg else ()))
    with stack.start(folder / "s", kinds, mysql_settings=mysql, postgres_settings=pg) as servers:
        made = UnfollowedWorld(folder, servers)
        try:
            if REGISTRY in names:
                made.schemas = start_registry(folder / "registry", servers.logs)
            for worker in sorted(names & set(_PLUGINS)):
                made.workers[worker] = _worker(made, worker)
            for one in made.workers.values():
                wait_ready(one)
            yield made
        finally:
            for child in (
                *(one.child for one in made.workers.values()),
                *([made.schemas.child] if made.schemas else ()),
            ):
                end(child)


def _worker(made: UnfollowedWorld, name: str) -> ConnectWorker:
    """A worker beside the other one, with its own group and topics."""
    topics = {f"{kind}.storage.topic": f"{name}_{kind}s" for kind in ("config", "offset", "status")}
    more = {"group.id": name, **topics, **WORKER}
    return start_connect(made.folder, made.servers.logs, made.bootstrap, plugins=_PLUGINS[name], more=more, name=name)
