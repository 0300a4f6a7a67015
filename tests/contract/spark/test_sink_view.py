"""A pinned snapshot's digests, rows and images as Spark's SQL gives them, against the reference that writes each row's text by itself."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare import canonical
from airflow_cdc.decisions.compare.leaves import (
    HashLeaves,
    IntegerLeaves,
    KeyHash,
    Leaf,
    LeafScheme,
    leaf_of,
    merge_leaves,
    row_leaf,
)
from airflow_cdc.decisions.compare.part import Interval, LeafRows, OneValue, Part
from airflow_cdc.decisions.compare.row_diff import SHOWN
from airflow_cdc.spark_apps.compare import few
from airflow_cdc.spark_apps.compare.differing_rows import _pair, _texts
from airflow_cdc.spark_apps.compare.views import SinkView
from airflow_cdc.spark_apps.types import sink_type
from tests.unit.tables import column, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]

ORDERS = table(
    column("id", "bigint", nullable=False),
    column("note", "varchar(20)", charset="utf8mb4"),
    column("day", "date"),
    column("seen", "datetime(6)", fsp=6),
    column("doc", "json"),
    key=("id",),
)
BY_NAME = table(column("name", "varchar(9)", nullable=False, charset="utf8mb4"), column("n", "int"), key=("name",))
BAG = table(column("kind", "varchar(9)", charset="utf8mb4"), column("n", "int"))


def order(number: int, note: str | None = "x", day: int = 1, doc: str | None = "{}") -> Row:
    """A row of ORDERS."""
    at = dt.datetime(2026, 1, day, 12, 0, 0, number % 7)  # noqa: DTZ001 - DATETIME has no zone
    return {"id": number, "note": note, "day": dt.date(2026, 1, day), "seen": at, "doc": doc}


ORDERED: Sequence[Row] = [
    order(n, None if n % 5 == 0 else f"n{n}", 1 + abs(n) % 9, f'{{"n": {n}}}') for n in range(-12, 30)
]
NAMED: Sequence[Row] = [{"name": name, "n": at or None} for at, name in enumerate(("", "a", "A", "é😀", "N", "3|a"))]
BAGGED: Sequence[Row] = [{"kind": kind, "n": n} for kind, n in [("x", 1), ("x", 1), ("y", None), (None, 3)]]


@pytest.fixture
def pinned(spark: SparkSession) -> Callable[[Table, Sequence[Row]], SinkView]:
    """A view of these rows."""

    def view(of: Table, rows: Sequence[Row]) -> SinkView:
        schema = ", ".join(f"`{one.name}` {sink_type(one)}" for one in of.mirrored)
        name = f"pinned_{of.name}_{len(of.mirrored)}"
        data = [tuple(row[one.name] for one in of.mirrored) for row in rows]
        spark.createDataFrame(data, schema).createOrReplaceTempView(name)
        return SinkView(spark, name, 7)

    return view


def digested(of: Table, scheme: LeafScheme, rows: Sequence[Row]) -> dict[int, Leaf]:
    """The reference's leaves."""
    return merge_leaves(
        [{leaf_of(of, scheme, canonical.key_text(of, row)): row_leaf(canonical.row_hash(of, row))} for row in rows]
    )


