"""The demo's world: the servers, the shop, the lake, and an Airflow that knows them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from demo.makes import shop_on
from demo.sinks import LAKE, Sink
from stack import connections, jvm
from stack.airflow import COMPONENTS, TRIGGERER, AirflowSettings
from stack.cluster import Stack
from stack.connect import ConnectWorker
from stack.errors import StackError, log_tail
from stack.fetch import cache_dir
from stack.mysql import MySqlServer
from stack.process import end, spawn
from stack.shop.dataset import SCHEMA

if TYPE_CHECKING:
    from demo.make import Make

PIPELINE = "shop"
NAMESPACE = SCHEMA
SPARK = {
    "spark.driver.memory": "1500m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.scheduler.mode": "FAIR",
}


@dataclass(frozen=True, slots=True)
class World:
    """Addresses of everything the demo talks to, and the folder that holds what it leaves."""

    folder: Path
    stack: Stack
    sink: Sink = LAKE

    @property
    def worker(self) -> ConnectWorker:
        if self.stack.connect is None:
            raise StackError("the stack has no Connect worker")
        return self.stack.connect

    @property
    def mysql(self) -> MySqlServer:
        return self.stack.mysql["mysql"]

    @property
    def shop(self) -> Make:
        """The shop on the database, whatever its make."""
        return shop_on(self.stack)

    @property
    def admin(self) -> dict[str, Any]:
        """The address and the administrator's login, as PyMySQL and psycopg take them."""
        server = self.shop.server
        return {"host": server.host, "port": server.port, "user": server.user, "password": server.password}

    @property
    def lake(self) -> dict[str, str]:
        """PyIceberg's properties of the demo's catalog: SQLite and a folder."""
        home = self.folder / "lake"
        home.mkdir(parents=True, exist_ok=True)
        return {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}

    @property
    def bootstrap(self) -> str:
        return self.stack.kafka.bootstrap if self.stack.kafka else ""

    @property
    def conn_id(self) -> str:
        """The source's Airflow connection."""
        return f"shop_{self.shop.kind}"

    def connections(self) -> dict[str, str]:
        """The Airflow connections of the pipeline, as the environment variables that define them."""
        made = {
            self.conn_id: self.shop.connection(),
            "shop_connect": connections.to_connect(self.stack.connect.url if self.stack.connect else ""),
            "shop_kafka": connections.to_kafka(self.bootstrap),
            **self.sink.connections(self),
            "spark_default": connections.to_spark("local[2]"),
        }
        return connections.variables(made)

    def environment(self) -> dict[str, str]:
        """What Airflow's processes are started with."""
        return {
            **self.connections(),
            "AIRFLOW__CDC__REGISTRY": str(self.write_registry()),
            "AIRFLOW__CDC__REPORT_DIR": str(self.folder / "reports"),
            "AIRFLOW__CDC__SPARK_CONF": json.dumps(SPARK | {"spark.driver.extraClassPath": jvm.class_path()}),
            "AIRFLOW__CDC__CLASS_ARCHIVE": str(cache_dir() / "spark-classes"),
            "AIRFLOW__CDC__APPLY_SCHEDULE": "none",  # the story says when
            "AIRFLOW__CDC__NIGHTLY_SCHEDULE": "none",
        }

    def write_registry(self) -> Path:
        """pipelines.yaml of the demo."""
        path = self.folder / "pipelines.yaml"
        pipeline = {
            "source": {
                "kind": self.shop.kind,
                "conn_id": self.conn_id,
                "tables": [f"{SCHEMA}.{table}" for table in self.sink.tables],
                **self.shop.source(),
            },
            "connector": {"kind": "debezium", "conn_id": "shop_connect", "name": "shop"},
            "transport": {"kind": "kafka", "conn_id": "shop_kafka"},
            **self.sink.declared(),
            # the demo deletes more than the default limit of 1 % on purpose, and nobody is there to approve
            "policy": {"approval": "never", "max_deletes": "10%"},
        }
        path.write_text(yaml.safe_dump({"pipelines": {PIPELINE: pipeline}}, sort_keys=False))
        return path


def airflow_settings(stack: Stack, *, deferring: bool = True, sink: Sink = LAKE) -> AirflowSettings:
    """An Airflow with the repository's DAGs and the connections of the world around `stack`.

    Without `deferring` nothing may wait in the triggerer: it is not started.
    """
    components = tuple(name for name in COMPONENTS if deferring or name != TRIGGERER)
    return AirflowSettings(Path("dags"), World(stack.folder, stack, sink).environment(), components=components)


@contextmanager
def writer(world: World, module: str = "", *arguments: str) -> Iterator[Path]:
    """A writer as a process of its own, ended with this block, or with this process; yields the file it counts in.

    Raises StackError if it ended before. `module` (that of the shop's make) is run with a settings file, the file to count in, and `arguments`.
    """
    settings, counts = world.folder / "writer.json", world.folder / "writer.jsonl"
    with os.fdopen(os.open(settings, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(world.admin, out)
    log = world.folder / "writer.log"
    argv = [sys.executable, "-m", module or world.shop.writer, str(settings), str(counts), *arguments]
    process = spawn("writer", argv, log=log)
    try:
        yield counts
        if not process.alive:
            raise StackError(f"the writer failed:\n{log_tail(log)}")
    finally:
        end(process)
        settings.unlink()


def changes_between(counts: Path, start: float, stop: float) -> int:
    """Row changes the writer made between two times (unix seconds), from its own count."""
    lines = [json.loads(line) for line in counts.read_text().splitlines() if line.endswith("}")]
    inside = [line["changes"] for line in lines if start <= line["t"] <= stop]
    return inside[-1] - inside[0] if len(inside) > 1 else 0
