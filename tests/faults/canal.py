"""The kill matrix's world on Canal: MySQL → Canal, its cursor in meta.dat → a stream of RabbitMQ → OpenSearch."""

from __future__ import annotations

import json
import os
import shlex
import sys
import urllib.error
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.core.pipeline import Pipeline, sink_name
from airflow_cdc.kinds import read_pipeline
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from stack import cluster
from stack.canal import CanalServer, CanalSettings, make_canal
from stack.opensearch import OpenSearchNode, start_opensearch
from stack.process import wait_until
from stack.rabbitmq import RabbitServer, start_rabbitmq
from tests.faults.keyed import KeyedShop, last_number
from tests.faults.proxy import HOST, Proxy
from tests.faults.world import NAMESPACE, PIPELINE, ROWS, Messages, Reader, content
from tests.integration.canal.over_rabbitmq import STREAM, canal_properties, declare, endpoint_of
from tests.integration.recovering import meanwhile
from tests.systems.debezium_search import documents

QUEUE = f"{PIPELINE}.stream"
ELSEWHERE_EVERY_S = 0.5
FAILS_S = 120.0
LOOKS_EVERY_S = 2.0


@dataclass
class CanalWorld(KeyedShop):
    """A shop on MySQL. Every table has a key: Canal's events cannot be followed without one."""

    rabbit: RabbitServer = field(kw_only=True)
    node: OpenSearchNode = field(kw_only=True)

    @property
    def canal(self) -> CanalServer:
        """The Canal server."""
        return CanalServer(self.folder / "canal", PIPELINE)

    @property
    def pipeline(self) -> Pipeline:
        """See FaultWorld."""
        canal = self.canal
        words = {word: shlex.join(argv) for word, argv in canal.commands().items()}
        own = {"conf": str(canal.conf), "log": str(canal.log), "time_zone": "UTC", **words}
        tables = [f"{PIPELINE}.{table}" for table in self.tables]
        return read_pipeline(
            {
                "name": PIPELINE,
                "source": {"kind": "mysql", "conn_id": "m", "tables": tables},
                "connector": {"kind": "canal", "conn_id": "c", "name": PIPELINE, **own},
                "transport": {"kind": "rabbitmq", "conn_id": "r", "queue": QUEUE},
                "sink": {"kind": "opensearch", "conn_id": "s", "namespace": NAMESPACE},
                "spark": {"conn_id": "spark"},
                "policy": {"approval": "never", "max_deletes": "100%"},
            }
        )

    @property
    def endpoints(self) -> Endpoints:
        """See FaultWorld: the source behind its proxy."""
        login = self.mysql.cdc
        source = MySqlEndpoint(HOST, self.source.port, login.user, login.password, ssl={"mode": "disabled"})
        parts: Any = self.pipeline
        return Endpoints(
            source,
            parts.connector.at(CanalEndpoint("localhost")),
            parts.transport.at(endpoint_of(self.rabbit)),
            self.node_endpoint,
        )

    @property
    def node_endpoint(self) -> OpenSearchEndpoint:
        """The search node."""
        return OpenSearchEndpoint(self.node.url, replicas=0)

    @property
    def sink(self) -> SearchSink:
        """See FaultWorld."""
        return SearchSink(self.node_endpoint)

    def reader(self) -> Reader:
        """See FaultWorld."""
        return AliasReader(self.node.url, self.tables)

    # --- what is killed, and started again ---------------------------------------------------------------------------

    def restart_rabbitmq(self) -> None:
        """Start the broker again on its data, at its address."""
        self.rabbit = start_rabbitmq(self.folder, self.stack.logs, before=self.rabbit)
        self.stack.others["rabbitmq"] = self.rabbit.child

    def stop_rabbitmq(self) -> None:
        """End the broker that runs now."""
        self.rabbit.stop()

    def restart_opensearch(self) -> None:
        """Start the node again on its data, at its address."""
        port = int(self.node.url.rpartition(":")[2])
        self.node = start_opensearch(self.folder, self.stack.logs, port=port)
        self.stack.others["opensearch"] = self.node.child

    # --- the source --------------------------------------------------------------------------------------------------

    def elsewhere(self, stop: Event) -> None:
        """Somebody writes to another database now and then: Canal shows that it reads by what it reads."""
        self.mysql.execute("CREATE DATABASE others", "CREATE TABLE others.writes (n INT)")
        with closing(self.mysql.connect(database="others")) as connection, connection.cursor() as cursor:
            while not stop.wait(ELSEWHERE_EVERY_S):
                cursor.execute("REPLACE INTO writes VALUES (1)")
                connection.commit()

    def make_gap(self) -> None:
        """See FaultWorld."""
        self.canal.stop()
        self.gaps += 1
        self.lose_log(
            f"ALTER TABLE customers {'ADD COLUMN extra varchar(8)' if self.gaps % 2 else 'DROP COLUMN extra'}"
        )
        self.canal.start()
        connector = self.run("gap").clients.connector
        wait_until(lambda: connector.state(PIPELINE).failures or None, timeout=FAILS_S, what="Canal to fail")

    # --- the checks --------------------------------------------------------------------------------------------------

    def copied(self, table: str, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        """See KeyedShop."""
        found = documents(f"{self.node.url}/{NAMESPACE}.{sink_name(table)}")
        return ([document.get(name) for name in names] for document in found)

    def left_behind(self) -> str:
        """See FaultWorld: a stage's index that is behind no alias."""
        stages = self.sink.stages(NAMESPACE)
        return f"LEFT BEHIND: {[stage.index for stage in stages]}" if stages else ""

    def messages(self, resumed_from: Mapping[str, Any]) -> Messages:
        """See FaultWorld: what the writer committed after Canal's cursor, against the stream from its beginning."""
        made = self.written.changes(last_number(str(resumed_from["postion"]["gtid"])))
        records = self.run("count").clients.transport.records(PIPELINE)
        arrived = Counter(change for record in records for change in changes_of(record.value) if change in made)
        return Messages(len(made), len(arrived), arrived.total() - len(arrived))


@dataclass
class AliasReader(Reader):
    """Looks through the aliases of the tables. What lies between two looks is not seen: an alias keeps no log."""

    url: str
    tables: tuple[str, ...]

    def look(self) -> None:
        """Note what a reader finds; a node that does not answer, and a table that is not there yet, show nothing."""
        for table in self.tables:
            try:
                found = documents(f"{self.url}/{NAMESPACE}.{sink_name(table)}")
            except (urllib.error.URLError, OSError):
                continue
            self.note(table, content(found))

    @contextmanager
    def at_work(self, seconds: float = LOOKS_EVERY_S) -> Iterator[None]:
        """See Reader."""
        with super().at_work(seconds):
            yield


def changes_of(message: bytes | None) -> Iterator[tuple[str, str, str]]:
    """Table, kind and value of each row in a message of Canal's."""
    event = json.loads(message or b"{}")
    key = {"orders": "note", "customers": "code"}.get(event.get("table", ""))
    for row in (event.get("data") or ()) if key else ():
        yield event["table"], event["type"], row[key]


@contextmanager
def world(folder: Path, rows: int = ROWS) -> Iterator[CanalWorld]:
    """Servers, a proxy, a shop of `rows` rows in each table, and Canal at work; all ends with the block."""
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable})
    with ExitStack() as ends:
        stack = ends.enter_context(cluster.start(folder, ("mysql",)))
        server = stack.mysql[CanalWorld.server]
        source = ends.enter_context(Proxy((server.host, server.port)))
        node = start_opensearch(folder, stack.logs)
        rabbit = start_rabbitmq(folder, stack.logs)
        stack.others |= {"opensearch": node.child, "rabbitmq": rabbit.child}
        made = CanalWorld(folder, stack, source, rows // 4, rabbit=rabbit, node=node)
        ends.callback(made.stop_rabbitmq)
        made.create()
        declare(rabbit, QUEUE, PIPELINE, STREAM)
        make_canal(folder / "canal", _settings(made)).start()
        ends.callback(made.canal.stop)
        made.fill()
        wait_until(lambda: made.canal.meta.exists() or None, timeout=FAILS_S, what="Canal's first cursor")
        ends.enter_context(meanwhile(made.elsewhere))
        yield made


def _settings(made: CanalWorld) -> CanalSettings:
    """Canal by GTID, from the log's end."""
    server = made.mysql
    file, position, *_ = server.execute("SHOW MASTER STATUS")[0]
    more = {
        "canal.instance.filter.regex": rf"{PIPELINE}\..*",
        "canal.instance.gtidon": "true",
        "canal.instance.master.gtid": made.executed(),
    }
    return CanalSettings(
        PIPELINE,
        f"{server.host}:{server.port}",
        server.debezium,
        "",
        PIPELINE,
        (str(file), int(position)),
        more=more,
        server=canal_properties(made.rabbit, PIPELINE),
    )
