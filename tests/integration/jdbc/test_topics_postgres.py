"""A slot that was lost where nobody knows who reads the topics: they are put right from PostgreSQL, on real servers (INV 23, 47).

The consumer is the test's own (tests/systems/debezium_topics.py): it knows nothing but the topics.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.spark_apps.recover import recover
from stack.process import wait_until
from tests.integration.jdbc import losing
from tests.integration.jdbc.fed import SECONDS, run_of
from tests.integration.jdbc.fed_postgres import ORDER, ORDERS, FromPostgres
from tests.integration.jdbc.losing import TABLES, WORDS
from tests.integration.jdbc.test_recovery import begun, ended
from tests.systems.debezium_topics import Rebuilt, consumed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")


def rebuilt(fed: FromPostgres, table: str) -> Rebuilt:
    return consumed(fed.servers.bootstrap, fed.topic(table))


def same(fed: FromPostgres, table: str) -> bool:
    """Whether the topic alone says what the table has."""
    source = [tuple(map(meant, row)) for row in fed.execute(f"SELECT * FROM {table}")]
    rows = [tuple(row.values()) for row in rebuilt(fed, table).rows.values()]
    return sorted(map(repr, source)) == sorted(map(repr, rows))


def meant(value: Any) -> Any:
    """A value of psycopg's as the consumer has it."""
    if isinstance(value, dt.datetime) and value.tzinfo:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    if isinstance(value, bool):
        return int(value)
    return str(value) if isinstance(value, uuid.UUID) else value


@pytest.fixture
def lost(from_postgres: FromPostgres) -> FromPostgres:
    """Two tables whose slot was dropped, with rows inserted, changed and deleted in the gap."""
    fed = from_postgres
    losing.follow(fed, ORDERS, WORDS, ORDER.format(1, 60))
    losing.stream(fed)
    wait_until(lambda: all(same(fed, one) for one in TABLES) or None, timeout=SECONDS, what="the topics to say it all")
    losing.lose(fed, ORDER.format(101, 105))
    assert not any(same(fed, table) for table in TABLES)
    return fed


@pytest.mark.slow
def test_inv_47_topics_of_postgresql_are_put_right_for_consumers_that_nobody_knows(
    lost: FromPostgres, spark: SparkSession, tmp_path: Path
) -> None:
    run = run_of(lost, tmp_path, TABLES, consumers=True, approval="never", max_deletes="100%")
    decision = begun(run, spark)
    assert not decision["plan"]["refused"], decision["plan"]["reason"]
    before = Counter(rebuilt(lost, "words").operations)
    assert recover(run, spark)["corrections"] == {
        "public.orders": {"rows": 10, "deletes": 10},
        "public.words": {"rows": 1, "deletes": 3},
    }
    assert all(same(lost, table) for table in TABLES)
    assert Counter(rebuilt(lost, "words").operations) - before == {"d": 3, "tombstone": 3, "r": 1}
    assert (decision["diagnosis"]["code"], ended(run, spark)) == ("SLOT_MISSING", "MATCH")
    lost.execute("UPDATE orders SET v = 'after' WHERE id = 30")
    wait_until(lambda: all(same(lost, one) for one in TABLES) or None, timeout=SECONDS, what="what came afterwards")
