"""One pipeline to make a fault on: two tables, a real connector, and a sink that says it was applied to the end."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from airflow_cdc.control.control import Control
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.text import root_cause
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.sources.mysql.capabilities import ServerVersion
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack.errors import StackError
from stack.mysql import MySqlServer
from stack.process import wait_until
from stack.shop.check import check
from tests.faults_diagnosis.dialect import Dialect, dialect_of
from tests.faults_diagnosis.world import World

TABLES = ("orders", "items")
# how long a resumed connector is watched for what it says; Debezium fails within a few seconds of its start
SAYS_SECONDS = 8.0
_PLAIN = {
    f"{side}.converter{more}": value
    for side in ("key", "value")
    for more, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "false"))
}


@dataclass(slots=True)
class Subject:
    """The pipeline `name`; its database, connector, topic prefix and lake namespace have the same name."""

    world: World
    name: str
    server: str
    keyless: bool = False
    config: dict[str, str] = field(default_factory=dict)

    @property
    def not_recovered(self) -> str:
        """Why no plan is carried out on such a pipeline; "": it is."""
        return ""

    def meanwhile(self) -> AbstractContextManager[Any]:
        """What goes on at the source while it is recovered."""
        return nullcontext()

    @property
    def mysql(self) -> MySqlServer:
        return self.world.mysql(self.server)

    @property
    def version(self) -> ServerVersion:
        return ServerVersion.parse(self.mysql.version)

    @property
    def dialect(self) -> Dialect:
        return dialect_of(self.mysql.version)

    @property
    def source(self) -> Any:
        """The product's client of the server."""
        make = MariaDbSource if self.version.mariadb else MySqlSource
        return make(self.world.source_endpoint(self.server))

    @property
    def history_topic(self) -> str:
        return f"{self.name}.history"

    @property
    def transport(self) -> KafkaTransport:
        return KafkaTransport(KafkaEndpoint(self.world.bootstrap))

    @property
    def control(self) -> Control:
        return Control(IcebergControlStore(self.world.lake), self.name)

    # the source

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Statements as root; rows of the last one."""
        return self.mysql.execute(*statements)

    def make_tables(self) -> None:
        key = "" if self.keyless else " PRIMARY KEY"
        self.sql(
            f"CREATE DATABASE {self.name}",
            *(f"CREATE TABLE {self.name}.{table} (id INT{key}, v VARCHAR(200))" for table in TABLES),
        )
        self.write(1)

    def write(self, first: int, count: int = 3) -> None:
        """Rows of both tables, one transaction each."""
        for n in range(first, first + count):
            for table in TABLES:
                self.sql(f"INSERT INTO {self.name}.{table} (id, v) VALUES ({n}, 'row {n}')")

    def write_on(self) -> None:
        """Rows after a recovery, for whatever columns the tables have by now."""
        self.sql(
            *(f"INSERT INTO {self.name}.{table} (id) VALUES ({n})" for n in (9_000_001, 9_000_002) for table in TABLES)
        )

    def rotate(self) -> None:
        self.sql("FLUSH BINARY LOGS")

    def files(self) -> list[str]:
        return [str(row[0]) for row in self.sql("SHOW BINARY LOGS")]

    def end(self) -> tuple[str, int]:
        """File and position of the log's end."""
        row = self.sql(self.dialect.status)[0]
        return str(row[0]), int(row[1])

    def reset(self) -> None:
        self.sql(self.dialect.reset)

    def executed(self) -> str:
        """The GTIDs of all that the server holds."""
        return str(self.sql(f"SELECT {self.dialect.executed}")[0][0]).replace("\n", "")

    def purge(self) -> None:
        """Rotate and purge all but the newest file; one that is still being read is passed over without an error."""
        self.rotate()
        self.wait(self._only_the_newest, "all but the newest file are purged")

    def _only_the_newest(self) -> bool:
        self.sql(f"PURGE BINARY LOGS TO '{self.files()[-1]}'")
        return len(self.files()) == 1

    def restart_server(self, *more: str) -> None:
        self.world.servers.restart_mysql(self.server, more)

    def restart_source(self) -> None:
        """The server goes and comes back, and with it the connector: Debezium's task fails with its server."""
        before = self.offset()
        self.restart_server()
        self.wait(lambda: self._streams_again(before), "the connector reads again")

    def _streams_again(self, before: dict[str, Any]) -> bool:
        if "FAILED" in self.states()[1]:
            self.call("POST", "/restart?includeTasks=true&onlyFailed=true")
        return self.states()[:2] == ("RUNNING", ["RUNNING"]) and self.offset() != before

    # the connector

    def call(self, method: str, path: str = "", body: Any = None) -> Any:
        return self.world.connect.call(method, f"/connectors/{self.name}{path}", body)

    def settings(self) -> dict[str, str]:
        server = self.mysql
        return {
            **self.dialect.connector,
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.debezium.user,
            "database.password": server.debezium.password,
            "database.server.id": str(20000 + int(self.name.removeprefix("p"))),
            "topic.prefix": self.name,
            "database.include.list": self.name,
            "table.include.list": ",".join(f"{self.name}.{table}" for table in TABLES),
            "schema.history.internal.kafka.bootstrap.servers": self.world.bootstrap,
            "schema.history.internal.kafka.topic": self.history_topic,
            "heartbeat.interval.ms": "500",
            "connect.keep.alive.interval.ms": "500",
            **_PLAIN,
            **self.config,
        }

    def create_connector(self) -> None:
        self.call("PUT", "/config", self.settings())
        self.wait_running()

    def states(self) -> tuple[str, list[str], str]:
        """The connector's state, its tasks' states, and the cause of the first failed task."""
        try:
            status = self.call("GET", "/status")
        except StackError:
            return "UNASSIGNED", [], ""
        traces = [root_cause(task.get("trace", "")) for task in status["tasks"] if task["state"] == "FAILED"]
        return status["connector"]["state"], [task["state"] for task in status["tasks"]], (traces or [""])[0]

    def wait_running(self) -> None:
        try:
            self.wait(lambda: self.states()[:2] == ("RUNNING", ["RUNNING"]), "the connector runs")
        except StackError as error:
            raise StackError(f"{error}; it is {self.states()}") from None

    def wait_failed(self) -> None:
        self.wait(lambda: "FAILED" in self.states()[1], "the connector's task fails")

    def stop(self) -> None:
        self.call("PUT", "/stop")
        self.wait(lambda: self.states()[:2] == ("STOPPED", []), "the connector is stopped")

    def resume(self) -> None:
        self.call("PUT", "/resume")

    def offset(self) -> dict[str, Any]:
        """The stored offset; {} while there is none."""
        offsets = self.call("GET", "/offsets")["offsets"]
        mine = [entry["offset"] for entry in offsets if entry["partition"].get("server") == self.name]
        return dict(mine[0] or {}) if mine else {}

    def patch(self, offset: dict[str, Any] | None, server: str = "") -> None:
        """Write an offset of the stopped connector, by hand."""
        body = {"offsets": [{"partition": {"server": server or self.name}, "offset": offset}]}
        self.call("PATCH", "/offsets", body)

    def catch_up(self) -> None:
        """Wait until the stored offset is at the log's end (heartbeats bring it there)."""
        self.wait(self._at_end, "the offset reaches the log's end")

    def _at_end(self) -> bool:
        file, pos = self.end()
        offset = self.offset()
        return (offset.get("file"), offset.get("pos")) == (file, pos) and not offset.get("snapshot")

    def says(self) -> str:
        """What the connector itself says: resumed if it was stopped, then watched until it fails or time is up."""
        if self.states()[0] == "STOPPED":
            self.resume()
            self._settle()
        state, tasks, trace = self.states()
        told = f": {' '.join(trace.split())[:3000]}" if trace else ""
        return f"{state}, tasks {', '.join(tasks) or 'none'}{told}"

    def _settle(self) -> None:
        try:
            wait_until(
                lambda: True if "FAILED" in self.states()[1] else None,
                timeout=SAYS_SECONDS,
                what="it fails",
                interval=0.5,
            )
        except StackError:
            return  # it runs: that is what it says

    def delete(self) -> None:
        self.call("DELETE")

    def wait(self, probe: Any, what: str, timeout: float = 90.0) -> None:
        wait_until(lambda: probe() or None, timeout=timeout, what=f"{self.name}: {what}", interval=0.3)

    # transport and sink

    def topic(self, table: str = TABLES[0]) -> str:
        return f"{self.name}.{self.name}.{table}"

    def stamp(self, epoch: int = 1) -> Stamp:
        """One that says: applied to the end of the topics as they are, last read from this server."""
        states = self.transport.topic_states([self.topic(table) for table in TABLES])
        ends = {
            name: TopicOffsets(state.id, {p: end for p, (_, end) in state.partitions.items()})
            for name, state in states.items()
        }
        return Stamp(epoch, self.here(), ends)

    def here(self) -> dict[str, Any]:
        """The source's position now, as a stamp keeps it."""
        position: dict[str, Any] = self.source.position().to_json()
        return position

    def fill_sink(self, stamp: Stamp | None) -> None:
        """A commit to every sink table of what the source holds now, with the stamp."""
        for table in TABLES:
            self.fill(table, stamp)

    def fill(self, table: str, stamp: Stamp | None) -> None:
        columns = [("id", "int"), ("v", "string")]
        self.world.lake.ensure_table(self.name, table, columns)
        target = self.world.lake.table(self.name, table)
        held = [{"id": row[0], "v": row[1]} for row in self.sql(f"SELECT id, v FROM {self.name}.{table}")]
        rows = pa.Table.from_pylist(held, schema=target.schema().as_arrow())
        target.append(rows, snapshot_properties=stamp.to_summary() if stamp else {})

    def mismatch(self) -> str:
        """What the independent check finds wrong, or ""."""
        server = self.mysql
        admin = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        checks = check(admin, self.world.lake_properties, self.name, self.name, list(TABLES))
        return "; ".join(f"{c.table}: {c.missing} missing, {c.ghosts} ghosts" for c in checks if not c.equal)

    def heads(self) -> dict[str, Any]:
        """The newest snapshot of each sink table."""
        lake, there = self.world.lake, [name for name in TABLES if self.world.lake.exists(self.name, name)]
        return {name: lake.table(self.name, name).metadata.current_snapshot_id for name in there}

    def close_a_recovery(self) -> None:
        """Epoch 1, as after a first copy."""
        self.control.open_recovery("first")
        self.control.close_recovery("first")

    def set_up(self) -> None:
        """A healthy pipeline."""
        self.world.register(self.name, self.server, [f"{self.name}.{table}" for table in TABLES])
        self.make_tables()
        self.create_connector()
        self.write(10)
        self.catch_up()
        self.close_a_recovery()
        self.fill_sink(self.stamp())