SCHEMES: Mapping[str, tuple[Table, Sequence[Row], LeafScheme]] = {
    "ranges of a key, on both sides of zero": (ORDERS, ORDERED, IntegerLeaves("id", 5)),
    "hashes of a number": (ORDERS, ORDERED, HashLeaves(4)),
    "hashes of a text": (BY_NAME, NAMED, HashLeaves(3)),
    "another hash": (BY_NAME, NAMED, HashLeaves(3, KeyHash.SHA256)),
    "rows without a key": (BAG, BAGGED, HashLeaves(2)),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_leaves_of_a_snapshot_are_those_of_the_reference(pinned: Any, scheme: str) -> None:
    of, rows, leaves = SCHEMES[scheme]
    assert pinned(of, rows).leaves(of, leaves) == digested(of, leaves, rows)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_rows_of_some_leaves_are_those_of_the_reference(pinned: Any, scheme: str) -> None:
    of, rows, leaves = SCHEMES[scheme]
    wanted = sorted(digested(of, leaves, rows))[::2]
    texts = [(canonical.key_text(of, row), canonical.row_hash(of, row)) for row in rows]
    inside = [(key, text) for key, text in texts if leaf_of(of, leaves, key) in wanted]
    assert sorted(pinned(of, rows).hashes(of, leaves, wanted)) == sorted(inside)


PARTS: Mapping[str, tuple[Part, Callable[[Row], bool]]] = {
    "an interval of a column": (Part(Interval("id", 3, 9)), lambda row: 3 <= row["id"] < 9),
    "days": (
        Part(Interval("day", dt.date(2026, 1, 2), dt.date(2026, 1, 4))),
        lambda row: dt.date(2026, 1, 2) <= row["day"] < dt.date(2026, 1, 4),
    ),
    "moments": (
        Part(Interval("seen", dt.datetime(2026, 1, 3), dt.datetime(2026, 1, 5, 12, 0, 0, 2))),  # noqa: DTZ001
        lambda row: dt.datetime(2026, 1, 3) <= row["seen"] < dt.datetime(2026, 1, 5, 12, 0, 0, 2),  # noqa: DTZ001
    ),
    "one value": (Part(OneValue("note", "n7")), lambda row: row["note"] == "n7"),
    "some leaves": (Part(LeafRows(IntegerLeaves("id", 5), (1, 3))), lambda row: row["id"] // 5 in {1, 3}),
    "a leaf and all after it": (
        Part(LeafRows(IntegerLeaves("id", 5), (3,), above=3)),
        lambda row: row["id"] >= 15,
    ),
    "a leaf and all before it": (
        Part(LeafRows(IntegerLeaves("id", 5), (0,), below=0)),
        lambda row: row["id"] < 5,
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_table_has_its_own_rows_alone(pinned: Any, part: str) -> None:
    """In its leaves, among the rows of a leaf, and among the images of keys."""
    chosen, holds = PARTS[part]
    inside = [row for row in ORDERED if holds(row)]
    assert 0 < len(inside) < len(ORDERED)
    view, scheme = pinned(ORDERS, ORDERED), IntegerLeaves("id", 5)
    assert view.leaves(ORDERS, scheme, chosen) == digested(ORDERS, scheme, inside)
    own = {canonical.key_text(ORDERS, row) for row in inside}
    every = [str(row["id"]) for row in ORDERED]
    assert {key for key, _ in view.hashes(ORDERS, scheme, range(-3, 7), chosen)} == own
    assert set(view.images(ORDERS, every, chosen)) == own


def test_the_image_of_a_row_is_its_hash_and_what_is_compared_beside_it(pinned: Any) -> None:
    """JSON is stored as a text of its own, and compared by its value."""
    view = pinned(ORDERS, [order(1), order(2, doc='{"b": 1}'), order(3, doc=None)])
    rows = {str(row["id"]): row for row in (order(1), order(2), order(3))}
    images = view.images(ORDERS, ["2", "3", "3", "4"])
    assert images == {
        "2": [(canonical.row_hash(ORDERS, rows["2"]), '{"b": 1}')],
        "3": [(canonical.row_hash(ORDERS, rows["3"]), None)],
    }
    assert view.images(ORDERS, []) == {}
    assert [row.asDict()["x0"] for row in view.images_frame(ORDERS).orderBy("key_text").collect()] == [
        "{}",
        '{"b": 1}',
        None,
    ]


def test_a_key_that_stands_twice_has_two_images(pinned: Any) -> None:
    view = pinned(ORDERS, [order(1, "a"), order(1, "b"), order(2)])
    assert len(view.images(ORDERS, ["1"])["1"]) == 2
    assert view.count() == 3


def test_rows_are_read_into_memory_where_they_are_few_and_by_spark_where_they_are_not(pinned: Any) -> None:
    """Both give the same, so that a table may grow past the limit."""
    by_spark, scheme = pinned(ORDERS, ORDERED), IntegerLeaves("id", 5)
    asked = list[int]()

    def read(most: int) -> Any:
        asked.append(most)
        return by_spark.frame().toArrow() if most >= len(ORDERED) else None

    view = SinkView(by_spark.spark, by_spark.relation, 7, few.Counting(read))
    roomy, narrow = view.in_memory_up_to(1_000), view.in_memory_up_to(3)
    assert roomy.leaves(ORDERS, scheme) == narrow.leaves(ORDERS, scheme) == by_spark.leaves(ORDERS, scheme)
    assert roomy.images(ORDERS, ["7", "8"]) == narrow.images(ORDERS, ["7", "8"]) == by_spark.images(ORDERS, ["7", "8"])
    assert set(asked) == {1_000, 3}
    assert by_spark.in_memory_up_to(5).small is None


def test_a_view_in_another_session_reads_what_that_session_sees(pinned: Any, spark: SparkSession) -> None:
    view = pinned(ORDERS, ORDERED)
    other = spark.newSession()
    other.createDataFrame([(1,)], "id bigint").createOrReplaceTempView(view.relation)
    assert view.in_session(other).count() == 1
    assert view.count() == len(ORDERED)


# ---- rows for people ----------------------------------------------------------------------------------------------------------


def test_of_a_row_that_differs_each_column_is_shown_and_those_that_differ_are_named(pinned: Any) -> None:
    long = "y" * 5_000
    ours = _texts(pinned(ORDERS, [order(1, long), order(2, "b")]).frame(), ORDERS, {"1": "different"})
    theirs = _texts(pinned(ORDERS, [order(1, long + "z")]).frame(), ORDERS, {"1": "different"})
    pair = _pair("different", "1", ours["1"], theirs["1"], "now")
    assert set(ours) == {"1"}
    assert pair.differ == ("note",)
    assert pair.source is not None
    assert pair.source["day"] == "2026-01-01"
    assert len(pair.source["note"] or "") == SHOWN


def test_a_row_that_one_side_lacks_is_shown_without_saying_which_columns_differ(pinned: Any) -> None:
    ours = _texts(pinned(ORDERS, [order(1)]).frame(), ORDERS, {"1": "missing"})
    pair = _pair("missing", "1", ours["1"], None, "now")
    assert (pair.sink, pair.differ) == (None, ())


def test_bytes_are_shown_as_hexadecimal(pinned: Any) -> None:
    of = table(column("id", "int", nullable=False), column("b", "varbinary(4)"), key=("id",))
    assert _texts(pinned(of, [{"id": 1, "b": b"\x00\xff"}]).frame(), of, {"1": "ghosts"})["1"]["b"][0] == "00FF"
