"""The servers that faults are made on, and the process that diagnoses them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

import stack
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.kinds import read_pipeline
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sources.mysql.capabilities import ServerVersion
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from stack import connections
from stack.connect import ConnectWorker
from stack.mysql import MySqlServer, MySqlSettings
from tests.faults_diagnosis import blackhole

CATALOG = "lake"
SERVERS = {"gtid": MySqlSettings(name="gtid"), "files": MySqlSettings(name="files", server_id=102, gtid=False)}


@dataclass(slots=True)
class World:
    """One stack: a server with GTIDs, one without, Kafka, Connect, and a lake in a folder."""

    folder: Path
    servers: stack.Stack
    pipelines: dict[str, Any] = field(default_factory=dict)
    paths: list[blackhole.Path] = field(default_factory=list)

    @property
    def connect(self) -> ConnectWorker:
        assert self.servers.connect is not None
        return self.servers.connect

    @property
    def bootstrap(self) -> str:
        assert self.servers.kafka is not None
        return self.servers.kafka.bootstrap

    def mysql(self, name: str) -> MySqlServer:
        return self.servers.mysql[name]

    @property
    def lake_properties(self) -> dict[str, str]:
        home = self.folder / "lake"
        home.mkdir(parents=True, exist_ok=True)
        return {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}

    @property
    def lake(self) -> Lake:
        return Lake(CATALOG, self.lake_properties)

    def dark_path(self, server: str) -> blackhole.Path:
        """A network path to a server that can be made to go dark; it ends with the world."""
        endpoint = self.mysql(server)
        self.paths.append(blackhole.Path(endpoint.host, endpoint.port))
        return self.paths[-1]

    def register(self, name: str, server: str, tables: list[str], policy: dict[str, Any] | None = None) -> None:
        """Add a pipeline to the registry, which the diagnosis reads anew each time."""
        kind = "mariadb" if ServerVersion.parse(self.mysql(server).version).mariadb else "mysql"
        self.pipelines[name] = {
            "source": {"kind": kind, "conn_id": f"mysql_{server}", "tables": tables},
            "connector": {"kind": "debezium", "conn_id": "connect", "name": name},
            "transport": {"kind": "kafka", "conn_id": "kafka"},
            "sink": {"kind": "iceberg", "catalog": CATALOG, "namespace": name},
            "policy": policy or {},
        }
        self.registry.write_text(yaml.safe_dump({"pipelines": self.pipelines}))

    @property
    def registry(self) -> Path:
        return self.folder / "pipelines.yaml"

    def environment(self) -> dict[str, str]:
        """What the diagnosing process is started with: connections and the registry's path."""
        made = {**self.own_connections(), **self.source_connections()}
        return {
            **os.environ,
            **connections.variables(made),
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__CDC__REGISTRY": str(self.registry),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    def own_connections(self) -> dict[str, connections.Connection]:
        """The connections of everything but the sources."""
        return {
            "connect": connections.to_connect(self.connect.url),
            "kafka": connections.to_kafka(self.bootstrap),
            CATALOG: connections.to_lake(self.lake_properties),
        }

    def source_connections(self) -> dict[str, connections.Connection]:
        """The connections of the sources."""
        return {f"mysql_{name}": connections.to_mysql(server) for name, server in self.servers.mysql.items()}

    def endpoints_of(self, name: str, server: str) -> Endpoints:
        """The same addresses, as a driver of the pipeline `name` is given them."""
        return endpoints(self, self.source_endpoint(server))

    def source_endpoint(self, server: str) -> MySqlEndpoint:
        """The address of a server, as the product is given it."""
        endpoint = self.mysql(server)
        return MySqlEndpoint(endpoint.host, endpoint.port, endpoint.cdc.user, endpoint.cdc.password)

    def settings(self, name: str, server: str, run_id: str) -> dict[str, Any]:
        """What a driver is given for a run of the pipeline `name`; it holds credentials."""
        pipeline = read_pipeline({"name": name, **self.pipelines[name]})
        return {
            "pipeline": pipeline.to_json(),
            "endpoints": self.endpoints_of(name, server).to_json(pipeline),
            "run_id": run_id,
            "report_dir": str(self.folder / "reports"),
            "options": {"approved": True},
        }

    @contextmanager
    def helper(self, module: str) -> Iterator[Helper]:
        """A module of this package as a process of its own, which ends with the block."""
        with (self.folder / f"{module}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.{module}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment(),
            )
            try:
                yield Helper(process)
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(30)


def endpoints(world: World, source: Any) -> Endpoints:
    """The world's addresses with that source."""
    return Endpoints(
        source,
        ConnectEndpoint(world.connect.url),
        KafkaEndpoint(world.bootstrap),
        IcebergEndpoint(CATALOG, world.lake_properties),
    )


@dataclass(slots=True)
class Helper:
    """A process that answers lines with lines, kept alive because its start costs seconds."""

    process: subprocess.Popen[str]

    def ask(self, line: str) -> dict[str, Any]:
        """Its answer to a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        if not said:
            raise RuntimeError("the process has ended; see its log")
        answer: dict[str, Any] = json.loads(said)
        return answer


@contextmanager
def started(folder: Path) -> Iterator[World]:
    """The servers, ended with the block."""
    with stack.start(folder / "s", mysql_settings=list(SERVERS.values())) as servers:
        world = World(folder, servers)
        try:
            yield world
        finally:
            for path in world.paths:
                path.close()
