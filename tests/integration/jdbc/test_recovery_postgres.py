"""A slot that was lost under a JDBC sink into MySQL: the copies are put right through the topics, on real servers (INV 23, 47).

The copies are compared at the end by each database's own client, row by row, with no code of the product's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.reports.store import ReportStore
from airflow_cdc.spark_apps.recover import recover
from stack.process import wait_until
from tests.integration.jdbc.fed import SECONDS, run_of
from tests.integration.jdbc.fed_postgres import FromPostgres
from tests.integration.jdbc.test_recovery import begun, ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

TABLES = ("orders", "words")
ORDERS = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, v varchar(40), total numeric(12,2), at timestamp, day date, seen timestamptz,"
    " ok boolean, raw bytea, padded char(5), mark uuid)"
)
WORDS = "CREATE TABLE words (lang varchar(20), n int, t text, PRIMARY KEY (lang, n))"
ORDER = (
    "INSERT INTO orders SELECT i, 'ü|' || i, i + 0.25, TIMESTAMP '2026-01-02 03:04:05.000006' + i * INTERVAL '1 s', DATE '2026-01-02',"
    " TIMESTAMPTZ '2026-03-29 02:30:00.5+02', i % 2 = 0, '\\x00ff'::bytea, 'p' || i % 9, md5(i::text)::uuid"
    " FROM generate_series({}, {}) i"
)


def rows(fed: FromPostgres) -> tuple[list[Any], list[Any]]:
    """All rows of both tables, of source and copy, as text."""
    ours = [
        *fed.execute(
            "SELECT 'o', id, v, total, to_char(at, 'YYYY-MM-DD HH24:MI:SS.US'), day, to_char(seen, 'YYYY-MM-DD HH24:MI:SS.US'), ok::int,"
            " encode(raw, 'hex'), rtrim(padded), mark FROM orders"
        ),
        *fed.execute("SELECT 'w', lang, n, t FROM words"),
    ]
    theirs = [
        *fed.target(
            "SELECT 'o', id, v, total, DATE_FORMAT(at, '%Y-%m-%d %H:%i:%s.%f'), day, DATE_FORMAT(seen, '%Y-%m-%d %H:%i:%s.%f'), ok + 0,"
            " LOWER(HEX(raw)), RTRIM(padded), mark FROM orders"
        ),
        *fed.target("SELECT 'w', lang, n, t FROM words"),
    ]
    return sorted(map(_plain, ours)), sorted(map(_plain, theirs))


def _plain(row: Any) -> tuple[str, ...]:
    return tuple(str(value.decode() if isinstance(value, bytes) else value) for value in row)


@pytest.fixture
def lost(from_postgres: FromPostgres) -> FromPostgres:
    """Two tables and their copies. The slot was dropped, with rows inserted, changed and deleted in the gap."""
    fed = from_postgres
    fed.create(ORDERS, WORDS, ORDER.format(1, 60))
    fed.execute("INSERT INTO words SELECT 'de', i, 'w' || i FROM generate_series(1, 20) i")
    fed.follow({"topic.creation.default.partitions": "4", "topic.creation.default.replication.factor": "1"})
    fed.feed()
    fed.wait_target("SELECT count(*) FROM orders", [(60,)])
    fed.wait_target("SELECT count(*) FROM words", [(20,)])
    fed.execute("UPDATE orders SET v = 'streamed' WHERE id = 1")
    fed.execute("UPDATE words SET t = 'streamed' WHERE n = 1")
    fed.wait_target("SELECT v FROM orders WHERE id = 1", [("streamed",)])
    fed.wait_target("SELECT t FROM words WHERE n = 1", [("streamed",)])
    ours, theirs = rows(fed)
    assert ours == theirs
    fed.stop_source()
    fed.purge()
    fed.execute(
        "DELETE FROM orders WHERE id BETWEEN 10 AND 19",
        "UPDATE orders SET total = -1, day = NULL WHERE id BETWEEN 20 AND 24",
        ORDER.format(101, 105),
        "DELETE FROM words WHERE n < 4",
        "INSERT INTO words VALUES ('en', 1, '😀')",
    )
    fed.failure()
    return fed


@pytest.mark.slow
def test_inv_47_copies_in_mysql_are_put_right_through_the_topics_of_postgresql(
    lost: FromPostgres, spark: SparkSession, tmp_path: Path
) -> None:
    run = run_of(lost, tmp_path, TABLES, approval="never", max_deletes="100%")
    decision = begun(run, spark)
    assert not decision["plan"]["refused"], decision["plan"]["reason"]
    assert recover(run, spark)["corrections"] == {
        "public.orders": {"rows": 10, "deletes": 10},
        "public.words": {"rows": 1, "deletes": 3},
    }
    assert (decision["diagnosis"]["code"], ended(run, spark)) == ("SLOT_MISSING", "MATCH")
    report = ReportStore(run.report_dir).report(run.pipeline.name, run.run_id)
    assert report is not None
    losses = {table.table: {one.column: one.reason for one in table.columns_not_compared} for table in report.tables}
    assert losses == {
        "public.orders": {"padded": "character(5) is longtext in the sink: blanks fill it up"},
        "public.words": {},
    }

    def equal() -> bool | None:
        ours, theirs = rows(lost)
        return True if ours == theirs else None

    wait_until(equal, timeout=SECONDS, what="source and copies to be equal")
