"""A job of Flink CDC that writes Iceberg tables itself: its position is lost, and its tables are put right in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.sinks.iceberg.client import Lake
from stack.flink import FlinkCluster
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.integration.flink.recovered import Copied, Followed, writing
from tests.integration.flink.support import WAIT_S

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
) -> Followed:
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
    one.follow()
    return one


def both(followed: Followed) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    ours = sorted(tuple(row) for row in followed.sink_rows("t"))
    return sorted(tuple(row) for row in followed.execute("SELECT id, v FROM t")), ours


def test_a_lost_position_is_recovered_while_the_table_is_written(followed: Followed, flink: FlinkCluster) -> None:
    try:
        followed.connector.stop(followed.database)
        followed.execute("DELETE FROM t WHERE id BETWEEN 10 AND 19", "UPDATE t SET v = 'gap' WHERE id = 5")
        followed.purge()
        followed.connector.resume(followed.database)
        assert GONE in followed.failure()
        with writing(
            followed,
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
    finally:
        flink.cancel(followed.database)
