"""The sink's rows of a small table in memory: the same leaves as an engine's, and nothing that can't be read exactly."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.leaves import HashLeaves, IntegerLeaves, leaf_of
from airflow_cdc.spark_apps.canonical.arrow import key_texts, row_hashes
from airflow_cdc.spark_apps.compare import few
from tests.unit.tables import column, table

KEYED = table(column("id", "bigint", nullable=False), column("note", "varchar(9)"), key=("id",))
KEYLESS = table(column("note", "varchar(9)"))
WITH_JSON = table(column("id", "bigint", nullable=False), column("doc", "json"), key=("id",))
ROWS = pa.table({"id": pa.array([1, 2, 15, 27], pa.int64()), "note": ["a", None, "b", "b"]})
NOTES = pa.table({"note": ["a", "b", "b", None]})


@pytest.mark.parametrize("scheme", [IntegerLeaves("id", 10), HashLeaves(3)])
def test_each_row_is_in_the_leaf_of_its_key(scheme: Any) -> None:
    leaves = few.leaves(KEYED, scheme, lambda: ROWS)
    assert leaves is not None
    expected = [leaf_of(KEYED, scheme, text) for text in key_texts(KEYED, ROWS)]
    assert {leaf: made.n for leaf, made in leaves.items()} == {leaf: expected.count(leaf) for leaf in expected}


def test_a_changed_value_changes_its_leaf_alone() -> None:
    scheme = IntegerLeaves("id", 10)
    before = few.leaves(KEYED, scheme, lambda: ROWS)
    changed = ROWS.set_column(1, "note", pa.array(["a", "x", "b", "b"]))
    after = few.leaves(KEYED, scheme, lambda: changed)
    assert before is not None
    assert after is not None
    assert [leaf for leaf in before if before[leaf] != after[leaf]] == [0]


def test_rows_without_a_key_are_in_the_leaf_of_their_hash() -> None:
    leaves = few.leaves(KEYLESS, HashLeaves(3), lambda: NOTES)
    assert leaves is not None
    expected = [leaf_of(KEYLESS, HashLeaves(3), h) for h in row_hashes(KEYLESS, NOTES)]
    assert {leaf: made.n for leaf, made in leaves.items()} == {leaf: expected.count(leaf) for leaf in expected}


def test_the_rows_under_some_keys_are_looked_up_and_no_others() -> None:
    found = few.sink_images(KEYED, ["2", "27", "99"], lambda: ROWS)
    assert found is not None
    assert {key: len(rows) for key, rows in found.items()} == {"2": 1, "27": 1}
    of_one, of_other = found["2"][0], found["27"][0]
    assert of_one != of_other


def test_of_a_table_without_a_key_every_copy_of_a_row_is_found() -> None:
    texts = row_hashes(KEYLESS, NOTES)
    found = few.sink_images(KEYLESS, [texts[1]], lambda: NOTES)
    assert found is not None
    assert {key: len(rows) for key, rows in found.items()} == {texts[1]: 2}


# ---- what is left to Spark ------------------------------------------------------------------------------------------------------


def test_many_rows_are_left_to_spark() -> None:
    assert few.leaves(KEYED, HashLeaves(3), lambda: None) is None
    assert few.sink_images(KEYED, ["1"], lambda: None) is None


@pytest.mark.parametrize("error", few.UNREADABLE, ids=lambda kind: kind.__name__)
def test_rows_that_cannot_be_read_in_memory_are_left_to_spark_which_says_why(error: type[Exception]) -> None:
    def read() -> pa.Table:
        raise error("a value")

    assert few.leaves(KEYED, HashLeaves(3), read) is None


def test_an_error_of_the_product_is_not_hidden_as_work_for_spark() -> None:
    def read() -> pa.Table:
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError):
        few.leaves(KEYED, HashLeaves(3), read)


def nothing_is_read() -> pa.Table:
    raise AssertionError("rows were read")


def test_a_key_whose_values_in_memory_are_not_those_of_the_sink_is_left_to_spark_unread() -> None:
    by_document = Table("shop", "t", WITH_JSON.columns, ("doc",))
    assert few.leaves(by_document, HashLeaves(3), nothing_is_read) is None


# ---- how many rows are few ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tables", "most"),
    [
        ([], few.FEW_IN_ALL),
        ([few.FEW_IN_ALL], few.FEW_IN_ALL),
        ([few.FEW_IN_ALL, 1], few.FEW_ROWS),
        ([few.FEW_ROWS] * 50, few.FEW_IN_ALL),
        ([few.FEW_ROWS] * 51, few.FEW_ROWS),
    ],
)
def test_a_driver_needs_no_session_if_all_its_tables_are_few_together(tables: list[int], most: int) -> None:
    assert few.most_rows(tables) == most


def test_what_was_read_is_counted_so_that_counts_alone_read_nothing_again() -> None:
    asked: list[int] = []

    def read(most: int) -> pa.Table | None:
        asked.append(most)
        return ROWS

    counting = few.Counting(read, most_rows=7)
    assert counting() is ROWS
    assert counting.counted is not None
    assert (counting.counted.rows, counting.counted.nulls) == (4, {"id": 0, "note": 1})
    assert asked == [7]


def test_counts_of_an_earlier_look_are_not_those_of_rows_that_have_become_many() -> None:
    many = few.Counting(lambda _most: None, counted=few.Counted.of(ROWS))
    assert many() is None
    assert many.counted is None


def test_columns_outside_the_hash_are_compared_by_key_and_by_copy() -> None:
    """No engine hashes a document as another does."""
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "doc": ["{}", '{"a": 1}']})
    other = pa.table({"id": pa.array([1, 2], pa.int64()), "doc": ["{}", '{"a": 2}']})
    assert few.differing_outside(WITH_JSON, rows, lambda: rows) == frozenset()
    assert few.differing_outside(WITH_JSON, rows, lambda: other) == frozenset({"2"})
    assert few.differing_outside(WITH_JSON, rows, lambda: None) is None
