"""A stock Airflow with a pipeline, driven as a user does: by `airflow cdc …`, pipelines.yaml and connections."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pyiceberg.catalog import load_catalog

from stack import cluster, connections, fetch
from stack.airflow import AirflowSettings
from stack.airflow_client import AirflowClient
from stack.cluster import Stack
from stack.connect import ConnectWorker
from stack.mysql import MySqlServer
from stack.shop import connectors
from tests.e2e.stock import stock_settings

PIPELINE = "odd"
LAKE = "lake"
# Debezium replaces what a topic's name can't hold, so tables that would share a topic are in databases of their own.
TABLES: tuple[tuple[str, str], ...] = (
    ("odd", "Größe"),
    ("odd", "订单表单"),
    ("odd", "a"),
    ("odd", "a#b"),
    ("odd2", "a b"),
    ("odd3", "a/b"),
    ("odd", "a%2Fb"),
    ("odd4", 'a"b'),
    ("odd", "☃"),
    ("odd", "x" * 64),
)
ROWS = ((1, "one"), (2, "zwei ß"), (3, None))
DOCUMENTS = ("odd", "documents")  # its `v` is JSON
# nothing runs beside what a test asks for
SCHEDULES = ("apply", "nightly", "maintain")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Its output, which was asked for as JSON."""
        return json.loads(self.out)

    def __str__(self) -> str:
        return f"exit status {self.status}\n{self.out[-4000:]}\n{self.err[-4000:]}"


@dataclass(frozen=True, slots=True)
class Driven:
    """The running world, and one of its pipelines. Everything that the product does in it begins with a command."""

    stack: Stack
    pipeline: str = PIPELINE

    @property
    def mysql(self) -> MySqlServer:
        return self.stack.mysql["mysql"]

    @property
    def worker(self) -> ConnectWorker:
        worker = self.stack.connect
        assert worker is not None
        return worker

    @property
    def client(self) -> AirflowClient:
        """Airflow's REST API: to look at a run, never to do something."""
        assert self.stack.airflow is not None
        return self.stack.airflow.client()

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start `airflow cdc …`."""
        server = self.stack.airflow
        assert server is not None
        argv = [sys.executable, "-m", "airflow", "cdc", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, env=server.environment, cwd=server.home, stdout=pipe, stderr=pipe, text=True)

    def cdc(self, *words: str, timeout: float = 1800.0) -> Answer:
        """Run `airflow cdc …` to its end."""
        with self.begin(*words) as process:
            out, err = process.communicate(timeout=timeout)
        return Answer(process.returncode, out, err)

    def execute(self, *statements: str) -> None:
        """Carry out statements at the source, as root."""
        self.mysql.execute(*statements)

    def rows(self) -> set[frozenset[tuple[Any, ...]]]:
        """The rows of every table at the source, by PyMySQL alone. No two tables hold the same: see create_table()."""
        found = {table: self.mysql.execute(f"SELECT id, v FROM {quoted(*table)}") for table in (*TABLES, DOCUMENTS)}
        return {_pairs(rows, documents=table == DOCUMENTS) for table, rows in found.items()}

    def mirrored(self) -> set[frozenset[tuple[Any, ...]]]:
        """The rows of every table of the sink that readers see, by PyIceberg alone, whatever the tables are called there."""
        catalog = load_catalog(LAKE, **lake_of(self.stack.folder))
        names = [name for _, name in catalog.list_tables(self.pipeline)]
        found = {name: catalog.load_table((self.pipeline, name)).scan().to_arrow().to_pylist() for name in names}
        return {
            _pairs(((row["id"], row["v"]) for row in rows), documents=name == DOCUMENTS[1])
            for name, rows in found.items()
        }

    def newest(self, dag_id: str) -> str:
        """The run of a DAG that was triggered last."""
        return str(self.client.runs(dag_id)[0]["dag_run_id"])


def _pairs(rows: Iterable[Sequence[Any]], *, documents: bool) -> frozenset[tuple[Any, ...]]:
    """Keys and values; documents by their value, as a connector prints them otherwise than MySQL."""
    return frozenset((key, json.dumps(json.loads(v), sort_keys=True) if documents and v else v) for key, v in rows)


def quoted(schema: str, table: str) -> str:
    """The table as statements name it."""
    return f"`{schema}`.`{table}`"


def lake_of(folder: Path) -> dict[str, str]:
    """PyIceberg's properties of the catalog: SQLite and a folder."""
    home = folder / "lake"
    home.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}


