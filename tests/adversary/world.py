"""The servers that many seeds share, and one seed's pipeline on them: its database, connector, namespace, product steps."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from threading import Event
from typing import TYPE_CHECKING, Any

import pymysql
from pyiceberg.catalog import Catalog, load_catalog

import stack
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.core.errors import CdcError, DeadlineError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.poll import NotYet, poll_while_moving
from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import close, connector, decide, hold, observe, publish, watermark
from airflow_cdc.flows import reset_offset as offset
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.run import Run, RunOptions, make_run
from airflow_cdc.kinds import read_pipeline
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.driver.session import build_session
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.repair import repair
from airflow_cdc.spark_apps.verify import verify
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from airflow_cdc.transports.kafka.wire import admin
from stack import jvm
from stack.connect import ConnectWorker
from stack.mysql import MySqlServer
from stack.process import wait_until
from stack.rest import RestError
from tests.adversary.cut import CutTransport
from tests.adversary.form import JSON, Form
from tests.adversary.generator import Op
from tests.adversary.oracle import sink_name
from tests.adversary.refusals import Refusals
from tests.diagnosing import diagnose
from tests.registered import worker_and_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stack.registry import Registry

CATALOG = "lake"
WRITERS = ("debezium", "registry-converters")
LOAD_MODE = "ALLOW_INVALID_DATES,ERROR_FOR_DIVISION_BY_ZERO"
DRAIN_SECONDS = 60.0
OPTIONS = {"reach_seconds": 60, "resume_seconds": 120}
FULL_RATE = 600
TICKS = (
    "CREATE TABLE IF NOT EXISTS cdc_ticks (id char(36) PRIMARY KEY)",
    "INSERT INTO cdc_ticks VALUES (uuid())",
)
Facts = dict[str, Any]


@dataclass(slots=True)
class Servers:
    """A running stack, a lake in a folder, one Spark session."""

    folder: Path
    stack: stack.Stack
    spark: SparkSession
    writing: tuple[ConnectWorker, Registry] | None = None  # a worker that writes every format, and its registry

    @property
    def mysql(self) -> MySqlServer:
        return self.stack.mysql["mysql"]

    @property
    def worker(self) -> ConnectWorker:
        if self.writing:
            return self.writing[0]
        assert self.stack.connect is not None
        return self.stack.connect

    @property
    def bootstrap(self) -> str:
        assert self.stack.kafka is not None
        return self.stack.kafka.bootstrap

    @property
    def admin(self) -> dict[str, Any]:
        """PyMySQL's arguments for the server's root."""
        server = self.mysql
        return {"host": server.host, "port": server.port, "user": server.user, "password": server.password}

    @property
    def catalog(self) -> Catalog:
        """The lake as PyIceberg sees it, for the check alone."""
        return load_catalog(CATALOG, **lake_properties(self.folder))

    @property
    def endpoints(self) -> Endpoints:
        """Addresses as the product is given them."""
        server = self.mysql
        return Endpoints(
            MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password),
            ConnectEndpoint(self.worker.url),
            KafkaEndpoint(self.bootstrap),
            IcebergEndpoint(CATALOG, lake_properties(self.folder)),
        )


def lake_properties(folder: Path) -> dict[str, str]:
    """An embedded catalog in the folder."""
    home = folder / "lake"
    (home / "warehouse").mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}


@contextmanager
def servers(
    folder: Path, running: str = "", settings: Mapping[str, str] | None = None, *, formats: bool = False
) -> Iterator[Servers]:
    """Servers and a Spark session, ended with the block. `running`: the folder of a stack to use, which is left running.

    `settings`: Spark's, beside those of a small session. `formats`: a worker that writes every format, and a registry.
    """
    with ExitStack() as ends:
        if running:
            started = stack.Stack.load(Path(running))
        else:
            started = ends.enter_context(stack.start(folder / "s", ("mysql", "kafka") if formats else stack.ALL))
        writing = ends.enter_context(worker_and_registry(folder / "w", started, plugins=WRITERS)) if formats else None
        yield Servers(folder, started, ends.enter_context(session(folder, settings)), writing)


@contextmanager
def session(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The product's own session, small, with these settings of Spark's."""
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable})
    lake = Lake(CATALOG, lake_properties(folder))
    small = {"spark.master": "local[2]", "spark.driver.memory": "1500m", "spark.sql.shuffle.partitions": "2"}
    spark = build_session("adversary", lake, (), small | jvm.conf() | dict(settings or {}))
    try:
        yield spark
    finally:
        spark.stop()


