"""A pipeline on PostgreSQL to make a fault on: a database of its own, with a slot and a publication of its name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import stack
from airflow_cdc.core.position import Watermark
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.session import PostgresEndpoint
from airflow_cdc.sources.postgres.snapshot import wait_unused
from stack import connections
from stack.postgres import PostgresServer, PostgresSettings, hang_up
from stack.process import end
from tests.faults_diagnosis import world
from tests.faults_diagnosis.subject import TABLES, Subject
from tests.integration.postgres.support import connector_config

# `own` is changed for good by its faults, and its log is not logical at first
SERVERS = {
    "pg18": PostgresSettings(name="pg18", series="18"),
    "pg15": PostgresSettings(name="pg15", series="15"),
    "own": PostgresSettings(name="own", series="18"),
    "plain": PostgresSettings(name="plain", series="18", extra={"wal_level": "replica"}),
}
KEPT_GB = 10
FILL = "SELECT pg_logical_emit_message(false, 't', repeat(md5('x'), 100000))"


@dataclass(frozen=True, slots=True)
class Version:
    """What a result says of its server."""

    name: str
    mariadb: bool = False


@dataclass(slots=True)
class PostgresWorld(world.World):
    """One stack: servers of PostgreSQL, Kafka, Connect, and a lake in a folder. `kept_gb`: see SLOT_GROWS."""

    kept_gb: int = KEPT_GB

    def postgres(self, name: str) -> PostgresServer:
        return self.servers.postgres[name]

    def register(self, name: str, server: str, tables: list[str], policy: dict[str, Any] | None = None) -> None:
        source = {"kind": "postgres", "conn_id": f"pg_{server}", "tables": tables, "slot": name, "publication": name}
        self.pipelines[name] = {
            "source": {**source, "database": name, "warn_kept_gb": self.kept_gb},
            "connector": {"kind": "debezium", "conn_id": "connect", "name": name},
            "transport": {"kind": "kafka", "conn_id": "kafka"},
            "sink": {"kind": "iceberg", "catalog": world.CATALOG, "namespace": name},
            "policy": policy or {},
        }
        self.registry.write_text(yaml.safe_dump({"pipelines": self.pipelines}))

    def source_connections(self) -> dict[str, connections.Connection]:
        return {f"pg_{name}": _connection(server) for name, server in self.servers.postgres.items()}

    def endpoint(self, server: str, database: str) -> PostgresEndpoint:
        """The product's login on one database."""
        found = self.postgres(server)
        login = found.cdc
        return PostgresEndpoint(found.host, found.port, login.user, login.password, database, database, database)

    def endpoints_of(self, name: str, server: str) -> Endpoints:
        return world.endpoints(self, self.endpoint(server, name))


def _connection(server: PostgresServer) -> connections.Connection:
    made = connections.to_source(server.host, server.port, server.cdc.user, server.cdc.password)
    return {**made, "conn_type": "cdc_postgres", "schema": "postgres"}


