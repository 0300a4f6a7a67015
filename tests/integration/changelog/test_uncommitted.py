"""Files that Iceberg's sink has written and not committed: its group is at the topic's end, and the table lacks the rows (INV 48)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlparse

import pytest

from airflow_cdc.core.errors import DeadlineError
from airflow_cdc.flows.feeder import wait_filled
from airflow_cdc.flows.run import Run
from stack.process import wait_until
from tests.integration.changelog.logged import Logged, run_of

# kafka-python reads its own message schemas with a deprecated call
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]


def test_inv_48_a_group_at_the_topics_end_proves_nothing_while_the_catalog_takes_no_commit(
    logged: Logged, lake_properties: dict[str, str], tmp_path: Path
) -> None:
    logged.create(
        "CREATE TABLE orders (id bigint PRIMARY KEY, v varchar(20))", "INSERT INTO orders VALUES (1, 'a'), (2, 'b')"
    )
    logged.follow()
    logged.feed()
    logged.wait_left("orders", ("id",), 2)
    run = run_of(logged, tmp_path, ("orders",))
    topic = logged.topic("orders")
    wait_filled(run, run.clients.transport.end_offsets([topic]))
    with closing(sqlite3.connect(urlparse(lake_properties["uri"]).path, timeout=60)) as catalog:
        catalog.execute("BEGIN IMMEDIATE")
        logged.execute("DELETE FROM orders WHERE id = 1")
        wait_until(
            lambda: is_consumed(logged, run, topic) or None, timeout=60, what="the group to be at the topic's end"
        )
        ends = run.clients.transport.end_offsets([topic])
        with pytest.raises(DeadlineError, match="1 files not committed"):
            wait_filled(run, ends, standstill=3)
        assert [row["id"] for row in logged.left("orders", ("id",))] == [1, 2]
        catalog.rollback()
    wait_filled(run, ends)
    assert [row["id"] for row in logged.left("orders", ("id",))] == [2]


def is_consumed(logged: Logged, run: Run, topic: str) -> bool:
    """Whether the group is past the delete: 4 records, with its tombstone."""
    transport = run.clients.transport
    if transport.groups is None:
        raise AssertionError("Kafka has groups")
    at = transport.groups.committed(f"connect-{logged.sink}").get(topic, {}).get(0, 0)
    return at >= 4 and transport.end_offsets([topic])[topic][0] == at