@dataclass(slots=True)
class Pipe:
    """One seed's pipeline. `generation` rises when it is declared anew without the tables that the product refused.

    `database`: one that another process has made for this pipeline; by default a new one. `policy`: keys beside those of
    a pipeline that nobody approves for. `unended`: the run that opened a recovery and failed since; it has the lease.
    """

    servers: Servers
    name: str
    tables: list[str]
    modes: Mapping[str, str]
    generation: int = 0
    runs: int = 0
    database: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)
    unended: str = ""
    form: Form = JSON

    def __post_init__(self) -> None:
        if not self.database:
            self.database = f"{self.name}_{uuid.uuid4().hex[:6]}"
            self.servers.mysql.execute(f"CREATE DATABASE `{self.database}`")

    @property
    def namespace(self) -> str:
        return f"{self.database}_{self.generation}"

    @property
    def pipeline(self) -> Pipeline:
        """As a registry would declare it; nobody is there to approve."""
        return read_pipeline(
            {
                "name": self.namespace,
                "source": {"kind": "mysql", "conn_id": "m", "tables": [f"{self.database}.{t}" for t in self.tables]},
                "connector": {"kind": "debezium", "conn_id": "c", "name": self.database},
                "transport": {"kind": "kafka", "conn_id": "k"},
                "sink": {"kind": "iceberg", "catalog": CATALOG, "namespace": self.namespace, "writer": "cdc_apply"},
                "spark": {"conn_id": "s"},
                "policy": {"approval": "never", "max_deletes": "100%", **self.policy},
            }
        )

    def run(self, **options: Any) -> Run:
        """A new run of the product over this pipeline."""
        self.runs += 1
        return self._run(f"r{self.runs}", options)

    def _run(self, run_id: str, options: Mapping[str, Any]) -> Run:
        folder = str(self.servers.folder / "reports")
        return make_run(self.pipeline, self.servers.endpoints, run_id, folder, RunOptions.from_json(options))

    def connect(self) -> pymysql.connections.Connection[Any]:
        """A session on the source for the generator's statements."""
        connection: pymysql.connections.Connection[Any] = self.servers.mysql.connect(database=self.database)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = %s, time_zone = '+00:00', lock_wait_timeout = 20", [LOAD_MODE])
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 20, cte_max_recursion_depth = 100000")
        return connection

    # --- the connector -----------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Create the connector and wait for its first offset."""
        server, name = self.servers.mysql, self.database
        settings = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.debezium.user,
            "database.password": server.debezium.password,
            "database.server.id": str(80000 + int(uuid.uuid4().hex[:4], 16)),
            "database.include.list": name,
            "database.ssl.mode": "preferred",
            "driver.allowPublicKeyRetrieval": "true",
            "topic.prefix": name,
            "topic.creation.default.replication.factor": "1",
            "snapshot.mode": "no_data",
            "schema.history.internal.kafka.bootstrap.servers": self.servers.bootstrap,
            "schema.history.internal.kafka.topic": f"history-{name}",
            "schema.history.internal.store.only.captured.databases.ddl": "true",
            "heartbeat.interval.ms": "500",
            # the clock of heartbeats while nothing comes; with less, a connector on a busy machine takes itself for cut off
            # and may leave an offset that lists a transaction as done of which it sent a part
            "connect.keep.alive.interval.ms": "5000",
            **self.form.settings(self.modes, self.servers.writing and self.servers.writing[1]),
        }
        self.servers.worker.call("PUT", f"/connectors/{name}/config", settings)
        wait_until(lambda: self._offset() or self.failure() or None, timeout=120, what=f"{name} to have a position")
        if not self._offset() and (why := self.failure()):
            raise AssertionError(f"the connector never began: {why}")

    def _offset(self) -> Facts:
        with suppress(RestError):  # just created: no worker has taken it yet
            offsets = self.servers.worker.call("GET", f"/connectors/{self.database}/offsets")["offsets"]
            return dict(offsets[0]["offset"]) if offsets else {}
        return {}

    def failure(self) -> str:
        """Why the connector's task has failed; "" while it has not."""
        with suppress(RestError):
            status = self.servers.worker.call("GET", f"/connectors/{self.database}/status")
            failed = [str(task.get("trace")) for task in status["tasks"] if task["state"] == "FAILED"]
            causes = [line for line in (failed[0] if failed else "").splitlines() if line.startswith("Caused by")]
            return (causes or failed or [""])[-1][:300]
        return ""

    def drain(self, standstill: float = DRAIN_SECONDS) -> str:
        """Wait until the connector has committed an offset past all that the source has executed; "" or why it has not.

        The server compares the sets. However slow the machine is: the connector has stopped only if its offset stays.
        A row comes last, in a table that the connector follows and the pipeline does not have: while nothing else happens
        the offset stays before a last DDL, and before a last transaction that is filtered out (Debezium 3.6.1).
        """
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in TICKS:
                cursor.execute(statement)
            cursor.execute("SELECT @@global.gtid_executed")
            executed = cursor.fetchone()[0]

            def past() -> str:
                offset = self._offset()
                cursor.execute("SELECT GTID_SUBSET(%s, %s)", (executed, str(offset.get("gtids") or "")))
                if state := "past" if cursor.fetchone()[0] else self.failure():
                    return state
                raise NotYet(str({**offset, "ts_sec": None}))

            try:
                state = poll_while_moving(
                    past, standstill=standstill, interval=0.2, what="the connector to read everything"
                )
            except DeadlineError as error:
                return str(error)
        return "" if state == "past" else state

    def pause(self) -> None:
        """Stop the connector, as its owner might."""
        path = f"/connectors/{self.database}"
        self.servers.worker.call("PUT", f"{path}/stop")
        wait_until(
            lambda: True if not self.servers.worker.call("GET", f"{path}/status")["tasks"] else None,
            timeout=60,
            what="the connector to stop",
        )

    def resume(self) -> None:
        """Let the connector run, as its owner might, and wait until it does: between states nobody can say how it is."""
        path = f"/connectors/{self.database}"
        self.servers.worker.call("PUT", f"{path}/resume")
        wait_until(
            lambda: True if self.servers.worker.call("GET", f"{path}/status")["tasks"] else None,
            timeout=60,
            what="the connector to run",
        )

    def purge(self) -> None:
        """Purge every file of the log but a fresh one."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("SHOW BINARY LOGS")
            cursor.execute(f"PURGE BINARY LOGS TO '{cursor.fetchall()[-1][0]}'")

    def end(self) -> None:
        """Take connector, topics and database away, so that the next seed finds the servers as this one did."""
        with suppress(RestError):
            self.servers.worker.call("DELETE", f"/connectors/{self.database}")
        self.servers.mysql.execute(f"DROP DATABASE IF EXISTS `{self.database}`")
        with admin(KafkaEndpoint(self.servers.bootstrap)) as client:
            ours = [t for t in client.list_topics() if t.startswith((self.database, f"history-{self.database}"))]
            if ours:
                client.delete_topics(ours)

    # --- the product's steps -----------------------------------------------------------------------------------------

    def apply(self) -> dict[str, str]:
        """Apply what waits: table → "" or why it was not applied. Raises CdcError when no table could be tried."""
        self.apply_in_part()
        run, refused = self.run(), Refusals()
        with refused.listening():
            try:
                results = apply_changes(run, self.servers.spark)["tables"]
            except CdcError:
                if not refused.by_table:
                    raise
                results = {}
        said = dict.fromkeys(self.tables, "") | {self.bare(name): str(why) for name, why in refused.by_table.items()}
        behind = [self.bare(name) for name, r in results.items() if r.get("behind") or r.get("not_published")]
        said |= {self.bare(name): f"{count} dead letters are unresolved" for name, count in refused.letters.items()}
        return said | dict.fromkeys(behind, BEHIND)

    def apply_in_part(self) -> None:
        """A batch that ends between a delete and its tombstone, in each topic that has such a place among what waits.

        What is refused of it is refused again by the batch after it.
        """
        run = self.run()
        reached: dict[str, dict[int, int]] = {}
        for table in self.tables:
            stamp = Lake(CATALOG, lake_properties(self.servers.folder)).facts(self.namespace, sink_name(table)).stamp
            reached |= {} if stamp is None else {topic: dict(at.next) for topic, at in stamp.offsets.items()}
        cut: Any = CutTransport(
            run.clients.transport, KafkaEndpoint(self.servers.bootstrap), reached, Random(self.runs)
        )
        with suppress(CdcError):
            apply_changes(replace(run, clients=replace(run.clients, transport=cut)), self.servers.spark)

    def recover(self, asked: str | None = None) -> str:
        """A recovery as the DAG runs it; its verdict. Raises CdcError. "none" if there was nothing to do.

        Where one has failed, that run goes again from its first task, as a person who cleared its tasks would have it.
        """
        run = self._run(self.unended, {"approved": True}) if self.unended else self.run(approved=True)
        decision = decide.decide(run, asked)
        plan = decision["plan"]
        if plan["refused"]:
            raise CdcError(f"the plan is refused: {plan['reason']}")
        if plan["strategy"] == "none":
            return "none"
        if plan["strategy"] == "restart":
            connector.restart(run)
            return "none"
        open_recovery(run, Decision.from_json(decision))
        self.unended = run.run_id
        connector.stop(run)
        with held(run):
            watermark.fence_and_watermark(run)
            recover(run, self.servers.spark)
            offset.reset_offset(run)
            connector.resume(run)
        verdict = str(verify(run, self.servers.spark, OPTIONS)["verdict"])
        publish.publish(run)
        close.close(run)
        close.report(run)
        self.unended = ""
        return verdict

    def compare(self, *, dry: bool, tables: Sequence[str] = ()) -> dict[str, tuple[str, str]]:
        """The product's own comparison, or its repair: table → verdict and samples."""
        options = {"dry_run": dry, **({"tables": [f"{self.database}.{t}" for t in tables]} if tables else {})}
        run = self.run(**options)
        with suppress_mismatch():
            repair(run, self.servers.spark, OPTIONS)
        check = run.clients.control.ledger_get(run.run_id).get("check") or {}
        return {
            self.bare(n): (str(c["verdict"]), "; ".join(map(str, c.get("samples") or ()))) for n, c in check.items()
        }

    def diagnosis(self) -> str:
        """The code that the diagnosis gives now."""
        return diagnose(observe.observe(self.run(), watch=0)).code

    def bare(self, name: str) -> str:
        """A table's name without the database."""
        return name.removeprefix(f"{self.database}.")

    def renewed(self, without: Sequence[str]) -> Pipe:
        """The same database and connector, declared as a new pipeline without these tables."""
        self.generation += 1
        self.unended = ""
        self.tables = [table for table in self.tables if table not in without]
        return self


