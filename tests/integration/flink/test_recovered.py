"""A job of Flink CDC that writes Iceberg tables itself: its position is lost, and its tables are put right in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.errors import SchemaError, StaleHeadError, VerificationError
from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import connector as connector_steps
from airflow_cdc.flows import reset_offset, watermark
from airflow_cdc.flows.close import close
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.verify import verify
from stack.flink import FlinkCluster
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.integration.flink.recovered import Copied, Followed
from tests.integration.flink.support import WAIT_S
from tests.integration.recovering import writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GONE = "no longer available on the server"


@pytest.fixture
def database(mysql: MySqlServer, databases: Callable[..., str]) -> tuple[MySqlServer, str]:
    """A server, and a database with a table of 200 rows."""
    name = databases()
    mysql.execute(
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(40))",
        f"INSERT INTO {name}.t WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 200)"
        " SELECT n, CONCAT('v', n) FROM s",
    )
    return mysql, name


@pytest.fixture
def followed(
    database: tuple[MySqlServer, str],
    flink: FlinkCluster,
    spark: SparkSession,
    lake_properties: dict[str, str],
    tmp_path: Path,
) -> Iterator[Followed]:
    """The table, which the job has copied."""
    server, name = database
    one = Followed(
        server,
        flink,
        spark,
        Lake("lake", lake_properties),
        lake_properties,
        tmp_path,
        name,
        {"t": Copied("id INT, v STRING", "id")},
    )
    try:
        one.follow()
        yield one
    finally:
        flink.cancel(name)


def both(followed: Followed) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    ours = sorted(tuple(row.values()) for row in followed.sink_rows("t"))
    return sorted(tuple(row) for row in followed.execute("SELECT id, v FROM t")), ours


def lose(followed: Followed) -> None:
    """Rows change while the job is stopped, and the log is purged; the job, started again, fails."""
    followed.connector.stop(followed.database)
    followed.execute("DELETE FROM t WHERE id BETWEEN 10 AND 19", "UPDATE t SET v = 'gap' WHERE id = 5")
    followed.purge()
    followed.connector.resume(followed.database)
    assert GONE in followed.failure()


def until_read(followed: Followed) -> Run:
    """The steps up to the one that reads the tables."""
    run = replace(followed.base, run_id="recovery", options=RunOptions(approved=True))
    open_recovery(run, Decision.from_json(decide(run)))
    connector_steps.stop(run)
    watermark.fence_and_watermark(run)
    return run


def until_staged(followed: Followed) -> Run:
    """The steps up to the one that publishes."""
    run = until_read(followed)
    recover(run, followed.spark)
    return run


@pytest.mark.minutes
def test_a_lost_position_is_recovered_while_the_table_is_written(followed: Followed) -> None:
    lose(followed)
    with writing(
        followed.server,
        followed.database,
        "INSERT INTO t VALUES (1000 + {n}, 'live')",
        "UPDATE t SET v = 'u{n}' WHERE id = 50 + {n} % 50",
        "DELETE FROM t WHERE id = 1000 + {n} - 20",
    ):
        done = followed.recover("recovery")
    assert (done["decision"]["diagnosis"]["code"], done["verify"]["verdict"]) == ("GTID_PURGED", "MATCH")
    followed.execute("DELETE FROM t WHERE id = 1", "UPDATE t SET v = 'after' WHERE id = 2")
    followed.wait_read()

    def equal() -> bool | None:
        source, sink = both(followed)
        return True if source == sink else None

    wait_until(equal, timeout=WAIT_S, what="the sink to show the last changes", interval=1)


@pytest.mark.slow
def test_what_is_published_is_what_stood_in_the_table_or_all_that_was_read(followed: Followed) -> None:
    lose(followed)
    before = followed.versions("t")
    run = until_staged(followed)
    assert followed.versions("t") == before
    reset_offset.reset_offset(run)
    (published,) = set(followed.versions("t")) - set(before)
    assert sorted(tuple(row.values()) for row in followed.sink_rows("t", published)) == both(followed)[0]


@pytest.mark.slow
def test_a_commit_of_another_writer_meanwhile_is_not_overwritten(followed: Followed) -> None:
    lose(followed)
    run = until_staged(followed)
    followed.spark.sql(f"INSERT INTO lake.{followed.database}.t VALUES (9999, 'another')")
    offset = followed.connector.committed_offset(followed.database, followed.database)
    with pytest.raises(StaleHeadError, match="main moved"):
        reset_offset.reset_offset(run)
    assert (9999, "another") in both(followed)[1]
    assert followed.connector.committed_offset(followed.database, followed.database) == offset


@pytest.mark.slow
@pytest.mark.minutes
def test_a_row_that_is_wrong_in_the_sink_is_found_and_closes_nothing(followed: Followed) -> None:
    lose(followed)
    run = until_staged(followed)
    reset_offset.reset_offset(run)
    connector_steps.resume(run)
    assert followed.restored_from() == ""
    followed.spark.sql(f"DELETE FROM lake.{followed.database}.t WHERE id = 7")
    with pytest.raises(VerificationError, match="1 missing, 0 ghosts, 0 different"):
        verify(run, followed.spark)
    for step in (publish, close):
        with pytest.raises(VerificationError, match="not proven"):
            step(run)


@pytest.mark.slow
def test_a_column_that_cannot_hold_what_is_read_is_refused(followed: Followed) -> None:
    followed.connector.stop(followed.database)
    followed.execute("UPDATE t SET v = NULL", "ALTER TABLE t MODIFY v BIGINT, ADD more INT")
    followed.purge()
    run = until_read(followed)
    with pytest.raises(SchemaError, match="more is missing; v is string, not long"):
        recover(run, followed.spark)
