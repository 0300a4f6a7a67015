"""A slot that was lost under a JDBC sink into MySQL: the copies are put right through the topics, on real servers (INV 23, 47).

The copies are compared at the end by each database's own client, row by row, with no code of the product's.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.reports.store import ReportStore
from airflow_cdc.spark_apps.recover import recover
from tests.integration.jdbc import losing
from tests.integration.jdbc.fed import run_of
from tests.integration.jdbc.fed_postgres import ORDER, ORDERS, FromPostgres
from tests.integration.jdbc.losing import TABLES, WORDS, plain
from tests.integration.jdbc.test_recovery import begun, ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")


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
    return sorted(map(plain, ours)), sorted(map(plain, theirs))


@pytest.fixture
def lost(from_postgres: FromPostgres) -> FromPostgres:
    """Two tables and their copies. The slot was dropped, with rows inserted, changed and deleted in the gap."""
    fed = from_postgres
    losing.follow(fed, ORDERS, WORDS, ORDER.format(1, 60))
    losing.feed(fed)
    losing.stream(fed)
    losing.wait_streamed(fed)
    ours, theirs = rows(fed)
    assert ours == theirs
    losing.lose(fed, ORDER.format(101, 105))
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
    losing.wait_equal(partial(rows, lost))