BEHIND = "not published yet"


@contextmanager
def suppress_mismatch() -> Iterator[None]:
    """A repair that ends unequal raises; its report says so too, table by table."""
    from airflow_cdc.core.errors import VerificationError

    with suppress(VerificationError):
        yield


@contextmanager
def held(run: Run) -> Iterator[None]:
    """The hold runs beside the steps, as a task of its own does in the DAG."""
    over = Event()
    with ThreadPoolExecutor(1) as beside:
        holding = beside.submit(hold.hold, run, over.is_set)
        try:
            yield
        finally:
            over.set()
        holding.result()


def execute(connection: pymysql.connections.Connection[Any], op: Op) -> str:
    """Run a statement list; "" or what the server refused. What was begun is ended."""
    try:
        with connection.cursor() as cursor:
            for statement in op.statements:
                cursor.execute(statement)
    except pymysql.Error as error:
        _undo(connection, op)
        return f"{type(error).__name__}: {error.args}"[:200]
    return ""


def _undo(connection: pymysql.connections.Connection[Any], op: Op) -> None:
    """End a transaction that failed in its middle."""
    xids = {s.split(" ", 2)[2] for s in op.statements if s.startswith("XA START")}
    for statement in ("ROLLBACK", *(f"XA {verb} {xid}" for xid in xids for verb in ("END", "ROLLBACK"))):
        with suppress(pymysql.Error), connection.cursor() as cursor:
            cursor.execute(statement)


@contextmanager
def hot(pipe: Pipe, statements: Sequence[str]) -> Iterator[None]:
    """Run the statements about thirty times a second beside the block.

    After FULL_RATE of them they come more slowly: on a loaded machine a step that lasts ten times as long would otherwise
    have ten times as much to read, and last longer still.
    """
    over = Event()

    def beat() -> None:
        beats = 0
        with closing(pipe.connect()) as connection:
            while not over.wait(0.03 if beats < FULL_RATE else 1.0):
                beats += 1
                for statement in statements:
                    with suppress(pymysql.Error), connection.cursor() as cursor:  # a definition changes meanwhile
                        cursor.execute(statement)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(beat)
        try:
            yield
        finally:
            over.set()
        working.result()
