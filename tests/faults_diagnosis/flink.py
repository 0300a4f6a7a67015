"""A pipeline with Flink CDC to make a fault on: a job that prints two tables' rows, and no sink of ours."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

import stack
from airflow_cdc.connectors.flink.connector import FlinkConnector
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.control.control import Control
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.text import root_cause
from stack import connections
from stack.errors import StackError
from stack.flink import FlinkCluster, start_flink
from stack.process import wait_until
from tests.faults_diagnosis import world
from tests.faults_diagnosis.subject import SAYS_SECONDS, TABLES, Subject


@dataclass(slots=True)
class FlinkWorld(world.World):
    """MySQL servers and a Flink cluster; no Kafka, no Connect, no lake."""

    cluster: FlinkCluster = field(kw_only=True)

    @property
    def control(self) -> SqlEndpoint:
        return SqlEndpoint("sqlite", str(self.folder / "control.db"), options={"timeout": "30"})

    def plan(self, name: str) -> Path:
        """The compiled plan of a pipeline's job."""
        return self.folder / f"{name}.json"

    def register(self, name: str, server: str, tables: list[str], policy: dict[str, Any] | None = None) -> None:
        plan, savepoints = str(self.plan(name)), f"file://{self.cluster.savepoints}"
        self.pipelines[name] = {
            "source": {"kind": "mysql", "conn_id": f"mysql_{server}", "tables": tables},
            "connector": {"kind": "flink", "conn_id": "flink", "name": name, "plan": plan, "savepoints": savepoints},
            "transport": {"kind": "direct"},
            "control": {"kind": "sql", "conn_id": "control"},
            "policy": policy or {},
        }
        self.registry.write_text(yaml.safe_dump({"pipelines": self.pipelines}))

    def own_connections(self) -> dict[str, connections.Connection]:
        host, _, port = self.cluster.url.removeprefix("http://").partition(":")
        flink = {"conn_type": "flink", "host": host, "port": int(port), "extra": {"gateway": self.cluster.gateway}}
        control = {"conn_type": "sqlite", "host": self.control.database}
        return {"flink": flink, "control": control}


@dataclass(slots=True)
class FlinkSubject(Subject):
    """The pipeline `name`; its database and job have the same name. `config`: options of its source."""

    @property
    def not_recovered(self) -> str:
        return "there is no sink of ours: nothing is recovered"

    @property
    def flink(self) -> FlinkWorld:
        assert isinstance(self.world, FlinkWorld)
        return self.world

    @property
    def connector(self) -> FlinkConnector:
        cluster = self.flink.cluster
        plan, savepoints = str(self.flink.plan(self.name)), f"file://{cluster.savepoints}"
        endpoint = FlinkEndpoint(cluster.url, cluster.gateway, plan=plan, savepoints=savepoints)
        return FlinkConnector(endpoint, FlinkCodec())

    @property
    def control(self) -> Control:
        return Control(SqlControlStore(self.flink.control), self.name)

    def settings(self) -> dict[str, str]:
        """The options of the source: one for both tables, so that the job has one position."""
        server = self.mysql
        return {
            "connector": "mysql-cdc",
            "hostname": server.host,
            "port": str(server.port),
            "username": server.debezium.user,
            "password": server.debezium.password,
            "database-name": self.name,
            "table-name": "|".join(TABLES),
            "server-time-zone": "UTC",
            "heartbeat.interval": "1s",
            "debezium.connect.keep.alive.interval.ms": "1000",
            **self.config,
        }

    def create_connector(self) -> None:
        options = ", ".join(f"'{key}' = '{value}'" for key, value in self.settings().items())
        columns = "(id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED)"
        self.flink.cluster.sql(
            f"CREATE TABLE t {columns} WITH ({options})",
            f"CREATE TABLE o {columns} WITH ('connector' = 'print', 'print-identifier' = '{self.name}')",
            f"COMPILE PLAN 'file://{self.flink.plan(self.name)}' FOR INSERT INTO o SELECT * FROM t",
        )
        self.resume()
        self.wait_running()

    def states(self) -> tuple[str, list[str], str]:
        state = self.connector.state(self.name)
        return state.state, [task.state for task in state.tasks], root_cause(next(iter(state.failures), "no trace"))

    def stop(self) -> None:
        self.connector.stop(self.name, timeout=90)

    def resume(self) -> None:
        self.connector.resume(self.name)

    def wait_running(self) -> None:
        self.connector.wait_running(self.name)

    def wait_failed(self) -> None:
        self.wait(lambda: "FAILED" in self.states()[1], "the job fails")

    def offset(self) -> dict[str, Any]:
        return dict(self.connector.committed_offset(self.name, self.name) or {})

    def patch(self, offset: dict[str, Any] | None, server: str = "") -> None:
        self.connector.offset_store(self.name, {"server": self.name}).write(offset)

    def _at_end(self) -> bool:
        return bool(self.offset()) and str(self.offset().get("gtids")) == self.executed()

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

    def heads(self) -> dict[str, Any]:
        """There is no sink: what a diagnosis must leave alone is the job's offset while it rests."""
        return {"plan": self.flink.plan(self.name).read_bytes()} if self.flink.plan(self.name).exists() else {}

    def set_up(self) -> None:
        self.flink.register(self.name, self.server, [f"{self.name}.{table}" for table in TABLES])
        self.make_tables()
        self.create_connector()
        self.write(10)
        self.catch_up()

    def delete(self) -> None:
        self.flink.cluster.cancel(self.name)


@contextmanager
def started(folder: Path) -> Iterator[FlinkWorld]:
    """The servers, ended with the block."""
    with stack.start(folder / "s", ("mysql",), mysql_settings=[world.SERVERS["gtid"]]) as servers:
        cluster = start_flink(folder / "flink")
        try:
            yield FlinkWorld(folder, servers, cluster=cluster)
        finally:
            cluster.stop()
            shutil.rmtree(folder / "flink", ignore_errors=True)
