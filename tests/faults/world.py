"""The world of the kill matrix: real servers, proxies before them, a small shop, and the product's view of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.flows.run import Run, make_run
from airflow_cdc.kinds import read_pipeline
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.endpoint import IcebergEndpoint
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from demo.world import NAMESPACE, SPARK, World
from stack import cluster, jvm
from stack.process import wait_until
from stack.shop import connectors, dataset
from stack.shop.check import TableCheck, check
from stack.shop.dataset import CATALOG
from stack.shop.gap import binlog_files
from tests.e2e.conftest import again_and_again
from tests.faults.proxy import HOST, Proxy

ROWS = 2_000
TABLES = ("customers", "orders", "events")
PIPELINE = "shop"
_GAP = (
    "DELETE FROM customers WHERE CRC32(code) % 40 = {n}",
    "DELETE FROM orders WHERE id % 40 = {n}",
    "DELETE FROM events WHERE kind = 'click' LIMIT 7",
    "UPDATE orders SET amount = amount + 1 WHERE id % 30 = {n}",
    "UPDATE customers SET name = CONCAT('gap ', {n}) WHERE CRC32(code) % 30 = {n}",
    "INSERT INTO orders (customer, status, amount, placed_at) VALUES ('gap', 'new', {n}, NOW(3))",
    "INSERT INTO events VALUES ('2026-01-01 00:00:00', 'view', 'gap'), ('2026-01-01 00:00:00', 'view', 'gap')",
)


@dataclass
class FaultWorld:
    """Everything a cell acts on. `mysql` and `connect` are the proxies that the product goes through."""

    folder: Path
    stack: cluster.Stack
    mysql: Proxy
    connect: Proxy
    chunk_rows: int = ROWS // 4
    gaps: int = 0
    lake: Lake = field(init=False)

    def __post_init__(self) -> None:
        self.lake = Lake(CATALOG, self.demo.lake)

    @property
    def demo(self) -> World:
        """The demo's world on the same servers."""
        return World(self.folder, self.stack)

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline as a registry would declare it; nobody is there to approve."""
        return read_pipeline(
            {
                "name": PIPELINE,
                "source": {"kind": "mysql", "conn_id": "m", "tables": [f"{dataset.SCHEMA}.{t}" for t in TABLES]},
                "connector": {"kind": "debezium", "conn_id": "c", "name": PIPELINE},
                "transport": {"kind": "kafka", "conn_id": "k"},
                "sink": {"kind": "iceberg", "catalog": CATALOG, "namespace": NAMESPACE, "writer": "cdc_apply"},
                "spark": {"conn_id": "s"},
                "policy": {"approval": "never", "max_deletes": "100%"},
            }
        )

    @property
    def endpoints(self) -> Endpoints:
        """Addresses as the product knows them: MySQL and Connect behind the proxies."""
        login = self.demo.mysql.cdc
        return Endpoints(
            # without TLS: the proxy looks for moments in what is asked
            MySqlEndpoint(HOST, self.mysql.port, login.user, login.password, ssl={"mode": "disabled"}),
            ConnectEndpoint(f"http://{HOST}:{self.connect.port}"),
            KafkaEndpoint(self.demo.bootstrap),
            IcebergEndpoint(CATALOG, self.demo.lake),
        )

    def run(self, run_id: str) -> Run:
        """The run as the harness looks at it."""
        return make_run(self.pipeline, self.endpoints, run_id, str(self.folder / "reports"))

    def settings(self, run_id: str, **more: Any) -> dict[str, Any]:
        """What a step's process is given; it holds credentials."""
        return {
            "pipeline": self.pipeline.to_json(),
            "endpoints": self.endpoints.to_json(self.pipeline),
            "run_id": run_id,
            "report_dir": str(self.folder / "reports"),
            "submit": submit_command(),
            # several commits in every table, so that there is a middle of reading
            "chunk_rows": self.chunk_rows,
            "group_chunks": 1,
            **more,
        }

    def make_gap(self) -> None:
        """The connector fails on a purged log; rows were deleted, changed and added meanwhile, and a column came or went."""
        worker = self.demo.stack.connect
        assert worker is not None
        connectors.stop(worker, PIPELINE)
        self.change_and_purge()
        connectors.failure(worker, PIPELINE)

    def change_and_purge(self) -> None:
        """Rows change, and the log that says how is purged."""
        self.gaps += 1
        alter = "ADD COLUMN extra VARCHAR(8) NULL" if self.gaps % 2 else "DROP COLUMN extra"
        with closing(self.demo.mysql.connect(database=dataset.SCHEMA)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = ''")
            for sql in (*_GAP, f"ALTER TABLE customers {alter}"):
                cursor.execute(sql.format(n=self.gaps % 30).replace("%", "%"))
            connection.commit()
            purge(cursor)

    def purge(self) -> None:
        """Purge every file but a fresh one."""
        with closing(self.demo.mysql.connect()) as connection, connection.cursor() as cursor:
            purge(cursor)

    def compare(self) -> list[TableCheck]:
        """The independent check of all tables; the writer must be off and everything applied."""
        return check(self.demo.admin, self.demo.lake, dataset.SCHEMA, NAMESPACE, list(TABLES))

    def mismatch(self) -> str:
        """What the independent check found first, "" if all tables are equal."""
        different = [one for one in self.compare() if not one.equal]
        return f"MISMATCH: {different[0].table}: {'; '.join(different[0].examples)[:300]}" if different else ""


def purge(cursor: Any) -> None:
    """Rotate, and purge every file but the newest."""
    cursor.execute("FLUSH BINARY LOGS")
    cursor.execute(f"PURGE BINARY LOGS TO '{binlog_files(cursor)[-1]}'")


def submit_command() -> list[str]:
    """spark-submit for a local driver with the demo's settings."""
    own = "-Duser.timezone=UTC -XX:-UsePerfData"  # so that a full disk is met by rows, not by the JVM's own file
    return [
        str(Path(sys.executable).with_name("spark-submit")),
        "--master=local[2]",
        *(f"--conf={key}={value}" for key, value in (SPARK | jvm.conf(own)).items()),
    ]


@dataclass
class Reader:
    """Looks at main of every table again and again; `states` are the distinct contents of each, in order.

    What main pointed to between two looks is not missed: Iceberg keeps the log of it, and every entry is read.
    """

    lake: Lake
    states: dict[str, list[int]] = field(default_factory=dict)
    _entries: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        """Read every state that main had since the last look; at the first look the one it has."""
        for name in TABLES:
            if not self.lake.exists(NAMESPACE, name):
                continue
            table = self.lake.table(NAMESPACE, name)
            log = table.metadata.snapshot_log
            for entry in log[self._entries.get(name, max(0, len(log) - 1)) :]:
                seen = self.states.setdefault(name, [])
                rows = content(table.scan(snapshot_id=entry.snapshot_id).to_arrow())
                if not seen or seen[-1] != rows:
                    seen.append(rows)
            self._entries[name] = len(log)

    @property
    def most(self) -> int:
        """The largest number of states that any table showed."""
        return max((len(seen) for seen in self.states.values()), default=0)

    @contextmanager
    def at_work(self, seconds: float = 0.5) -> Iterator[None]:
        """Look all the time beside the block."""
        self.look()
        with again_and_again(self.look, seconds):
            yield
        self.look()


def content(rows: pa.Table) -> int:
    """A number that says what rows a table holds, in any order."""
    texts = sorted(repr(sorted(row.items())) for row in rows.to_pylist())
    return hash("\n".join(texts))


@contextmanager
def world(folder: Path, rows: int = ROWS) -> Iterator[FaultWorld]:
    """Servers, proxies, a shop of `rows` rows and its connector; all ends with the block."""
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable})
    with ExitStack() as ends:
        stack = ends.enter_context(cluster.start(folder))
        demo = World(folder, stack)
        worker = stack.connect
        assert worker is not None
        with closing(demo.mysql.connect(autocommit=False)) as connection:
            dataset.create(connection)
            dataset.fill(connection, rows)
        host, _, port = worker.url.removeprefix("http://").partition(":")
        mysql = ends.enter_context(Proxy((demo.mysql.host, demo.mysql.port)))
        connect = ends.enter_context(Proxy((host, int(port))))
        connectors.create(worker, PIPELINE, _settings(demo))
        wait_until(lambda: connectors.stored(worker, PIPELINE) or None, timeout=120, what="the first offset")
        yield FaultWorld(folder, stack, mysql, connect, rows // 4)


def _settings(demo: World) -> Mapping[str, str]:
    """The demo's connector without a heartbeat, so that a recovery has a setting to put back at its end."""
    tables = ",".join(f"{dataset.SCHEMA}.{table}" for table in TABLES)
    made = connectors.config(PIPELINE, demo.mysql, demo.bootstrap, **{"table.include.list": tables})
    return {**made, "snapshot.mode": "no_data", "heartbeat.interval.ms": "0"}
