"""The kill matrix's world of a JDBC sink: MySQL → Debezium → Kafka → Debezium's JDBC sink → PostgreSQL.

The copies are written by their sink connector alone, so what is put right goes through the topics.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.kinds import read_pipeline
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.jdbc.endpoint import JdbcEndpoint
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.sources.postgres.session import PostgresEndpoint
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from stack import cluster
from stack.errors import StackError
from stack.postgres import PostgresServer
from stack.process import wait_until
from stack.shop import connectors
from stack.shop.check import TableCheck
from tests.faults.keyed import KeyedShop
from tests.faults.proxy import HOST, Proxy
from tests.faults.world import PIPELINE, ROWS, Reader, proxy_of, worker_of
from tests.integration.jdbc.fed import PLUGINS, SCHEMAS

SINK = f"{PIPELINE}-sink"
PARTITIONS = 4
EQUAL_S = 180.0


@dataclass
class JdbcWorld(KeyedShop):
    """A shop on MySQL, and its copies in a schema of PostgreSQL. `connect` is the proxy before the Connect worker."""

    connect: Proxy = field(kw_only=True)

    @property
    def postgres(self) -> PostgresServer:
        """The server of the copies."""
        return self.stack.postgres["postgres"]

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        assert self.stack.kafka is not None
        return self.stack.kafka.bootstrap

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        """See FaultWorld."""
        return (self.source, self.connect)

    @property
    def pipeline(self) -> Pipeline:
        """See FaultWorld."""
        return read_pipeline(
            {
                "name": PIPELINE,
                "source": {"kind": "mysql", "conn_id": "m", "tables": [f"{PIPELINE}.{name}" for name in self.tables]},
                "connector": {"kind": "debezium", "conn_id": "c", "name": PIPELINE},
                "transport": {"kind": "kafka", "conn_id": "k"},
                "sink": {"kind": "jdbc", "conn_id": "t", "database": "postgres", "connector": SINK},
                "control": {"kind": "sql", "conn_id": "s"},
                "spark": {"conn_id": "spark"},
                "policy": {"approval": "never", "max_deletes": "100%"},
            }
        )

    @property
    def endpoints(self) -> Endpoints:
        """See FaultWorld: the source and Connect behind the proxies."""
        login, copies = self.mysql.cdc, self.postgres
        own = PostgresEndpoint(copies.host, copies.port, copies.cdc.user, copies.cdc.password)
        parts: Any = self.pipeline
        return Endpoints(
            MySqlEndpoint(HOST, self.source.port, login.user, login.password, ssl={"mode": "disabled"}),
            ConnectEndpoint(f"http://{HOST}:{self.connect.port}"),
            KafkaEndpoint(self.bootstrap),
            parts.sink.at(JdbcEndpoint(("postgres",), asdict(own), own.where, own.dataset)),
            control=SqlEndpoint("sqlite", str(self.folder / "control.db"), options={"timeout": "30"}),
        )

    def reader(self) -> Reader:
        """See FaultWorld."""
        return RestingReader(self)

    def target(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the copies' database."""
        return self.postgres.execute(f"SET search_path TO {PIPELINE}", sql)

    def copied(self, table: str, names: Sequence[str]) -> Iterable[Sequence[Any]]:
        """See KeyedShop."""
        return self.target(f"SELECT {', '.join(names)} FROM {table}")

    def compare(self) -> list[TableCheck]:
        """See FaultWorld, once the sink connector has written everything: nobody else says when it has."""
        with suppress(StackError):
            wait_until(lambda: all(self._equal()) or None, timeout=EQUAL_S, what="the copies to be as the shop")
        return KeyedShop.compare(self)

    def _equal(self) -> Iterator[bool]:
        return (self._compared(table).equal for table in self.tables)

    def left_behind(self) -> str:
        """See FaultWorld: a lock at MySQL ends with its connection, and what a transaction leaves open the next ends."""
        return ""

    def make_gap(self) -> None:
        """See FaultWorld. No column comes or goes: then the connector has to send a change of it first (ADR 0028)."""
        worker = worker_of(self.stack)
        connectors.stop(worker, PIPELINE)
        self.gaps += 1
        self.lose_log()
        connectors.failure(worker, PIPELINE)

    # --- what is killed, and started again ---------------------------------------------------------------------------

    def restart_copies(self) -> None:
        """Start the copies' server again on its data, and then its sink connector, as its error says."""
        self.stack.restart_postgres()
        self.restart_sink()

    def restart_sink(self) -> None:
        """Restart the sink connector with its task."""
        worker_of(self.stack).call("POST", f"/connectors/{SINK}/restart?includeTasks=true")

    # --- the connectors ----------------------------------------------------------------------------------------------

    def connect_all(self) -> None:
        """Both connectors at work, the shop's first rows copied."""
        worker, copies = worker_of(self.stack), self.postgres
        connectors.make_schema(copies, PIPELINE)
        connectors.create(worker, PIPELINE, self._source_config())
        connectors.create(
            worker, SINK, connectors.jdbc_sink(copies, PIPELINE, rf"{PIPELINE}\.{PIPELINE}\..*", **SCHEMAS)
        )
        self.fill()
        wait_until(lambda: self._filled() or None, timeout=EQUAL_S, what="the first copy")

    def _filled(self) -> bool:
        try:
            return all(self._equal())
        except psycopg.errors.UndefinedTable:
            return False

    def _source_config(self) -> dict[str, str]:
        """Without a heartbeat, so that a recovery has a setting to put back at its end."""
        own = {
            "table.include.list": ",".join(f"{PIPELINE}.{table}" for table in self.tables),
            "snapshot.mode": "initial",
            "heartbeat.interval.ms": "0",
            "topic.creation.default.partitions": str(PARTITIONS),
            "topic.creation.default.replication.factor": "1",
            **SCHEMAS,
        }
        return connectors.config(PIPELINE, self.mysql, self.bootstrap, **own)


@dataclass
class RestingReader(Reader):
    """Looks at the orders that nothing changes, by their keys: whatever is killed, none of them may be gone at any time."""

    world: JdbcWorld

    def look(self) -> None:
        """Note which of them there are; a server that does not answer shows nothing."""
        # those that no gap takes: see keyed.GAP_SQL
        resting = f"id <= {self.world.written.rows // 2} AND id % 40 >= 30"
        try:
            ((found,),) = self.world.target(
                f"SELECT md5(string_agg(id::text, ',' ORDER BY id)) FROM orders WHERE {resting}"
            )
        except psycopg.Error:
            return
        self.note("orders", hash(found))


@contextmanager
def world(folder: Path, rows: int = ROWS) -> Iterator[JdbcWorld]:
    """Servers, proxies, a shop of `rows` rows in each table, and both connectors; all ends with the block."""
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable})
    with ExitStack() as ends:
        stack = ends.enter_context(cluster.start(folder, ("kafka", "mysql", "postgres")))
        server, worker = stack.mysql[JdbcWorld.server], stack.add_connect(PLUGINS)
        source = ends.enter_context(Proxy((server.host, server.port)))
        shop = JdbcWorld(folder, stack, source, rows // 4, connect=ends.enter_context(proxy_of(worker)))
        shop.create()
        shop.connect_all()
        yield shop
