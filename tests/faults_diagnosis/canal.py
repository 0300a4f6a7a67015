"""A pipeline with Canal to make a fault on: MySQL → Canal → Kafka or RabbitMQ → the lake."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import yaml

import stack
from airflow_cdc.connectors.canal.connector import CanalConnector
from airflow_cdc.connectors.canal.cursor import CursorCodec
from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.control.control import Control
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.text import root_cause
from airflow_cdc.kinds import read_pipeline
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sinks.none import NoEndpoint
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport
from stack import connections
from stack.canal import CanalServer, CanalSettings, ZooKeeperServer, make_canal, start_zookeeper
from stack.mysql import MySqlSettings
from stack.process import end
from stack.rabbitmq import RabbitServer, start_rabbitmq
from tests.faults_diagnosis import world
from tests.faults_diagnosis.subject import TABLES, Subject
from tests.integration.canal.over_rabbitmq import STREAM, canal_properties, declare, endpoint_of
from tests.integration.canal.support import has_read
from tests.integration.recovering import meanwhile

NEW = MySqlSettings(name="new", server_id=109, series="9.7")
WRITES_EVERY_S = 0.2


@dataclass(slots=True, kw_only=True)
class CanalWorld(world.World):
    """MySQL servers, Kafka, RabbitMQ, ZooKeeper and a lake; each pipeline brings a Canal server of its own."""

    rabbit: RabbitServer
    zookeeper: ZooKeeperServer

    @property
    def control(self) -> SqlEndpoint:
        """Where a pipeline without a sink keeps its state."""
        return SqlEndpoint("sqlite", str(self.folder / "control.db"), options={"timeout": "30"})

    def canal(self, name: str) -> CanalServer:
        """The Canal server of a pipeline."""
        return CanalServer(self.folder / "canal" / name, name)

    def declare(self, name: str, parts: Mapping[str, Any]) -> None:
        """Add a pipeline to the registry."""
        self.pipelines[name] = dict(parts)
        self.registry.write_text(yaml.safe_dump({"pipelines": self.pipelines}))

    def pipeline(self, name: str) -> Pipeline:
        """The pipeline as the registry declares it."""
        return read_pipeline({"name": name, **self.pipelines[name]})

    def own_connections(self) -> dict[str, connections.Connection]:
        """See World."""
        rabbit = self.rabbit
        api = f"http://{rabbit.host}:{rabbit.management}"
        login = {"login": rabbit.user.user, "password": rabbit.user.password}
        queue = {"conn_type": "cdc_rabbitmq", "host": rabbit.host, "port": rabbit.port, "extra": {"management": api}}
        return {
            "canal": {"conn_type": "canal", "host": "localhost"},
            "canal_in_zookeeper": {"conn_type": "canal", "host": self.zookeeper.address},
            "kafka": connections.to_kafka(self.bootstrap),
            "rabbitmq": {**queue, **login},
            "control": {"conn_type": "sqlite", "host": self.control.database},
            world.CATALOG: connections.to_lake(self.lake_properties),
        }

    def endpoints_of(self, name: str, server: str) -> Endpoints:
        """See World."""
        pipeline: Any = self.pipeline(name)
        host = self.zookeeper.address if pipeline.connector.cursor == "zookeeper" else "localhost"
        through: Any = (
            KafkaEndpoint(self.bootstrap)
            if pipeline.transport.kind == "kafka"
            else pipeline.transport.at(endpoint_of(self.rabbit))
        )
        return Endpoints(
            self.source_endpoint(server),
            pipeline.connector.at(CanalEndpoint(host)),
            through,
            IcebergEndpoint(world.CATALOG, self.lake_properties) if pipeline.has_sink else NoEndpoint(),
            control=None if pipeline.has_sink else self.control,
        )


@dataclass(slots=True)
class CanalSubject(Subject):
    """The pipeline `name`; its database, destination and topic have the same name. It reads by GTID, into the lake.

    `config`: further lines of instance.properties, and of canal.properties those that begin with `rabbitmq.`.
    """

    CURSOR: ClassVar[str] = "file"
    BY_GTID: ClassVar[bool] = True

    @property
    def canals(self) -> CanalWorld:
        assert isinstance(self.world, CanalWorld)
        return self.world

    @property
    def canal(self) -> CanalServer:
        return self.canals.canal(self.name)

    @property
    def connector(self) -> CanalConnector:
        endpoint: Any = self.canals.endpoints_of(self.name, self.server).connector
        return CanalConnector(endpoint, CursorCodec())

    # what is declared

    def parts(self) -> dict[str, Any]:
        """The pipeline in the registry."""
        canal = self.canal
        words = {word: shlex.join(argv) for word, argv in canal.commands().items()}
        conn_id = "canal_in_zookeeper" if self.CURSOR == "zookeeper" else "canal"
        own = {"conf": str(canal.conf), "log": str(canal.log), "cursor": self.CURSOR, **words}
        tables = [f"{self.name}.{table}" for table in TABLES]
        return {
            "source": {"kind": "mysql", "conn_id": f"mysql_{self.server}", "tables": tables},
            "connector": {"kind": "canal", "conn_id": conn_id, "name": self.name, **own},
            "transport": {"kind": "kafka", "conn_id": "kafka"},
            "sink": {"kind": "iceberg", "catalog": world.CATALOG, "namespace": self.name},
        }

    def canal_settings(self) -> CanalSettings:
        """A server that begins at the log's end."""
        server, executed = self.mysql, self.executed()
        by_gtid = {"canal.instance.gtidon": "true", "canal.instance.master.gtid": executed} if self.BY_GTID else {}
        own = {key: value for key, value in self.config.items() if not key.startswith("rabbitmq.")}
        more = {"canal.instance.filter.regex": rf"{self.name}\..*", **by_gtid, **own}
        zookeeper = self.canals.zookeeper.address if self.CURSOR == "zookeeper" else ""
        address, kafka = f"{server.host}:{server.port}", self.world.bootstrap
        return CanalSettings(self.name, address, server.debezium, kafka, self.name, self.end(), zookeeper, more)

    def set_up(self) -> None:
        self.canals.declare(self.name, self.parts())
        self.make_tables()
        self.create_connector()
        self.write(10)
        self.catch_up()
        self.fill_sinks()

    def fill_sinks(self) -> None:
        """The sink holds what was sent."""
        self.close_a_recovery()
        self.fill_sink(self.stamp())

    # the connector

    def create_connector(self) -> None:
        make_canal(self.canal.folder, self.canal_settings()).start()
        self.wait_running()

    def states(self) -> tuple[str, list[str], str]:
        state = self.connector.state(self.name)
        return state.state, [task.state for task in state.tasks], root_cause(next(iter(state.failures), "no trace"))

    def stop(self) -> None:
        self.connector.stop(self.name)

    def resume(self) -> None:
        self.connector.resume(self.name)

    def wait_running(self) -> None:
        self.connector.wait_running(self.name)

    def offset(self) -> dict[str, Any]:
        return dict(self.connector.committed_offset(self.name, self.name) or {})

    def patch(self, offset: dict[str, Any] | None, server: str = "") -> None:
        self.connector.offset_store(self.name, {"server": self.name}).write(offset)

    def _at_end(self) -> bool:
        cursor = self.offset()
        return bool(cursor) and has_read(self.sql, cursor, self.name)

    def delete(self) -> None:
        self.canal.stop()

    # transport and sink

    def topic(self, table: str = TABLES[0]) -> str:
        return self.name

    def heads(self) -> dict[str, Any]:
        """The sink's snapshots, and the cursors of a server that does not run."""
        rests = {"cursors": self.connector.entries(self.name)} if not self.canal.alive else {}
        return {**Subject.heads(self), **rests}

    def meanwhile(self) -> AbstractContextManager[Any]:
        """Somebody writes into another database: Canal shows that it reads by what it reads."""
        self.sql("CREATE DATABASE IF NOT EXISTS others", "CREATE TABLE IF NOT EXISTS others.writes (n INT)")

        def write(stop: Event) -> None:
            with closing(self.mysql.connect(database="others")) as connection, connection.cursor() as cursor:
                while not stop.wait(WRITES_EVERY_S):
                    cursor.execute("REPLACE INTO writes VALUES (1)")
                    connection.commit()

        return meanwhile(write)


