"""What the tests of Canal stand on: one table, a server that reads it, and the pipeline of both."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from airflow_cdc.connectors.canal.connector import CanalConnector
from airflow_cdc.connectors.canal.cursor import CursorCodec
from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.connectors.canal.kind import CanalSettings as CanalPart
from airflow_cdc.connectors.canal.stores.zookeeper import ZooKeeperCursors
from airflow_cdc.control.control import Control
from airflow_cdc.controls.sql.kind import SqlControlSettings, SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.pipeline import NO_SINK, Pipeline
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis, diagnose
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import rules_for
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.none import NoEndpoint, NoSinkClient
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.kind import MySqlSettings as MySqlPart
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.kind import KafkaSettings
from stack.canal import CanalServer
from stack.errors import StackError, log_tail
from stack.kafka import properties
from stack.mysql import MySqlServer
from stack.process import wait_until

WAIT_S = 60.0
TransportParts: TypeAlias = tuple[Any, Any]
Cursor: TypeAlias = Mapping[str, Any]
NOBODY = "192.0.2.1"  # an address that no server has


# ---- what a test makes of a cursor, or of the files of a stopped server


def placed(cursor: Cursor, **place: Any) -> dict[str, Any]:
    """The cursor at another place."""
    return {**cursor, "postion": {**cursor["postion"], **place}}


def taken_elsewhere(cursor: Cursor) -> dict[str, Any]:
    """The cursor as if it was taken at another server's address."""
    return {**cursor, "identity": {"slaveId": -1, "sourceAddress": {"address": NOBODY, "port": 3306}}}


def add_client(canal: CanalServer, cursor: Cursor) -> None:
    """Give the destination a second client, 1002, that stands at `cursor`: in meta.dat, of a stopped server."""
    document = json.loads(canal.meta.read_bytes())
    (own,) = document["clientDatas"]
    other = {"clientIdentity": {**own["clientIdentity"], "clientId": 1002}, "cursor": dict(cursor)}
    canal.meta.write_text(json.dumps({**document, "clientDatas": [own, other]}, separators=(",", ":")))


def take_start_away(canal: CanalServer) -> None:
    """Let instance.properties no longer say where to begin."""
    path = canal.meta.with_name("instance.properties")
    lines = path.read_text().splitlines()
    kept = [line for line in lines if "journal.name" not in line and "master.position" not in line]
    path.write_text("\n".join(kept) + "\n")


def pass_over(canal: CanalServer, filters: str) -> None:
    """Let Canal pass over the tables that these expressions describe."""
    with canal.meta.with_name("instance.properties").open("a") as lines:
        lines.write(properties({"canal.instance.filter.black.regex": filters}))


def has_read(sql: Callable[[str], list[tuple[Any, ...]]], cursor: Cursor, database: str) -> bool:
    """Whether nothing of the database follows the cursor: Canal stores where a commit begins.

    What others write behind it may stay ahead of the cursor for good: of several transactions that are filtered out
    within five seconds, Canal takes notice of one.
    """
    place = cursor["postion"]
    files = [str(row[0]) for row in sql("SHOW BINARY LOGS")]
    if place["journalName"] not in files:
        return False
    events = list(sql(f"SHOW BINLOG EVENTS IN '{place['journalName']}' FROM {place['position']}")[1:])
    for file in files[files.index(place["journalName"]) + 1 :]:
        events += sql(f"SHOW BINLOG EVENTS IN '{file}'")
    return not any(re.search(rf"\b{database}\b", str(event[5])) for event in events)


