"""What the tests of Flink stand on: one table, a job that reads it, and the pipeline of both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_cdc.connectors.flink.connector import FlinkConnector
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.kind import FlinkSettings
from airflow_cdc.connectors.flink.offset import FlinkCodec
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
from airflow_cdc.transports.direct import DirectEndpoint, DirectSettings, DirectTransport
from stack.flink import FlinkCluster
from stack.mysql import MySqlServer
from stack.process import wait_until

WAIT_S = 90.0
# by default a position on a server where nothing is written moves every 48 s
QUICK = {"heartbeat.interval": "1s", "debezium.connect.keep.alive.interval.ms": "1000"}


def source_table(mysql: MySqlServer, database: str, **options: str) -> str:
    """The statement that declares the table `t` of a database as a source."""
    given = {
        "connector": "mysql-cdc",
        "hostname": mysql.host,
        "port": str(mysql.port),
        "username": mysql.debezium.user,
        "password": mysql.debezium.password,
        "database-name": database,
        "table-name": "t",
        "server-time-zone": "UTC",
        **options,
    }
    text = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE TABLE t (id INT, PRIMARY KEY (id) NOT ENFORCED) WITH ({text})"


@dataclass(frozen=True)
class Scene:
    """One table `t`, a job of the same name that reads it and prints its rows, and the pipeline of both."""

    name: str
    mysql: MySqlServer
    flink: FlinkCluster
    run: Run

    @property
    def connector(self) -> Any:
        return self.run.clients.connector

    @property
    def plan(self) -> Path:
        return Path(self.connector.endpoint.plan)

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.mysql.execute(*statements)

    def insert(self, *numbers: int) -> None:
        self.sql(*(f"INSERT INTO {self.name}.t VALUES ({number})" for number in numbers))

    def ids(self) -> list[int]:
        """The rows that were inserted into the sink, in the order of writing."""
        text = (self.flink.folder / "taskmanager.log").read_text(errors="replace")
        return [int(number) for number in re.findall(rf"{self.name}> \+I\[(\d+)", text)]

    def wait_written(self, number: int) -> None:
        """Wait until the row is in the sink."""
        wait_until(lambda: number in self.ids() or None, timeout=WAIT_S, what=f"row {number} to be written")

    def wait_sent(self, number: int) -> None:
        """Wait until the row is in the sink, and a stored offset says so."""
        self.wait_written(number)
        executed = self.executed()
        wait_until(lambda: self.stored_set() == executed or None, timeout=WAIT_S, what="the offset to be stored")

    def executed(self) -> str:
        return str(self.sql("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")

    def stored_set(self) -> str | None:
        offset = self.offset()
        return None if offset is None else str(offset.get("gtids"))

    def offset(self) -> dict[str, Any] | None:
        """The stored offset."""
        value = self.connector.committed_offset(self.name, self.name)
        return None if value is None else dict(value)

    def at(self, **changed: Any) -> dict[str, Any]:
        """An offset of our own making: the end of the server's log, with other values."""
        file, position, *_ = self.sql("SHOW MASTER STATUS")[0]
        value = {"file": str(file), "pos": str(position), "kind": "SPECIFIC", "gtids": self.executed()}
        return {**value, "row": "0", "event": "0", **changed}

    def start(self) -> None:
        self.connector.resume(self.name)
        self.connector.wait_running(self.name)

    def purge(self) -> None:
        """Let the server forget everything but its newest, empty file."""
        self.sql("FLUSH BINARY LOGS")
        newest = self.sql("SHOW BINARY LOGS")[-1][0]
        self.sql(f"PURGE BINARY LOGS TO '{newest}'")

    def diagnosis(self) -> Diagnosis:
        return diagnose(observe(self.run, watch=0.0), rules_for(self.run.pipeline))

    def failure(self) -> str:
        """Wait until the job fails; its trace."""

        def failed() -> str | None:
            return next(iter(self.connector.state(self.name).failures), None)

        return wait_until(failed, timeout=WAIT_S, what="the job to fail")


def compile_plan(flink: FlinkCluster, mysql: MySqlServer, name: str, path: Path, options: Mapping[str, str]) -> None:
    """Write the plan of a job that reads `t` and prints it."""
    flink.sql(
        source_table(mysql, name, **options),
        f"CREATE TABLE o (id INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'print', 'print-identifier' = '{name}')",
        f"COMPILE PLAN 'file://{path}' FOR INSERT INTO o SELECT * FROM t",
    )


def pipeline_run(
    name: str, mysql: MySqlServer, flink: FlinkCluster, plan: Path, *, table: str = "t", reads: str = ""
) -> Run:
    """A run over the pipeline, as its commands make one; its state is in SQLite beside the plan."""
    part = FlinkSettings("flink", "f", name, str(plan), f"file://{flink.savepoints}", reads=reads)
    pipeline = Pipeline(
        f"{name}_{table}",
        MySqlPart("mysql", "m", (f"{name}.{table}",)),
        part,
        DirectSettings("direct"),
        NO_SINK,
        control=SqlControlSettings("sql", "s"),
    )
    store = SqlControlStore(SqlEndpoint("sqlite", str(plan.with_name("state.db")), options={"timeout": "30"}))
    clients = Parts(
        MySqlSource(MySqlEndpoint(mysql.host, mysql.port, mysql.cdc.user, mysql.cdc.password)),
        FlinkConnector(part.at(FlinkEndpoint(flink.url, flink.gateway)), FlinkCodec()),
        DirectTransport(DirectEndpoint()),
        NoSinkClient(NoEndpoint()),
        Control(store, pipeline.name),
    )
    return Run(pipeline, clients, "cli", str(plan.with_name("reports")))