@dataclass(slots=True)
class InZooKeeper(CanalSubject):
    """Its cursors are in ZooKeeper."""

    CURSOR: ClassVar[str] = "zookeeper"


@dataclass(slots=True)
class ByPosition(CanalSubject):
    """It reads by file and position. Such events do not tell where in the log a change is: there is no sink."""

    BY_GTID: ClassVar[bool] = False

    @property
    def not_recovered(self) -> str:
        return "by file and position, without a sink: nothing is recovered"

    @property
    def control(self) -> Control:
        return Control(SqlControlStore(self.canals.control), self.name)

    def parts(self) -> dict[str, Any]:
        parts = {key: value for key, value in CanalSubject.parts(self).items() if key != "sink"}
        return {**parts, "control": {"kind": "sql", "conn_id": "control"}}

    def fill_sinks(self) -> None:
        """There is none."""


@dataclass(slots=True)
class OverRabbitMq(CanalSubject):
    """Its events go through RabbitMQ: Canal's own queue is a classic one; the stream queue beside it is read."""

    @property
    def queue(self) -> str:
        return f"{self.name}.stream"

    @property
    def transport(self) -> Any:
        endpoint: Any = self.canals.endpoints_of(self.name, self.server).transport
        return RabbitMqTransport(endpoint)

    def topic(self, table: str = TABLES[0]) -> str:
        return self.name

    def parts(self) -> dict[str, Any]:
        through = {"kind": "rabbitmq", "conn_id": "rabbitmq", "queue": self.queue}
        return {**CanalSubject.parts(self), "transport": through}

    def canal_settings(self) -> CanalSettings:
        settings = CanalSubject.canal_settings(self)
        own = {key: value for key, value in self.config.items() if key.startswith("rabbitmq.")}
        server = {**canal_properties(self.canals.rabbit, self.name), **own}
        return CanalSettings(
            settings.destination,
            settings.mysql,
            settings.login,
            "",
            settings.topic,
            settings.start,
            more=settings.more,
            server=server,
        )

    def create_connector(self) -> None:
        declare(self.canals.rabbit, self.queue, self.name, STREAM)
        CanalSubject.create_connector(self)

    def delete(self) -> None:
        CanalSubject.delete(self)
        with self.canals.rabbit.connect() as connection:
            for queue in (self.name, self.queue):
                connection.channel().queue_delete(queue)


@contextmanager
def started(folder: Path, servers: Iterable[str]) -> Iterator[CanalWorld]:
    """The servers, ended with the block."""
    wanted = [settings for settings in (world.SERVERS["gtid"], NEW) if settings.name in servers]
    with stack.start(folder / "s", ("kafka", "mysql"), mysql_settings=wanted) as running:
        zookeeper = start_zookeeper(folder / "zookeeper")
        rabbit = start_rabbitmq(folder, running.logs)
        try:
            yield CanalWorld(folder, running, rabbit=rabbit, zookeeper=zookeeper)
        finally:
            rabbit.stop()
            end(zookeeper.child)
