"""A MariaDB pipeline recovered whole: its log was purged, rows come, change and go meanwhile, and the mirror is equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stack
from airflow_cdc.sinks.iceberg.client import Lake
from tests.integration.mariadb.recovered import Followed, writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,  # its server comes from Debian's packages, which not every machine can fetch
    # kafka-python reads its own message schemas with a deprecated call
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]

ORDERS = ("id", "v", "total", "at", "day", "seen", "note", "raw", "share")
EVENTS = ("n", "t")
ROW = (
    "{0}, CONCAT('ü|', {0}), {0} + 0.25, TIMESTAMP'2026-01-02 03:04:05.000006' + INTERVAL {0} SECOND,"
    " DATE'2026-01-01' + INTERVAL {0} DAY, TIMESTAMP'2026-10-25 00:30:00.5' + INTERVAL {0} MINUTE,"
    " REPEAT('long', 10), X'00ff', {0} / 3e0"
)
PURGED = "Could not find GTID state requested by slave in any binlog files"


@pytest.fixture
def followed(
    running: stack.Stack,
    spark: SparkSession,
    lake_properties: dict[str, str],
    databases: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Followed]:
    server, broker, worker = running.mysql["mariadb"], running.kafka, running.connect
    assert broker is not None
    assert worker is not None
    name = databases(server, "r")
    lake = Lake("lake", lake_properties)
    made = Followed(server, spark, lake, broker.bootstrap, worker.url, tmp_path, name, ("orders", "events"))
    made.execute(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, v VARCHAR(40) CHARACTER SET utf8mb4, total DECIMAL(12,2),"
        " at DATETIME(6), day DATE, seen TIMESTAMP(3) NULL, note TEXT, raw VARBINARY(9), share DOUBLE)",
        "CREATE TABLE events (n INT, t VARCHAR(9))",
    )
    yield made
    worker.call("DELETE", f"/connectors/{name}")


def equal(followed: Followed) -> None:
    assert followed.differences("orders", ORDERS) == ([], [])
    assert followed.differences("events", EVENTS) == ([], [])


def test_a_pipeline_whose_log_was_purged_is_recovered_while_its_source_is_written(followed: Followed) -> None:
    followed.follow({})
    followed.execute(
        f"INSERT INTO orders SELECT {ROW.format('seq')} FROM seq_1_to_300",
        "INSERT INTO events SELECT seq % 50, CONCAT('e', seq % 7) FROM seq_1_to_500",
        "UPDATE orders SET v = 'changed' WHERE id <= 5",
    )
    first = followed.apply("apply-1")
    assert {table["dead_letters"] for table in first.values()} == {0}
    equal(followed)

    followed.connector.stop(followed.database)
    followed.execute(
        "DELETE FROM orders WHERE id BETWEEN 100 AND 149",
        "UPDATE orders SET total = -1, day = NULL WHERE id BETWEEN 150 AND 160",
        f"INSERT INTO orders SELECT {ROW.format('seq')} FROM seq_1001_to_1050",
        "DELETE FROM events WHERE n < 10",
        "INSERT INTO events VALUES (7, 'copied'), (7, 'copied'), (NULL, NULL)",
    )
    followed.purge()
    followed.connector.resume(followed.database)
    assert PURGED in followed.failure()

    row = ROW.format("({n} + 5000)")
    with writing(
        followed,
        f"INSERT INTO orders SELECT {row}",
        "UPDATE orders SET v = 'w{n}' WHERE id = 200 + {n} % 50",
        "DELETE FROM orders WHERE id = 5000 + {n} - 20",
        "INSERT INTO events VALUES ({n}, 'live'), ({n}, 'live')",
        "DELETE FROM events WHERE n = {n} - 30 AND t = 'live'",
    ):
        done = followed.recover("rec-1")
    assert done["decision"]["diagnosis"]["code"] == "GTID_PURGED"
    assert done["verify"]["verdict"] == "MATCH"
    followed.execute(
        "UPDATE orders SET total = total + 1 WHERE id < 50",
        "DELETE FROM events WHERE t = 'copied' LIMIT 1",
    )
    followed.apply("apply-2")
    equal(followed)
    assert followed.execute("SELECT COUNT(*) FROM events WHERE t = 'copied'") == [(1,)]
