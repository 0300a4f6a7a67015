"""A MySQL database that a real Flink job copies into Iceberg tables, and the steps of its recovery."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.flink.connector import FlinkConnector
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.kind import FlinkSettings
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.control.control import Control
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.pipeline import HoldPolicy, Pipeline, Policy
from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import connector as connector_steps
from airflow_cdc.flows import reset_offset, watermark
from airflow_cdc.flows.checks import conclude
from airflow_cdc.flows.close import close
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.replica import return_to_source
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.kind import IcebergSettings
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.kind import MySqlSettings
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.repair import repair
from airflow_cdc.spark_apps.verify import verify
from airflow_cdc.transports.direct import DirectEndpoint, DirectSettings, DirectTransport
from stack.flink import FlinkCluster
from stack.mysql import MySqlServer, User
from stack.process import wait_until
from tests.integration.flink.support import QUICK
from tests.integration.recovering import SECONDS
from tests.on_demand import on_demand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UPSERT = "'format-version' = '2', 'write.upsert.enabled' = 'true'"


def _options(given: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in given.items())


@dataclass(frozen=True, slots=True)
class Copied:
    """A table that the job copies: its columns as Flink declares them, and its key."""

    columns: str
    key: str

    @property
    def declared(self) -> str:
        return f"({self.columns}, PRIMARY KEY ({self.key}) NOT ENFORCED)"


@dataclass(slots=True)
class Followed:
    """Tables of one database, a job of its name, and their copies in a namespace of its name.

    `tables`: name → how Flink declares it. One table is one source of the job, so a job of several tables has several
    sources. `address`: where job and product go, if not to the server's own; `login`: their login there, if it is one.
    `session`: more settings of the session in which the job is started. `printed`: tables that further sources of the job
    print; then the pipeline is about the one source that fills a table.
    """

    server: MySqlServer
    flink: FlinkCluster
    spark: SparkSession
    lake: Lake
    lake_properties: Mapping[str, str]
    folder: Path
    database: str
    tables: Mapping[str, Copied]
    options: Mapping[str, str] = field(default_factory=lambda: QUICK)
    address: tuple[str, int] | None = None
    login: User | None = None
    session: tuple[str, ...] = ()
    printed: Mapping[str, Copied] = field(default_factory=dict)
    source: Any = field(init=False)
    connector: Any = field(init=False)
    base: Run = field(init=False)

    def __post_init__(self) -> None:
        register_functions(self.spark)
        name, server = self.database, self.server
        part = FlinkSettings(
            "flink",
            "f",
            name,
            str(self.folder / "plan.json"),
            self.flink.savepoints.as_uri(),
            ("execution.checkpointing.interval=1s", *self.session),
            f"{name}.{next(iter(self.tables))}" if self.printed else "",
        )
        login = self.login or server.cdc
        self.source = MySqlSource(MySqlEndpoint(*self.at, login.user, login.password))
        self.connector = FlinkConnector(
            part.at(FlinkEndpoint(self.flink.url, gateway=self.flink.gateway)), FlinkCodec()
        )
        settings, sink = self.sink_parts()
        pipeline = Pipeline(
            name,
            MySqlSettings("mysql", "m", tuple(f"{name}.{table}" for table in self.tables)),
            part,
            DirectSettings("direct"),
            settings,
            policy=Policy(hold=HoldPolicy(mode="off")),
        )
        # a file of its own: Flink gives up a commit to a catalog in SQLite when another connection wrote to it meanwhile
        control = Control(
            SqlControlStore(SqlEndpoint("sqlite", str(self.folder / "control.db"), options={"timeout": "30"})), name
        )
        clients: Any = Parts(self.source, self.connector, DirectTransport(DirectEndpoint()), sink, control)
        self.base = Run(pipeline, clients, "run-0", str(self.folder))

    def sink_parts(self) -> tuple[Any, Any]:
        """The settings and the client of the sink."""
        return IcebergSettings("iceberg", self.database, self.lake.name, writer="connector"), self.lake

    @property
    def at(self) -> tuple[str, int]:
        return self.address or (self.server.host, self.server.port)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.server.execute(
            f"USE {self.database}",
            "SET SESSION time_zone = '+00:00'",
            "SET SESSION cte_max_recursion_depth = 100000",
            *statements,
        )
        return rows

    def catalog(self) -> dict[str, str]:
        """The options of the catalog `lake` in Flink."""
        return {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:{self.lake_properties['uri'].replace('sqlite:///', 'sqlite:')}",
            "jdbc.schema-version": "V1",
            "jdbc.busy_timeout": "60000",
            "warehouse": self.lake_properties["warehouse"],
        }

    def make_tables(self) -> list[str]:
        """The statements that make the sink's tables, if the job does not make them itself."""
        self.lake.reach()  # the first to open the catalog lets its readers go on beside a writer
        name = self.database
        return [
            f"CREATE CATALOG lake WITH ({_options({'type': 'iceberg', **self.catalog()})})",
            f"CREATE DATABASE lake.{name}",
            *(
                f"CREATE TABLE lake.{name}.`{table}` {copied.declared} WITH ({UPSERT})"
                for table, copied in self.tables.items()
            ),
        ]

    def sink_options(self, table: str) -> dict[str, str]:
        """The options by which the job finds a table of the sink."""
        place = {"catalog-name": "lake", "catalog-database": self.database, "catalog-table": table}
        return {"connector": "iceberg", **place, **self.catalog()}

    def follow(self) -> None:
        """Create the tables in the lake, compile the job's plan, start it, and wait until its snapshot is over.

        The plan has to say where the sink's tables are: the session in which it is started knows no catalog `lake`.
        """
        name, (host, port), login = self.database, self.at, self.login or self.server.debezium
        declared, inserts = [], []
        for table, copied in {**self.tables, **self.printed}.items():
            source = {
                "connector": "mysql-cdc",
                "hostname": host,
                "port": str(port),
                "username": login.user,
                "password": login.password,
                "database-name": name,
                "table-name": table,
                "server-time-zone": "UTC",
                **self.options,
            }
            printed = {"connector": "print", "print-identifier": f"{name}_{table}"}
            sink = printed if table in self.printed else self.sink_options(table)
            declared.append(f"CREATE TABLE `{table}` {copied.declared} WITH ({_options(source)})")
            declared.append(f"CREATE TABLE `to_{table}` {copied.declared} WITH ({_options(sink)})")
            inserts.append(f"INSERT INTO `to_{table}` SELECT * FROM `{table}`")
        whole = inserts[0] if len(inserts) == 1 else f"STATEMENT SET BEGIN {'; '.join(inserts)}; END"
        self.flink.sql(
            *self.make_tables(),
            *declared,
            f"COMPILE PLAN 'file://{self.folder / 'plan.json'}' FOR {whole}",
        )
        self.connector.resume(name)
        self.connector.wait_running(name)
        self.wait_read()

    def go_on(self) -> None:
        """Start the job again from the state with which it was stopped."""
        self.connector.resume(self.database)

    def wait_read(self) -> None:
        """Wait until the job has stored an offset past all that the source has committed so far, and the sink shows it."""
        position = self.source.position()

        def past() -> bool | None:
            stored = self.connector.facts(self.database).offset
            return True if stored and stored.has_read(position) else None

        wait_until(past, timeout=SECONDS, what=f"the job to store an offset past {position}")

    def purge(self) -> None:
        """All but the newest file of the log."""
        self.execute("FLUSH BINARY LOGS")
        newest = self.execute("SHOW BINARY LOGS")[-1][0]
        self.execute(f"PURGE BINARY LOGS TO '{newest}'")

    def failure(self) -> str:
        """What the job says once it has failed."""
        trace: str = wait_until(
            lambda: next(iter(self.connector.state(self.database).failures), None),
            timeout=SECONDS,
            what="the job to fail",
        )
        return trace

    def recover(self, run_id: str, **options: Any) -> dict[str, Any]:
        """The steps of cdc_recovery, one after the other. Returns what was decided, and the facts of `verify`."""
        run = replace(self.base, run_id=run_id, options=RunOptions(approved=True, **options))
        decision = decide(run, run.options.strategy or None)
        open_recovery(run, Decision.from_json(decision))
        connector_steps.stop(run)
        watermark.fence_and_watermark(run)
        with on_demand(self.spark) as spark:
            recover(run, spark)
        reset_offset.reset_offset(run)
        connector_steps.resume(run)
        with on_demand(self.spark) as spark:
            compared = verify(run, spark)
        publish(run)
        close(run)
        return {"decision": decision, "verify": compared}

    def skipped(self) -> list[str]:
        """The operators whose state Flink left behind in the starts of all jobs so far, as the JobManager's log names them."""
        text = (self.flink.folder / "jobmanager.log").read_text(errors="replace")
        return re.findall(r"Skipping savepoint state for operator (\w+)", text)

    def move(self, run_id: str, **options: Any) -> dict[str, Any]:
        """The steps of cdc_recovery with a strategy that moves only the position. Returns what was decided."""
        run = replace(self.base, run_id=run_id, options=RunOptions(approved=True, **options))
        decision = decide(run, run.options.strategy or None)
        open_recovery(run, Decision.from_json(decision))
        return_to_source(run)
        self.compare(run_id)
        return decision

    def compare(self, run_id: str) -> dict[str, Any]:
        """What the tasks `compare` and `verdict` do."""
        run = replace(self.base, run_id=run_id, options=RunOptions(dry_run=True))
        with on_demand(self.spark) as spark:
            repair(run, spark)
        return conclude(run)

    def lines(self, table: str) -> list[str]:
        """What the job printed for a table, in the order of writing: +I[1, a]"""
        text = (self.flink.folder / "taskmanager.log").read_text(errors="replace")
        return re.findall(rf"{self.database}_{table}> (\S+\[.*?\])", text)

    def versions(self, table: str) -> list[int]:
        """The versions that readers saw, oldest first."""
        return [entry.snapshot_id for entry in self.lake.table(self.database, table).metadata.snapshot_log]

    def restored_from(self) -> str:
        """The state from which the running job was started; "": none."""
        (job,) = self.flink.jobs(self.database)
        restored = self.flink.call("GET", f"/jobs/{job['jid']}/checkpoints")["latest"]["restored"]
        return str(restored["external_path"]) if restored else ""

    def sink_rows(self, table: str, version: int | None = None) -> Sequence[Mapping[str, Any]]:
        """All rows of a table, by Spark: PyIceberg does not read the deletes that Flink writes."""
        at = "" if version is None else f" VERSION AS OF {version}"
        frame = self.spark.sql(f"SELECT * FROM `{self.lake.name}`.`{self.database}`.`{table}`{at}")
        rows: Sequence[Mapping[str, Any]] = frame.toArrow().to_pylist()
        return rows
