"""A recovery whose drivers have no Java: their Spark is a Spark Connect server (spark.mode: connect)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_cdc import spark_main
from airflow_cdc.operators.driver_settings import private_settings
from airflow_cdc.spark_apps.events import FEW
from airflow_cdc.spark_apps.snapshot.read import FEW_ROWS
from stack.spark_connect import SparkConnectServer, start_spark_connect
from tests.adversary.world import Pipe, Servers
from tests.bench.recovered import Measured, differing, driver_settings, recovered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import stack
    from airflow_cdc.flows.run import Run
    from stack.connect import ConnectWorker
    from stack.mysql import MySqlServer

# seconds of processor time for each driver; the contract's tests are in every run
pytestmark = pytest.mark.slow

# what needs Spark: more rows than are read without it, and no key
TABLES = {
    "typed": "id INT PRIMARY KEY, at DATETIME(6), doc JSON, weight FLOAT, n INT NOT NULL",
    "small": "id INT PRIMARY KEY, name VARCHAR(40)",
    "keyless": "name VARCHAR(40), amount DECIMAL(12,2)",
}
ROWS = FEW_ROWS + 1_000
TIMES = FEW // ROWS + 1  # so often changed, the rows' events are more than are applied without Spark
NUMBERS = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {})"


@dataclass(slots=True)
class Drivers:
    """Runs applications on the server, each a process that finds no Java. `sessions`: the applications that made one."""

    servers: Servers
    server: SparkConnectServer
    sessions: list[str] = field(default_factory=list)

    def app(self, name: str) -> Callable[[Run], Mapping[str, Any]]:
        """The application, with a run as its argument."""
        return lambda run: self._ran(name, run)

    def _ran(self, name: str, run: Run) -> Mapping[str, Any]:
        remote = {"url": self.server.url, "token": self.server.token}
        settings = {**driver_settings(run, self.servers.endpoints), "connect": remote}
        env = {key: value for key, value in os.environ.items() if key not in {"JAVA_HOME", "SPARK_HOME"}}
        with private_settings(settings) as path:
            command = [sys.executable, str(Path(spark_main.__file__).resolve()), name, "--settings", str(path)]
            without_java = {**env, "PATH": str(Path(sys.executable).parent)}
            done = subprocess.run(command, env=without_java, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr[-4000:]
            if spark_main.needed_session(path):
                self.sessions.append(name)
            return spark_main.read_result(path)


@pytest.fixture
def drivers(
    servers: stack.Stack, mysql: MySqlServer, connect_worker: ConnectWorker, tmp_path: Path
) -> Iterator[Drivers]:
    assert mysql
    assert connect_worker
    server = start_spark_connect(tmp_path, servers.logs)
    yield Drivers(Servers(tmp_path, servers, cast("SparkSession", None)), server)
    server.stop()


@pytest.fixture
def pipe(drivers: Drivers) -> Iterator[Pipe]:
    made = Pipe(drivers.servers, "remote", list(TABLES), {"topic.creation.default.partitions": "1"})
    execute(made, *(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()))
    execute(
        made,
        f"INSERT INTO typed {NUMBERS.format(ROWS)}"
        " SELECT i, '2026-03-29 02:30:00.000001' + INTERVAL i MINUTE, JSON_OBJECT('b', i, 'a', i / 7), i / 7, 0 FROM s",
        "INSERT INTO small VALUES (1, 'é'), (2, '')",
        "INSERT INTO keyless VALUES ('twice', 1.50), ('twice', 1.50), ('once', NULL)",
    )
    made.follow()
    yield made
    made.end()


def execute(pipe: Pipe, *statements: str) -> None:
    with closing(pipe.connect()) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def many_changes(pipe: Pipe) -> None:
    execute(pipe, *(f"UPDATE typed SET n = n + {time}, weight = n / 3" for time in range(1, TIMES + 1)))


def test_a_recovery_on_a_spark_connect_server_ends_as_match_with_equal_rows(drivers: Drivers, pipe: Pipe) -> None:
    pipe.pause()
    execute(pipe, "UPDATE typed SET n = n + 1 WHERE id % 3 = 0", "DELETE FROM typed WHERE id % 100 = 7")
    pipe.purge()

    def recover(run: Run) -> Mapping[str, Any]:
        facts = drivers.app("recover")(run)
        many_changes(pipe)
        return facts

    apps = {"recover": recover, "verify": drivers.app("verify")}
    recovered(pipe, "full_snapshot", Measured(len(TABLES)), apps=apps)
    assert drivers.sessions == ["recover", "verify"]
    assert differing(pipe, TABLES) == 0

    execute(
        pipe,
        "DELETE FROM keyless WHERE name = 'twice' LIMIT 1",
        "INSERT INTO keyless VALUES ('new', 2)",
        "UPDATE typed SET doc = JSON_SET(doc, '$.c', 1e2) WHERE id < 50",
    )
    many_changes(pipe)
    assert not (why := pipe.drain()), why
    drivers.app("apply_changes")(pipe.run())
    assert drivers.sessions[2:] == ["apply_changes"]
    assert differing(pipe, TABLES) == 0
