"""A job with two sources of MySQL's log: what is done to one leaves the other as it is."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.flows.move_offset import last_before, move
from airflow_cdc.flows.run import Run
from airflow_cdc.sinks.iceberg.client import Lake
from stack.flink import FlinkCluster
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.integration.flink.recovered import Copied, Followed
from tests.integration.flink.support import QUICK, WAIT_S, pipeline_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

TABLES = ("t", "u")


@dataclass(frozen=True)
class Two:
    """A job that prints the tables `t` and `u`, each by a source of its own, and a run of the pipeline about each."""

    name: str
    mysql: MySqlServer
    flink: FlinkCluster
    runs: Mapping[str, Run]

    def insert(self, *numbers: int) -> None:
        self.mysql.execute(*(f"INSERT INTO {self.name}.{t} VALUES ({number})" for number in numbers for t in TABLES))

    def ids(self, table: str) -> list[int]:
        """The rows of a table that were printed, in the order of writing."""
        text = (self.flink.folder / "taskmanager.log").read_text(errors="replace")
        return [int(number) for number in re.findall(rf"{self.name}_{table}> \+I\[(\d+)", text)]

    def offset(self, table: str) -> dict[str, Any]:
        return dict(self.runs[table].clients.connector.committed_offset(self.name, self.name) or {})

    def start(self) -> None:
        self.runs["t"].clients.connector.resume(self.name)
        self.runs["t"].clients.connector.wait_running(self.name)

    def stop(self) -> None:
        self.runs["t"].clients.connector.stop(self.name)

    def wait_written(self, **ids: list[int]) -> None:
        wait_until(
            lambda: {table: self.ids(table) for table in ids} == ids or None,
            timeout=WAIT_S,
            what=f"{ids} to be written",
        )


@pytest.fixture
def two(mysql: MySqlServer, flink: FlinkCluster, databases: Callable[..., str], tmp_path: Path) -> Iterator[Two]:
    """The job has written row 0 of both."""
    name, plan = databases(), tmp_path / "plan.json"
    login, columns = mysql.debezium, "(id INT, PRIMARY KEY (id) NOT ENFORCED)"
    options = {
        "connector": "mysql-cdc",
        "hostname": mysql.host,
        "port": str(mysql.port),
        "username": login.user,
        "password": login.password,
        "database-name": name,
        "server-time-zone": "UTC",
        **QUICK,
    }

    def given(**more: str) -> str:
        return ", ".join(f"'{key}' = '{value}'" for key, value in more.items())

    for t in TABLES:
        mysql.execute(f"CREATE TABLE {name}.{t} (id INT PRIMARY KEY)", f"INSERT INTO {name}.{t} VALUES (0)")
    flink.sql(
        *(f"CREATE TABLE {t} {columns} WITH ({given(**options, **{'table-name': t})})" for t in TABLES),
        *(
            f"CREATE TABLE to_{t} {columns} WITH ('connector' = 'print', 'print-identifier' = '{name}_{t}')"
            for t in TABLES
        ),
        f"COMPILE PLAN 'file://{plan}' FOR STATEMENT SET BEGIN"
        f" {'; '.join(f'INSERT INTO to_{t} SELECT * FROM {t}' for t in TABLES)}; END",
    )
    runs = {t: pipeline_run(name, mysql, flink, plan, table=t, reads=f"{name}.{t}") for t in TABLES}
    one = Two(name, mysql, flink, runs)
    try:
        one.start()
        one.wait_written(t=[0], u=[0])
        wait_until(lambda: (one.offset("t") and one.offset("u")) or None, timeout=WAIT_S, what="offsets to be stored")
        yield one
    finally:
        flink.cancel(name)


def test_one_is_moved_and_moved_back_and_the_other_reads_on_where_it_was(two: Two) -> None:
    two.insert(1)
    two.wait_written(t=[0, 1], u=[0, 1])
    two.stop()
    before = {table: two.offset(table) for table in TABLES}
    two.insert(2, 3)
    value = {**before["t"], "gtids": str(two.mysql.execute("SELECT @@GLOBAL.gtid_executed")[0][0]), "row": "0"}
    value = {key: one for key, one in {**value, "event": "0"}.items() if key not in ("transaction_id", "ts_sec")}
    two.insert(4)
    move(two.runs["t"], value, who="a person", shown=before["t"])
    assert (two.offset("t"), two.offset("u")) == (value, before["u"])
    with pytest.raises(ConnectorError, match="was not started with it yet"):
        move(two.runs["u"], value, who="a person", shown=before["u"])
    two.start()
    two.wait_written(t=[0, 1, 4], u=[0, 1, 2, 3, 4])

    two.stop()
    move(two.runs["t"], last_before(two.runs["t"]), who="a person", shown=two.offset("t"))
    there = two.offset("u")
    two.insert(5)
    assert (two.offset("t"), two.offset("u")) == (before["t"], there)
    two.start()
    two.wait_written(t=[0, 1, 4, 2, 3, 4, 5], u=[0, 1, 2, 3, 4, 5])


@pytest.fixture
def job(
    mysql: MySqlServer, flink: FlinkCluster, spark: SparkSession, lake_properties: dict[str, str], tmp_path: Path
) -> Iterator[Followed]:
    """A job that fills an Iceberg table from `t` and prints `u`, three rows each; the pipeline is about `t`."""
    name, copied = f"two_{uuid.uuid4().hex[:8]}", Copied("id INT, v STRING", "id")
    mysql.execute(
        f"CREATE DATABASE {name}",
        *(f"CREATE TABLE {name}.{t} (id INT PRIMARY KEY, v VARCHAR(40))" for t in TABLES),
        *(f"INSERT INTO {name}.{t} VALUES (1, 'a'), (2, 'a'), (3, 'a')" for t in TABLES),
    )
    lake = Lake("lake", lake_properties)
    one = Followed(mysql, flink, spark, lake, lake_properties, tmp_path, name, {"t": copied}, printed={"u": copied})
    try:
        one.follow()
        yield one
    finally:
        flink.cancel(name)
        mysql.execute(f"DROP DATABASE {name}")


@pytest.mark.minutes
def test_one_that_is_lost_is_recovered_and_the_other_goes_on_without_loss_or_repeat(job: Followed) -> None:
    """The position of `t` is put back to what the server has purged since; `u` had read that."""
    early = dict(job.connector.committed_offset(job.database, ""))
    job.execute("INSERT INTO u VALUES (4, 'b')", "DELETE FROM t WHERE id = 1")
    job.wait_read()
    wait_until(lambda: len(job.lines("u")) == 4 or None, timeout=WAIT_S, what="row 4 of u to be printed")
    job.connector.stop(job.database)
    job.purge()
    job.connector.offset_store(job.database, {"server": job.database}).write(early)
    job.execute("UPDATE t SET v = 'gap' WHERE id = 2", "INSERT INTO u VALUES (5, 'gap')")
    left = len(job.skipped())
    done = job.recover("recovery")
    assert (done["decision"]["diagnosis"]["code"], done["verify"]["verdict"]) == ("GTID_PURGED", "MATCH")
    assert job.restored_from()
    assert len(job.skipped()) - left > 1  # of t: its source, and what fills its table
    job.execute("INSERT INTO u VALUES (6, 'after')", "INSERT INTO t VALUES (6, 'after')")
    job.wait_read()
    wait_until(lambda: len(job.lines("u")) >= 6 or None, timeout=WAIT_S, what="row 6 of u to be printed")
    rows = ((1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "gap"), (6, "after"))
    assert sorted(job.lines("u")) == [f"+I[{number}, {value}]" for number, value in rows]
    assert sorted((row["id"], row["v"]) for row in job.sink_rows("t")) == [(2, "gap"), (3, "a"), (6, "after")]
