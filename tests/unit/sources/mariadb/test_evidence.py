"""What a diagnosis of a MariaDB source shows a person, so that he can look for himself: file, GTIDs, offset and state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.problem import Evidence
from airflow_cdc.sources.mariadb.facts import DomainFacts
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition, MariaDbState
from airflow_cdc.sources.mariadb.problems import PROBLEMS
from airflow_cdc.sources.mysql.facts import EventAtPosition, EventBoundary
from airflow_cdc.sources.mysql.position import BinlogPosition
from tests.diagnosing import case_of
from tests.unit.builders import CONNECTOR, SOURCE, connector_with, seen
from tests.unit.sources.mariadb.test_problems import DOMAINS, MARIADB, MARIADB_PIPELINE, OFFSET, observed

BY_FILE = {key: value for key, value in OFFSET.items() if key != "gtids"}
RESET = replace(
    MARIADB,
    binlog_files=SOURCE.binlog_files[:1],
    current=BinlogPosition("mysql-bin.000008", 900),
    domains=DomainFacts(MariaDbState.parse("0-1-3"), MariaDbPosition()),
)


def held(rank: int, offset: dict[str, Any], facts: Any = MARIADB, **connector: Any) -> Evidence:
    """What the row of this rank shows; {} if it does not hold."""
    row = next(row for row in PROBLEMS if row.rank == rank)
    return row.holds(case_of(observed(offset, facts, **connector))) or {}


@pytest.mark.parametrize("offset", [OFFSET, BY_FILE], ids=["by its GTIDs", "by file"])
def test_a_server_that_lost_its_log_shows_its_newest_file_and_what_it_lacks(offset: dict[str, Any]) -> None:
    told = held(31, offset, RESET)
    assert "mysql-bin.000009" in str(told)
    assert "mysql-bin.000008" in str(told)
    assert ("gtids unseen" in told) == ("gtids stored" in told) == ("gtids logged" in told) == ("gtids" in offset)


def test_a_newer_file_whose_transactions_are_all_here_or_of_another_server_is_no_lost_log() -> None:
    """A file's name says nothing where servers number their files by themselves."""
    assert held(31, {**OFFSET, "file": "mysql-bin.000099"}) == {}
    assert held(31, {**OFFSET, "file": "mysql-bin.000099", "gtids": "0-7-300,3-1-7"}) == {}
    assert held(31, {**OFFSET, "file": "mysql-bin.000099", "gtids": "0-1-300,3-1-7"})


def test_an_offset_that_would_skip_shows_how_many_events_and_the_offset() -> None:
    facts = replace(MARIADB, at_offset=EventAtPosition(EventBoundary.BOUNDARY, ("Gtid", "Query")))
    told = held(48, {**OFFSET, "event": 3}, facts)
    assert told["events that it would skip"].startswith("3, and 2 belong to the transaction at the position")
    assert "mysql-bin.000009" in told["stored offset"]
    assert any("PAUSED" in value for value in told.values())


def test_a_position_beside_a_streaming_connector_on_another_server_is_shown_with_what_is_unseen() -> None:
    def case(address: str, offset: dict[str, Any]) -> Any:
        streams = connector_with(CONNECTOR, MARIADB_PIPELINE, offset=offset)
        facts = replace(MARIADB, address=address or streams.address)
        return case_of(seen(pipeline=MARIADB_PIPELINE, source=facts, connector=streams))

    row = next(row for row in PROBLEMS if row.rank == 38)
    unseen = {**OFFSET, "gtids": "0-1-101,3-1-7"}
    assert "gtids unseen" in (row.holds(case("10.9.9.9:3306", unseen)) or {})
    assert row.holds(case("10.9.9.9:3306", OFFSET)) is None
    assert row.holds(case("", unseen)) is None


def test_what_is_purged_is_shown_and_nothing_of_it_as_none() -> None:
    told = held(30, {**OFFSET, "gtids": "0-1-80"})
    assert told["gtids purged"].startswith("0-1-50,3-1-5 ")
    assert told["gtids stored"].startswith("0-1-80 ")
    bare = replace(MARIADB, domains=replace(DOMAINS, logged=MariaDbState(), purged=MariaDbPosition()))
    assert held(37, OFFSET, bare)["gtids logged"].startswith("none ")
