"""Offsets in the table of Debezium's JdbcOffsetBackingStore, on SQLite; on MySQL and PostgreSQL: tests/integration."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from airflow_cdc.connectors.debezium_engine.stores.table import TableOffsets
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.core.errors import ConnectorError

NAME = "debezium_offset_storage"
MADE = (
    f"CREATE TABLE {NAME} (id VARCHAR(36) NOT NULL, offset_key VARCHAR(1255), offset_val VARCHAR(1255),"
    " record_insert_ts TIMESTAMP NOT NULL, record_insert_seq INTEGER NOT NULL)"
)
KEY, OTHER = '["kafka",{"server":"shop"}]', '["kafka",{"server":"other"}]'
OLD, NEW = '{"pos":4}', '{"pos":900}'


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "offsets.db")) as connection:
        yield connection


@pytest.fixture
def offsets(tmp_path: Path, database: sqlite3.Connection) -> TableOffsets:
    return TableOffsets(SqlEndpoint("sqlite", str(tmp_path / "offsets.db")), NAME)


def put(database: sqlite3.Connection, *rows: tuple[str, str, str, str, int]) -> None:
    database.execute(MADE)
    database.executemany(f"INSERT INTO {NAME} VALUES (?, ?, ?, ?, ?)", rows)
    database.commit()


def kept(database: sqlite3.Connection) -> list[tuple[str, str | None]]:
    found = database.execute(f"SELECT offset_key, offset_val FROM {NAME} ORDER BY record_insert_ts")
    return [tuple(row) for row in found]


def test_where_the_engine_has_not_made_its_table_there_are_no_offsets(offsets: TableOffsets) -> None:
    assert offsets.read() == {}


def test_of_several_rows_of_a_key_the_newest_counts_as_it_does_for_the_engine(
    database: sqlite3.Connection, offsets: TableOffsets
) -> None:
    """Of one moment the one with the higher number."""
    put(
        database,
        ("1", KEY, NEW, "2026-01-01 10:00:00", 9),
        ("2", KEY, OLD, "2026-01-01 10:00:01", 2),
        ("3", KEY, '{"pos":1}', "2026-01-01 10:00:01", 1),
        ("4", OTHER, NEW, "2026-01-01 09:00:00", 1),
    )
    assert offsets.read() == {KEY: OLD, OTHER: NEW}


def test_a_write_sets_every_row_of_its_key_and_no_other(database: sqlite3.Connection, offsets: TableOffsets) -> None:
    put(
        database,
        ("1", KEY, OLD, "2026-01-01 10:00:00", 1),
        ("2", KEY, OLD, "2026-01-01 10:00:01", 2),
        ("3", OTHER, OLD, "2026-01-01 10:00:02", 3),
    )
    offsets.replace(KEY, OLD, NEW)
    assert kept(database) == [(KEY, NEW), (KEY, NEW), (OTHER, OLD)]


def test_an_offset_that_is_taken_away_leaves_no_row_behind(database: sqlite3.Connection, offsets: TableOffsets) -> None:
    put(database, ("1", KEY, OLD, "2026-01-01 10:00:00", 1), ("2", OTHER, OLD, "2026-01-01 10:00:01", 2))
    offsets.replace(KEY, OLD, None)
    assert kept(database) == [(OTHER, OLD)]


def test_a_first_offset_is_a_row_that_the_engine_reads(database: sqlite3.Connection, offsets: TableOffsets) -> None:
    put(database, ("1", OTHER, OLD, "2026-01-01 10:00:00", 1))
    offsets.replace(KEY, None, NEW)
    assert offsets.read() == {KEY: NEW, OTHER: OLD}
    (row,) = database.execute(f"SELECT id, record_insert_ts FROM {NAME} WHERE offset_key = ?", (KEY,))
    assert all(row)


@pytest.mark.parametrize("before", [None, NEW])
def test_what_somebody_else_wrote_meanwhile_stays(
    database: sqlite3.Connection, offsets: TableOffsets, before: str | None
) -> None:
    put(database, ("1", KEY, OLD, "2026-01-01 10:00:00", 1))
    with pytest.raises(ConnectorError, match="meanwhile"):
        offsets.replace(KEY, before, NEW)
    assert kept(database) == [(KEY, OLD)]


@pytest.mark.parametrize("name", ["a b", "a;b", "a.b.c", ""])
def test_a_name_that_would_be_more_than_a_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConnectorError, match="no plain name of a table"):
        TableOffsets(SqlEndpoint("sqlite", str(tmp_path / "o.db")), name).read()


@pytest.mark.parametrize(("driver", "refused"), [("postgresql+psycopg", True), ("sqlite", False)])
def test_a_name_with_which_the_engine_starts_only_once_on_postgresql_is_refused(
    tmp_path: Path, driver: str, refused: bool
) -> None:
    """Seen on Debezium 3.5.0: it creates the table without quotes, and does not find it again."""
    table = TableOffsets(SqlEndpoint(driver, str(tmp_path / "o.db")), "Offsets")
    if refused:
        with pytest.raises(ConnectorError, match="does not start a second time on PostgreSQL"):
            _ = table._table
    else:
        assert table.read() == {}
