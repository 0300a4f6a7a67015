"""A table in several views: which leaves and keys each of them answers for, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.decisions.compare.leaves import HashLeaves, IntegerLeaves, Leaf, add_leaves, leaf_at, leaf_of, row_leaf
from airflow_cdc.decisions.compare.part import WHOLE, LeafRows, Part
from airflow_cdc.spark_apps.compare.ranges import RANGE_ROWS, Ranges, RangesView
from airflow_cdc.spark_apps.compare.scan import CONNECTIONS, Subject, connections_of
from tests.unit.tables import column, table

ORDERS = table(column("id", "bigint", nullable=False), column("qty", "int"), key=("id",))
SCHEME = IntegerLeaves("id", 10)


def holds(part: Part, leaf: int) -> bool:
    """Whether the part has the rows of the leaf, as its SQL says it."""
    rows = cast("LeafRows", part.rows)
    below, above = rows.below, rows.above
    return leaf in rows.leaves or (below is not None and leaf < below) or (above is not None and leaf > above)


@pytest.mark.parametrize("bounds", [(0, 99), (5, 5), (-73, 41), (-100, -10), (1, 1000), (995, 1004)])
@pytest.mark.parametrize("views", [1, 2, 3, 8])
def test_each_leaf_is_in_the_range_whose_number_it_has_also_beyond_the_bounds(
    bounds: tuple[int, int], views: int
) -> None:
    ranges = Ranges.of(SCHEME, bounds, views)
    parts = ranges.parts()
    assert len(parts) == min(views, leaf_at(10, bounds[1]) - leaf_at(10, bounds[0]) + 1)
    for leaf in range(-50, 150):
        assert [number for number, part in enumerate(parts) if holds(part, leaf)] == [ranges.number(leaf)]
    sizes = [len(cast("LeafRows", part.rows).leaves) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@dataclass(frozen=True, slots=True)
class View:
    """Rows as one view shows them: key → hash."""

    held: Mapping[int, str]

    def leaves(self, scheme: Any, part: Part = WHOLE) -> dict[int, Leaf]:
        found: dict[int, Leaf] = {}
        for key, text in self.held.items():
            leaf = leaf_of(ORDERS, scheme, str(key))
            if part.whole or holds(part, leaf):
                found[leaf] = add_leaves(found.get(leaf, Leaf(0, 0, 0)), row_leaf(text))
        return found

    def hashes(self, scheme: Any, leaves: Sequence[int], _part: Part = WHOLE) -> list[tuple[str, str]]:
        return [(str(key), text) for key, text in self.held.items() if leaf_of(ORDERS, scheme, str(key)) in leaves]

    def images(self, keys: Iterable[str], _part: Part = WHOLE) -> dict[str, list[tuple[str, ...]]]:
        return {key: [(self.held[int(key)],)] for key in keys if int(key) in self.held}


def moments(views: int) -> RangesView:
    """The table at several moments: each row is another one in each view."""
    shown = tuple(View({key: f"{moment:04x}{key + 20:04x}" * 4 for key in range(-20, 80)}) for moment in range(views))
    return RangesView(ORDERS, cast("Any", shown))


@pytest.mark.parametrize("views", [2, 3, 8])
def test_inv_24_a_key_is_answered_by_the_view_that_digested_it(views: int) -> None:
    """So taking its row out of the digest leaves the others' digest, though every view shows another row."""
    view = moments(views).split(SCHEME, (-15, 79))
    assert view.ranges is not None
    digests = dict(view.leaves(SCHEME))
    images, hashes = view.images(map(str, range(-20, 80))), view.hashes(SCHEME, sorted(digests))
    assert {str(row[0])[:4] for rows in images.values() for row in rows} == {f"{moment:04x}" for moment in range(views)}
    assert sorted(hashes) == sorted((key, rows[0][0]) for key, rows in images.items())
    for key, ((text, *_),) in images.items():
        leaf = leaf_of(ORDERS, SCHEME, key)
        digests[leaf] = add_leaves(digests[leaf], row_leaf(str(text)), -1)
    assert set(digests.values()) == {Leaf(0, 0, 0)}


def test_without_ranges_the_first_view_answers() -> None:
    whole = moments(3)
    first = cast("View", whole.views[0])
    for view in (whole, whole.split(HashLeaves(4), (0, 79)), whole.split(SCHEME, None)):
        assert view.leaves(SCHEME) == first.leaves(SCHEME)
        assert view.images(["3", "70"]) == first.images(["3", "70"])


def large(rows: int = RANGE_ROWS + 1, key: str = "bigint", tasks: int = 64) -> Subject:
    """A table with a key of that type, in a session with so many tasks at a time."""
    spark = SimpleNamespace(conf={}, sparkContext=SimpleNamespace(defaultParallelism=tasks))
    keyed = table(column("id", key, nullable=False), key=("id",))
    return Subject(keyed, cast("Any", SimpleNamespace(spark=spark)), None, {}, cast("Any", None), rows)


def reader(limit: int = 0, *, exact: bool = False) -> Any:
    """A reader that is limited to so many connections (0: any number)."""
    return SimpleNamespace(exact_views=exact, connections=limit)


@pytest.mark.parametrize(
    ("subject", "source", "lots", "connections"),
    [
        (large(tasks=2), reader(), 1, 2),
        (large(), reader(), 1, CONNECTIONS),
        (large(), reader(), 3, CONNECTIONS // 3),
        (large(), reader(), 100, 1),
        (large(), reader(limit=1), 1, 1),
        (large(), reader(limit=4), 2, 2),
        (large(RANGE_ROWS), reader(), 1, None),
        (large(key="varchar(36)"), reader(), 1, None),
        (large(), reader(exact=True), 1, None),
    ],
)
def test_a_large_table_has_as_many_connections_as_spark_has_tasks_and_the_reader_allows(
    subject: Subject, source: Any, lots: int, connections: int | None
) -> None:
    assert connections_of(source, [subject], lots).get(subject.table.full_name) == connections
