"""A MySQL database that a real Canal server follows into the lake, with its cursor in ZooKeeper or in meta.dat."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.canal.capture import FLAT
from airflow_cdc.connectors.canal.connector import CanalConnector
from airflow_cdc.connectors.canal.cursor import CursorCodec
from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.connectors.canal.kind import CanalSettings as CanalPart
from airflow_cdc.control.control import Control
from airflow_cdc.core.pipeline import HoldPolicy, Pipeline, Policy
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.kind import MySqlSettings
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.kind import KafkaSettings
from stack.canal import CanalServer, CanalSettings, make_canal
from tests.integration.recovering import FollowedDatabase

if TYPE_CHECKING:
    pass


@dataclass(slots=True)
class Followed(FollowedDatabase):
    """Tables of one database of the server. `connect_url` is ZooKeeper's address; "": the cursor is in meta.dat.

    `protobuf`: Canal does not send flat JSON.
    """

    canal: CanalServer = field(init=False)
    protobuf: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        register_functions(self.spark)
        name, server = self.database, self.server
        self.canal = self._made()
        words: dict[str, Any] = {word: shlex.join(argv) for word, argv in self.canal.commands().items()}
        part = CanalPart(
            "canal",
            "c",
            name,
            str(self.canal.conf),
            **words,
            cursor="zookeeper" if self.connect_url else "file",
            log=str(self.canal.log),
            time_zone="UTC",
        )
        self.source = MySqlSource(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password))
        connector: Any = CanalConnector(part.at(CanalEndpoint(self.connect_url or "localhost")), CursorCodec())
        self.connector = connector
        sink, (transport, topics) = self.sink_parts(), self.transport_parts()
        pipeline = Pipeline(
            name,
            MySqlSettings("mysql", "m", tuple(f"{name}.{table}" for table in self.tables)),
            part,
            topics,
            sink.settings,
            policy=Policy(hold=HoldPolicy(mode="off")),
        )
        clients: Any = Parts(self.source, connector, transport, sink.client, Control(sink.control, name))
        self.base = Run(pipeline, clients, "run-0", str(self.folder))

    def transport_parts(self) -> tuple[Any, Any]:
        """The client of the transport and its settings in the pipeline: Kafka."""
        return KafkaTransport(KafkaEndpoint(self.kafka)), KafkaSettings("kafka", "k")

    def canal_properties(self) -> dict[str, str]:
        """Further lines of canal.properties."""
        return {}

    def _made(self) -> CanalServer:
        """A server that begins at the log's end, by GTID."""
        name, server = self.database, self.server
        file, position, *_ = server.execute("SHOW MASTER STATUS")[0]
        executed = str(server.execute("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
        more = {
            "canal.instance.filter.regex": rf"{name}\..*",
            "canal.instance.gtidon": "true",
            "canal.instance.master.gtid": executed,
        }
        start, address = (str(file), int(position)), f"{server.host}:{server.port}"
        sends = {**self.canal_properties(), FLAT: str(not self.protobuf).lower()}
        settings = CanalSettings(name, address, server.debezium, self.kafka, name, start, self.connect_url, more, sends)
        return make_canal(self.folder / "canal", settings)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.server.execute(
            f"USE {self.database}",
            "SET SESSION time_zone = '+00:00'",
            "SET SESSION cte_max_recursion_depth = 100000",
            *statements,
        )
        return rows

    def follow(self) -> None:
        """Start the server on the empty tables, and stamp their mirrors at the beginning of the topic."""
        self.canal.start()
        self.mirror(self.database)

    def purge(self) -> None:
        """All but the newest file of the log."""
        self.execute("FLUSH BINARY LOGS")
        newest = self.execute("SHOW BINARY LOGS")[-1][0]
        self.execute(f"PURGE BINARY LOGS TO '{newest}'")

    def source_rows(self, table: str, order: Sequence[str]) -> Sequence[Sequence[Any]]:
        """See FollowedDatabase: by PyMySQL."""
        columns = ", ".join(f"`{name}`" for name in order)
        return self.execute(f"SELECT {columns} FROM {table}")

    def plain(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """See FollowedDatabase: moments without their zone, which is UTC in both."""
        return tuple(value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value for value in row)