def odd_tables(server: MySqlServer) -> None:
    """TABLES with ROWS, and DOCUMENTS."""
    for schema in dict.fromkeys(schema for schema, _ in TABLES):
        server.execute(f"CREATE DATABASE {schema}")
    for schema, table in TABLES:
        create_table(server, schema, table)
    server.execute(f"CREATE TABLE {quoted(*DOCUMENTS)} (id INT PRIMARY KEY, v JSON)")
    server.execute(f"""INSERT INTO {quoted(*DOCUMENTS)} VALUES (1, '{{"a": 1}}')""")


def start(
    folder: Path,
    tables: Sequence[tuple[str, str]] = (*TABLES, DOCUMENTS),
    fill: Callable[[MySqlServer], None] = odd_tables,
    *,
    keep: bool = False,
) -> Driven:
    """Servers, the tables that `fill` makes, a connector and a stock Airflow that knows the pipeline; nothing is copied yet."""

    def settings(stack: Stack) -> AirflowSettings:
        server, kafka, connect = stack.mysql["mysql"], stack.kafka, stack.connect
        assert kafka is not None
        assert connect is not None
        made = {
            "odd_mysql": connections.to_mysql(server),
            "odd_connect": connections.to_connect(connect.url),
            "odd_kafka": connections.to_kafka(kafka.bootstrap),
            LAKE: connections.to_lake(lake_of(stack.folder)),
            "spark_default": connections.to_spark("local[2]"),
        }
        declare(stack.folder / "airflow", PIPELINE, tables)
        env = {**stock_settings(fetch.set_jars("spark")), **connections.variables(made)}
        env |= {f"AIRFLOW__CDC__{name.upper()}_SCHEDULE": "none" for name in SCHEDULES}
        return AirflowSettings(Path("dags"), env, stock=True)

    driven = Driven(
        cluster.start(folder, keep=keep, airflow_settings=settings, meanwhile=lambda stack: fill(stack.mysql["mysql"]))
    )
    try:
        capture(driven, "shop", sorted({schema for schema, _ in tables}))
    except BaseException:
        driven.stack.down()
        raise
    return driven


def join(folder: Path, name: str, tables: Sequence[tuple[str, str]], fill: Callable[[MySqlServer], None]) -> Driven:
    """One pipeline more in a world that runs."""
    driven = Driven(Stack.load(folder), name)
    fill(driven.mysql)
    declare(folder / "airflow", name, tables)
    capture(driven, "peer", sorted({schema for schema, _ in tables}))
    return driven


def create_table(server: MySqlServer, schema: str, table: str) -> None:
    """One table with ROWS, and a row that says whose they are."""
    rows = (*ROWS, (100, f"of {schema}.{table}"[:40]))
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {quoted(schema, table)} (id INT PRIMARY KEY, v VARCHAR(40))")
        cursor.executemany(f"INSERT INTO {quoted(schema, table.replace('%', '%%'))} VALUES (%s, %s)", rows)


def capture(driven: Driven, role: str, schemas: Sequence[str]) -> None:
    """A connector that has read these databases' definitions and no row. `role` gives it a server id of its own."""
    kafka = driven.stack.kafka
    assert kafka is not None
    name, config = driven.pipeline, connectors.config(role, driven.mysql, kafka.bootstrap)
    config |= {"database.include.list": ",".join(schemas), "topic.prefix": name, "snapshot.mode": "no_data"}
    config["schema.history.internal.kafka.topic"] = f"{name}.schema-history"
    del config["table.include.list"]
    connectors.create(driven.worker, name, config)


def declare(home: Path, name: str, tables: Sequence[tuple[str, str]]) -> None:
    """pipelines.yaml, in which others stay, and the DAG files, where a stock Airflow looks for them."""
    from airflow_cdc.cli.init import STUBS

    pipeline = {
        "source": {
            "kind": "mysql",
            "conn_id": "odd_mysql",
            "tables": [f"{schema}.{table}" for schema, table in tables],
        },
        "connector": {"kind": "debezium", "conn_id": "odd_connect", "name": name},
        "transport": {"kind": "kafka", "conn_id": "odd_kafka"},
        "sink": {"kind": "iceberg", "catalog": LAKE, "namespace": name, "writer": "cdc_apply"},
        "spark": {"conn_id": "spark_default"},
        "policy": {"approval": "never", "max_deletes": "100%"},
    }
    (home / "dags").mkdir(parents=True, exist_ok=True)
    registry = home / "pipelines.yaml"
    others = yaml.safe_load(registry.read_text())["pipelines"] if registry.exists() else {}
    registry.write_text(yaml.safe_dump({"pipelines": {**others, name: pipeline}}, allow_unicode=True))
    for file, text in STUBS.items():
        (home / "dags" / file).write_text(text)
