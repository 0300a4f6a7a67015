"""What Hudi does with rows that a mirror must not get wrong: statements that succeed and do something else.

Each test states what Hudi does, not what one would wish: the day one fails, Hudi has changed, and docs/systems/hudi.md
with it. What a sink may rest on is tested here, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stack.hudi import HudiSpark
from tests.integration.hudi.tables import COLUMNS, HudiTable, create

pytestmark = pytest.mark.slow

KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])
THREE = "(1, 'a', 10), (2, 'b', 10), (3, 'c', 10)"
DELETED = "_hoodie_is_deleted"


@pytest.fixture
def table(hudi: HudiSpark, hudi_folder: Path, kind: str) -> HudiTable:
    """Three rows, all at position 10."""
    made = create(hudi, hudi_folder, kind)
    hudi.sql(f"INSERT INTO {made.name} VALUES {THREE}")
    return made


@contextmanager
def upserts(spark: HudiSpark) -> Iterator[None]:
    """INSERT INTO replaces a row of the same key, if its position is not older."""
    spark.sql("SET hoodie.spark.sql.insert.into.operation = upsert")
    yield
    spark.sql("RESET hoodie.spark.sql.insert.into.operation")


@KINDS
def test_merge_not_matched_by_source_deletes_nothing_and_says_nothing(table: HudiTable) -> None:
    table.spark.sql(
        f"MERGE INTO {table.name} t USING (SELECT 1L AS id, 'A' AS a, 20L AS pos) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert table.rows() == {1: ("A", 20), 2: ("b", 10), 3: ("c", 10)}


@KINDS
def test_merge_with_delete_and_update_updates_the_row_that_it_should_delete(table: HudiTable) -> None:
    table.spark.sql(
        f"MERGE INTO {table.name} t USING (SELECT 1L AS id, 'X' AS a, 20L AS pos, true AS del "
        "UNION ALL SELECT 2L, 'Y', 20L, false) s ON t.id = s.id "
        "WHEN MATCHED AND s.del THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.a, pos = s.pos"
    )
    assert table.rows() == {1: ("X", 20), 2: ("Y", 20), 3: ("c", 10)}


@KINDS
def test_an_older_insert_after_a_delete_brings_a_row_back(table: HudiTable, kind: str) -> None:
    """Merge on read brings back the row that was deleted, not the one that was inserted."""
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 3")
    assert 3 not in table.rows()
    with upserts(table.spark):
        table.spark.sql(f"INSERT INTO {table.name} VALUES (3, 'older', 5)")
    assert table.rows()[3] == {"cow": ("older", 5), "mor": ("c", 10)}[kind]


@KINDS
def test_an_older_version_does_not_replace_a_newer_one_and_an_equal_one_does(table: HudiTable) -> None:
    with upserts(table.spark):
        table.spark.sql(f"INSERT INTO {table.name} VALUES (1, 'older', 5), (2, 'equal', 10), (3, 'newer', 11)")
    assert table.rows() == {1: ("a", 10), 2: ("equal", 10), 3: ("newer", 11)}


@KINDS
def test_a_plain_insert_makes_a_second_row_of_one_key(table: HudiTable) -> None:
    table.spark.sql(f"INSERT INTO {table.name} VALUES (1, 'again', 20)")
    with pytest.raises(AssertionError, match="again"):
        table.rows()


@KINDS
def test_the_column_of_deletes_deletes_and_is_ordered_by_position(
    hudi: HudiSpark, hudi_folder: Path, kind: str
) -> None:
    table = create(hudi, hudi_folder, kind, f"{COLUMNS}, {DELETED} BOOLEAN")
    with upserts(hudi):
        hudi.sql(f"INSERT INTO {table.name} VALUES (1, 'a', 10, false), (2, 'b', 10, false), (3, 'c', 10, false)")
        hudi.sql(f"INSERT INTO {table.name} VALUES (1, 'x', 20, true), (2, 'x', 5, true)")
    assert table.rows() == {2: ("b", 10), 3: ("c", 10)}


@KINDS
def test_delete_and_update_statements_do_what_they_say(table: HudiTable) -> None:
    table.spark.sql(f"DELETE FROM {table.name} WHERE id IN (SELECT 2L)")
    table.spark.sql(f"UPDATE {table.name} SET a = 'u' WHERE id = 1")
    assert table.rows() == {1: ("u", 10), 3: ("c", 10)}


@KINDS
def test_a_stamp_leaves_the_active_timeline_with_its_commit(hudi: HudiSpark, hudi_folder: Path, kind: str) -> None:
    """Commits are archived by their number: a stamp has to be carried forward by each later commit."""
    keep = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "1"}
    table = create(hudi, hudi_folder, kind, properties=keep)
    table.stamped("SELECT 1L AS id, 'a' AS a, 1L AS pos", "upsert", "W1", keep)
    assert table.stamps() == ["W1"]
    for number in range(2, 12):
        table.write(f"SELECT 1L AS id, 'u' AS a, {number}L AS pos", "upsert", keep)
    assert table.stamps() == []
    assert table.rows() == {1: ("u", 11)}