@dataclass(frozen=True)
class Scene:
    """One table `t`, a Canal server that reads it, and the pipeline of both."""

    name: str
    mysql: MySqlServer
    canal: CanalServer
    run: Run
    zookeeper: str = ""

    @property
    def connector(self) -> Any:
        return self.run.clients.connector

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.mysql.execute(*statements)

    def insert(self, number: int) -> None:
        self.sql(f"INSERT INTO {self.name}.t VALUES ({number})")

    def end(self) -> tuple[str, int]:
        """Where the server's log ends."""
        file, position, *_ = self.sql("SHOW MASTER STATUS")[0]
        return str(file), int(position)

    def ids(self) -> list[int]:
        """The rows that Canal has sent, in the order of sending."""
        topics = self.run.clients.transport
        records = topics.records(self.name) if topics.topic_states([self.name]) else ()
        events = [json.loads(record.value or b"{}") for record in records]
        rows = [event["data"] for event in events if event["table"] == "t" and event["type"] == "INSERT"]
        return [int(row["id"]) for data in rows for row in data]

    def wait_sent(self, number: int) -> None:
        """Wait until Canal has sent the row, and stored that it has."""
        wait_until(lambda: number in self.ids() or None, timeout=WAIT_S, what=f"row {number} to be sent")
        self.wait_stored()

    def wait_stored(self) -> None:
        """Wait until Canal has stored that it read all of the database."""

        def stored() -> bool | None:
            cursor = self.cursor()
            return True if cursor and has_read(self.sql, cursor, self.name) else None

        try:
            wait_until(stored, timeout=WAIT_S, what="the cursor to be stored")
        except StackError as error:
            error.add_note(
                f"cursor {self.cursor()}, the log ends at {self.end()}, Canal's ends with\n{log_tail(self.canal.log)}"
            )
            raise

    def cursor(self) -> dict[str, Any] | None:
        """The stored cursor of Canal's own client."""
        value = self.connector.committed_offset(self.name, self.name)
        return None if value is None else dict(value)

    def purge(self) -> None:
        """Let the server forget everything but its newest, empty file."""
        self.sql("FLUSH BINARY LOGS")
        newest = self.sql("SHOW BINARY LOGS")[-1][0]
        self.sql(f"PURGE BINARY LOGS TO '{newest}'")

    def diagnosis(self) -> Diagnosis:
        return diagnose(observe(self.run, watch=0.0), rules_for(self.run.pipeline))

    def bytes(self) -> dict[str, bytes]:
        """What holds the cursors, to the byte."""
        if self.zookeeper:
            return dict(ZooKeeperCursors(self.connector.endpoint, self.name).stored())
        return {str(self.canal.meta): self.canal.meta.read_bytes()} if self.canal.meta.exists() else {}


def through_kafka(kafka: str) -> TransportParts:
    """The client of a broker, and its settings in the pipeline."""
    return KafkaTransport(KafkaEndpoint(kafka)), KafkaSettings("kafka", "k")


def pipeline_run(
    name: str, mysql: MySqlServer, through: TransportParts, canal: CanalServer, zookeeper: str = ""
) -> Run:
    """A run over the pipeline, as its commands make one; its state is in SQLite beside the server's files."""
    transport, topics = through
    words: dict[str, Any] = {word: shlex.join(argv) for word, argv in canal.commands().items()}
    cursor: Any = "zookeeper" if zookeeper else "file"
    part = CanalPart("canal", "c", name, str(canal.conf), **words, cursor=cursor, log=str(canal.log))
    pipeline = Pipeline(
        name,
        MySqlPart("mysql", "m", (f"{name}.t",)),
        part,
        topics,
        NO_SINK,
        control=SqlControlSettings("sql", "s"),
    )
    endpoint = part.at(CanalEndpoint(zookeeper or "localhost"))
    source = MySqlEndpoint(mysql.host, mysql.port, mysql.cdc.user, mysql.cdc.password)
    store = SqlControlStore(SqlEndpoint("sqlite", str(canal.folder / "state.db"), options={"timeout": "30"}))
    clients = Parts(
        MySqlSource(source),
        CanalConnector(endpoint, CursorCodec()),
        transport,
        NoSinkClient(NoEndpoint()),
        Control(store, name),
    )
    return Run(pipeline, clients, "cli", str(canal.folder / "reports"))