@dataclass(slots=True)
class PostgresSubject(Subject):
    """The pipeline `name`; its database, schema, slot, publication, connector and topic prefix have the same name.

    `after`: what is written after a recovery, beside the rows of every case.
    """

    after: tuple[str, ...] = ()

    @property
    def here_world(self) -> PostgresWorld:
        assert isinstance(self.world, PostgresWorld)
        return self.world

    @property
    def postgres(self) -> PostgresServer:
        return self.here_world.postgres(self.server)

    @property
    def version(self) -> Any:
        return Version(f"PostgreSQL {self.postgres.version}")

    @property
    def source(self) -> PostgresSource:
        return PostgresSource(self.here_world.endpoint(self.server, self.name))

    # the source

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Statements as the administrator in the pipeline's database; rows of the last one."""
        return self.postgres.execute(*statements, dbname=self.name)

    def admin(self, *statements: str) -> list[tuple[Any, ...]]:
        """Statements as the administrator, outside the pipeline's database."""
        return self.postgres.execute(*statements)

    def make_tables(self) -> None:
        key = "" if self.keyless else " PRIMARY KEY"
        name = self.name
        self.admin(f"CREATE DATABASE {name}")
        full = () if not self.keyless else tuple(f"ALTER TABLE {name}.{t} REPLICA IDENTITY FULL" for t in TABLES)
        self.sql(
            f"CREATE SCHEMA {name}",
            f"GRANT USAGE ON SCHEMA {name} TO cdc, debezium",
            *(f"CREATE TABLE {name}.{table} (id int{key}, v text)" for table in TABLES),
            *full,
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO cdc, debezium",
            f"CREATE PUBLICATION {name} FOR TABLE {', '.join(f'{name}.{table}' for table in TABLES)}",
        )
        self.write(1)

    def write_on(self) -> None:
        """See Subject."""
        Subject.write_on(self)
        if self.after:
            self.sql(*self.after)

    def fill_log(self) -> None:
        """Some 3 MB of log that nobody reads."""
        self.sql(FILL)

    def slot(self, column: str) -> Any:
        """A column of the slot's row; None where there is no slot."""
        rows = self.sql(f"SELECT {column} FROM pg_replication_slots WHERE slot_name = '{self.name}'")
        return rows[0][0] if rows else None

    def drop_slot(self) -> None:
        self.wait(lambda: self.slot("active") is False, "nobody reads the slot")
        self.sql(f"SELECT pg_drop_replication_slot('{self.name}')")

    # the connector

    def settings(self) -> dict[str, str]:
        name = self.name
        return {
            **connector_config(self.postgres, name, name, [f"{name}.{table}" for table in TABLES]),
            "provide.transaction.metadata": "true",
            "skipped.operations": "none",
            "message.prefix.exclude.list": "t",  # those of FILL are larger than a record may be
            **world_plain(),
            **self.config,
        }

    def stop(self) -> None:
        Subject.stop(self)
        with self.source.session() as session:
            wait_unused(session, self.name, 60)

    def catch_up(self) -> None:
        """Wait until the stored offset is past what the source has committed by now."""
        until = self.source.position()
        self.wait(lambda: self._past(until), "the offset passes the source's position")

    def _past(self, until: Watermark) -> bool:
        offset = self.offset()
        read = int(offset.get("lsn_commit") or offset.get("lsn") or 0)
        position: Any = until.position
        return not offset.get("snapshot") and max(read, int(offset.get("lsn") or 0)) >= position.lsn.value

    # transport and sink

    def mismatch(self) -> str:
        """What differs between source and sink, by their libraries alone; "" if nothing does."""
        wrong = []
        for table in TABLES:
            theirs = sorted(map(repr, self.sql(f"SELECT id, v FROM {self.name}.{table}")))
            rows = self.lake.read_arrow(self.name, table).to_pylist()
            ours = sorted(repr((row["id"], row["v"])) for row in rows)
            if theirs != ours:
                wrong.append(f"{table}: {len(theirs)} rows in the source, {len(ours)} in the sink, and they differ")
        return "; ".join(wrong)

    @property
    def lake(self) -> Lake:
        return self.world.lake

    # the server

    def stop_server(self) -> None:
        hang_up(self.postgres)
        end(self.postgres.child)

    def start_server(self) -> None:
        self.world.servers.restart_postgres(self.server)

    @property
    def data(self) -> Path:
        return Path(self.postgres.folder) / "data"

    def put_back(self, copy: Path) -> None:
        """The server's files as they were copied before."""
        self.stop_server()
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)
        self.start_server()


def world_plain() -> dict[str, str]:
    """Plain JSON, without schemas."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    made = dict.fromkeys(("key.converter", "value.converter"), converter)
    return {**made, **{f"{side}.schemas.enable": "false" for side in made}}


@contextmanager
def started(folder: Path, names: set[str]) -> Iterator[PostgresWorld]:
    """The servers of these names, Kafka and Connect, ended with the block."""
    wanted = [settings for name, settings in SERVERS.items() if name in names]
    with stack.start(folder / "s", ("kafka", "connect", "postgres"), postgres_settings=wanted) as servers:
        made = PostgresWorld(folder, servers)
        try:
            yield made
        finally:
            for path in made.paths:
                path.close()
