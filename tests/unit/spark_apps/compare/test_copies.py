"""A table that others fill in a database, asked as its source is: each side under its own names, in leaves that both can calculate."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

import pytest

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.leaves import HashLeaves, IntegerLeaves, KeyHash
from airflow_cdc.decisions.compare.part import WHOLE, leaves_part
from airflow_cdc.spark_apps.compare.copies import CopyReader, SourceOfCopies, Unranged, ranged
from tests.unit.spark_apps.compare.in_memory import Held, View
from tests.unit.tables import column, table

ORDERS = table(column("id", "bigint", nullable=False), column("qty", "int"), key=("id",))
COPY = table(column("order_id", "bigint", nullable=False), column("amount", "int"), key=("order_id",))
AS_TEXT = table(column("order_id", "varchar(9)", nullable=False), column("amount", "int"), key=("order_id",))
ROWS = [{"order_id": number, "amount": 1} for number in range(25)]
NOBODY: Any = None


@dataclass(frozen=True)
class Pair:
    source: Table
    copy: Table
    losses: tuple[tuple[str, str], ...] = ()


class Reader:
    """The copies' database."""

    def __init__(self, by: KeyHash = KeyHash.SHA256) -> None:
        self.key_hash, self.asked = by, list[Any]()

    def view(self, of: Table, *, at: object) -> Any:
        self.asked.append((of.key, at))
        return nullcontext(View(Held(of, ROWS), None))

    def outside_hash(self, _spark: object, of: Table, part: object, *, at: object) -> Any:
        self.asked.append((of.key, part, at))


def opened(reader: Reader) -> Any:
    return CopyReader(cast("Any", reader), cast("Any", "W")).view(NOBODY, Pair(ORDERS, COPY))


def test_a_copy_is_asked_in_its_own_view_and_under_its_own_names() -> None:
    reader = Reader()
    with opened(reader) as view:
        assert reader.asked == [(("order_id",), "W")]
        assert (view.relation, view.version, view.count()) == ("shop.t", 0, 25)
        assert {leaf: one.n for leaf, one in view.leaves(ORDERS, IntegerLeaves("id", 10)).items()} == {
            0: 10,
            1: 10,
            2: 5,
        }
        assert sum(one.n for one in view.leaves(ORDERS, HashLeaves(3)).values()) == 25
        assert [key for key, _ in view.hashes(ORDERS, IntegerLeaves("id", 10), [2])] == ["20", "21", "22", "23", "24"]
        assert list(view.images(ORDERS, ["3", "99"])) == ["3"]


def test_of_a_part_only_its_rows_are_asked_for() -> None:
    part = leaves_part(IntegerLeaves("order_id", 10), [1])
    with opened(Reader()) as view:
        assert list(view.leaves(ORDERS, IntegerLeaves("id", 10), part)) == [1]
        assert len(view.hashes(ORDERS, IntegerLeaves("id", 10), [0, 1], part)) == 10
        assert list(view.images(ORDERS, ["3", "13"], part)) == ["13"]


def test_columns_outside_the_hash_are_read_by_the_copies_own_reader() -> None:
    reader = Reader()
    with opened(reader) as view:
        view.images_frame(ORDERS)
    assert reader.asked[-1] == (("order_id",), WHOLE, "W")


@pytest.mark.parametrize(
    ("source", "copy", "by"),
    [
        (KeyHash.CRC32, KeyHash.CRC32, KeyHash.CRC32),
        (KeyHash.SHA256, KeyHash.SHA256, KeyHash.SHA256),
        (KeyHash.CRC32, KeyHash.SHA256, KeyHash.SHA256),
    ],
)
def test_keys_are_hashed_as_both_databases_can(source: KeyHash, copy: KeyHash, by: KeyHash) -> None:
    both = SourceOfCopies(cast("Any", Reader(source)), cast("Any", Reader(copy)))
    assert both.key_hash is by
    assert both.asked == []  # the rest is the source's own


@pytest.mark.parametrize(
    ("copy", "bounds"), [(COPY, (0, 24)), (AS_TEXT, None)], ids=["a number on both sides", "a text in the copy"]
)
def test_leaves_are_ranges_only_of_a_key_that_both_sides_know_as_a_number(copy: Table, bounds: Any) -> None:
    own: Any = View(Held(ORDERS, [{"id": row["order_id"], "qty": 1} for row in ROWS]), 5)
    seen: Any = ranged(Pair(ORDERS, copy), own)
    assert (seen.bounds(), seen.count(), seen.position) == (bounds, 25, 5)
    assert isinstance(seen, Unranged) is (bounds is None)
