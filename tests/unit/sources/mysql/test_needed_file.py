"""Which file a position still needs: by GTID none that was read, also where the connector names it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_cdc.core.forecast import Margin, Retention
from airflow_cdc.sources.mysql.facts import EventAtPosition, EventBoundary, MySqlFacts
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition
from tests.unit.builders import SOURCE, UUID

FACTS: MySqlFacts = replace(SOURCE, retention=Retention(86_400, now=100_000.0, written_until=50_000.0))


def at(file: str, read: int | None) -> MySqlPosition:
    return MySqlPosition(file, 500, GtidSet.parse(f"{UUID}:1-{read}") if read else None)


@pytest.mark.parametrize(
    ("position", "file"),
    [
        (at("mysql-bin.000009", 100), "mysql-bin.000010"),  # everything is read
        (at("mysql-bin.000003", 100), "mysql-bin.000010"),
        (at("mysql-bin.000009", 80), "mysql-bin.000009"),
        (at("mysql-bin.000003", 80), "mysql-bin.000008"),  # gone, and nothing in it is missing
        (at("mysql-bin.000003", 40), "mysql-bin.000003"),  # lost
        (at("mysql-bin.000003", None), "mysql-bin.000003"),
        (None, ""),
    ],
)
def test_the_file_at_which_a_connector_reads_on(position: MySqlPosition | None, file: str) -> None:
    assert FACTS.needed_file(position) == file


@pytest.mark.parametrize("file", ["mysql-bin.000009", "mysql-bin.000003"])
def test_what_was_read_is_at_no_risk(file: str) -> None:
    purge = FACTS.purge_forecast(at(file, 100))
    assert purge is not None
    assert purge.in_newest_file
    assert FACTS.margin(at(file, 100)) == Margin(3000, 3000)
    assert FACTS.margin(at(file, 80)) == Margin(1500 if file.endswith("9") else 0, 3000)


@pytest.mark.parametrize(
    ("events", "first_read", "read"),
    [
        (("Xid",), True, True),
        (("Xid", "Rotate"), True, True),
        (("Query", "Stop"), True, True),
        (("Xid", "Gtid", "Query"), True, False),
        (("Xid",), False, False),
    ],
)
def test_an_event_that_was_read_already_is_not_more_to_read(
    events: tuple[str, ...], *, first_read: bool, read: bool
) -> None:
    assert EventAtPosition(EventBoundary.BOUNDARY, events, first_read=first_read).read_to_the_end is read
