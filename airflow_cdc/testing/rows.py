"""What the Spark side of every source must do, on a real server: `ports.RowReader`. Needs pyspark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from airflow_cdc.core.pipeline import ThrottlePolicy
from airflow_cdc.core.ports import SourceLoad
from airflow_cdc.core.table import Column, Table
from airflow_cdc.core.types import Bytes, Geometry, Instant, LocalDateTime
from airflow_cdc.decisions.compare import canonical
from airflow_cdc.decisions.compare.chunk import Chunk
from airflow_cdc.decisions.compare.leaves import (
    HashLeaves,
    KeyHash,
    LeafScheme,
    add_leaves,
    choose_scheme,
    leaf_of,
    merge_leaves,
    row_leaf,
)
from airflow_cdc.decisions.compare.part import WHOLE, leaves_part
from airflow_cdc.spark_apps.canonical.spark import key_text
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.driver.sql import quote_ident
from airflow_cdc.spark_apps.driver.throttle import Gate, throttled
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.position import Watermark
    from airflow_cdc.spark_apps.ports import RowReader

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the reference takes moments in UTC without a zone
CHUNK_ROWS = 7


class RowBench(Protocol):
    """Fills and changes one kind of source for a test."""

    @property
    def reader(self) -> RowReader:
        """The adapter under test."""
        ...

    @property
    def keyed(self) -> Table:
        """A table with edge values of every type that the source has, and NULLs. Its key begins with a whole number.

        It has at least 10 rows, and stays as it is.
        """
        ...

    @property
    def keyless(self) -> Table:
        """A table without a key that holds at least one row twice; `write` adds to it."""
        ...

    def watermark(self) -> Watermark:
        """The end of the log now."""
        ...

    def foreign(self) -> Watermark:
        """A watermark of another server than the one under test."""
        ...

    def write(self) -> None:
        """Commit one more row of the table without a key."""
        ...


def python_rows(rows: DataFrame, columns: Sequence[Column]) -> list[dict[str, object]]:
    """Rows in sink types as the values that decisions/compare/canonical.py takes, by column."""
    collected = rows.selectExpr(*(f"{_plain(column)} AS c{at}" for at, column in enumerate(columns))).collect()
    return [{column.name: _value(column, row[at]) for at, column in enumerate(columns)} for row in collected]


def _plain(column: Column) -> str:
    """Spark expression: an instant as microseconds, because Python would shift it into its own time zone."""
    name = quote_ident(column.name)
    moment = isinstance(column.type, LocalDateTime | Instant)
    return f"unix_micros(CAST({name} AS timestamp))" if moment else name


def _value(column: Column, value: Any) -> object:
    if value is None:
        return None
    if isinstance(column.type, LocalDateTime | Instant):
        return _EPOCH + dt.timedelta(microseconds=value)
    if isinstance(column.type, Geometry):
        return value["srid"], bytes(value["wkb"])
    return bytes(value) if isinstance(column.type, Bytes) else value


class RowReaderContract:
    """Subclass it and provide the fixtures `rows` (a RowBench) and `spark` (a session like the driver's)."""

    @pytest.fixture
    def session(self, spark: SparkSession) -> SparkSession:
        """The session with the functions that comparisons use."""
        register_functions(spark)
        return spark

    @pytest.fixture
    def frame(self, rows: RowBench, session: SparkSession) -> DataFrame:
        """All rows of the table with a key."""
        return rows.reader.rows(session, rows.keyed, [Chunk()], at=rows.watermark())

    @pytest.fixture
    def expected(self, rows: RowBench, frame: DataFrame) -> Mapping[str, str]:
        """Key text → hash of every row, by the reference implementation, from the values that Spark read."""
        table = rows.keyed
        values = python_rows(frame, [*canonical.hashed(table)])
        return {canonical.key_text(table, row): canonical.row_hash(table, row) for row in values}

    # ---- rows ---------------------------------------------------------------------------------------

    def test_rows_come_in_the_sinks_types(self, rows: RowBench, frame: DataFrame) -> None:
        declared = [(column.name, sink_type(column)) for column in rows.keyed.mirrored]
        assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == declared

    def test_chunks_hold_every_row_once_and_the_last_is_open(
        self, rows: RowBench, session: SparkSession, expected: Mapping[str, str]
    ) -> None:
        at, table = rows.watermark(), rows.keyed
        groups = list(rows.reader.chunks(table, None, CHUNK_ROWS, at=at, ahead=2))
        chunks = [chunk for group in groups for chunk in group]
        assert max(map(len, groups)) == 2
        assert [chunk.lo for chunk in chunks] == [None, *(chunk.hi for chunk in chunks[:-1])]
        assert chunks[-1].hi is None
        read = rows.reader.rows(session, table, chunks, at=at)
        assert read.rdd.getNumPartitions() == len(chunks)
        assert sorted(self._keys(read, table)) == sorted(expected)
        assert len(chunks) == len(expected) // CHUNK_ROWS + 1

    def test_a_throttled_reader_waits_and_then_reads_the_same_on_fewer_connections(
        self, rows: RowBench, session: SparkSession, expected: Mapping[str, str]
    ) -> None:
        at, table, asked = rows.watermark(), rows.keyed, list[int]()

        def load(_: ThrottlePolicy) -> SourceLoad:
            asked.append(9 if len(asked) == 1 else 1)  # the second group has to wait
            return SourceLoad(asked[-1])

        limits = ThrottlePolicy(connections=1, threads_running=1)
        reader = throttled(rows.reader, Gate(load, limits, 60.0, "the test"), 1)
        groups = list(reader.chunks(table, None, CHUNK_ROWS, at=at, ahead=8))
        assert groups == list(rows.reader.chunks(table, None, CHUNK_ROWS, at=at, ahead=1))
        assert 9 in asked
        read = reader.rows(session, table, [chunk for group in groups for chunk in group], at=at)
        assert read.rdd.getNumPartitions() == 1
        assert sorted(self._keys(read, table)) == sorted(expected)
        by_key = reader.rows_of_keys(session, table, sorted(expected), at=at)
        assert set(self._keys(by_key, table)) >= set(expected)
        with reader.view(table, at=at) as view:
            assert sum(leaf.n for leaf in view.leaves(HashLeaves(1, reader.key_hash), WHOLE).values()) == len(expected)
        copies = list[int]()
        reader.rows_at_exactly(session, rows.keyless, lambda frame: copies.append(frame.count()), at=at)
        with rows.reader.view(rows.keyless, at=at) as view:
            assert copies == [view.count()]

    def test_a_read_goes_on_after_a_key(self, rows: RowBench, session: SparkSession) -> None:
        at, table = rows.watermark(), rows.keyed
        (first, *_), *_ = rows.reader.chunks(table, None, CHUNK_ROWS, at=at, ahead=1)
        later = [c for group in rows.reader.chunks(table, first.hi, CHUNK_ROWS, at=at, ahead=9) for c in group]
        assert later[0].lo == first.hi
        here = self._keys(rows.reader.rows(session, table, [first], at=at), table)
        rest = self._keys(rows.reader.rows(session, table, later, at=at), table)
        assert len(here) == CHUNK_ROWS
        assert not set(here) & set(rest)

    def test_rows_are_found_by_the_text_of_their_key(
        self, rows: RowBench, session: SparkSession, expected: Mapping[str, str]
    ) -> None:
        asked = sorted(expected)[::3]
        table = rows.keyed
        read = rows.reader.rows_of_keys(session, table, asked, at=rows.watermark())
        assert set(asked) <= set(self._keys(read, table))
        assert rows.reader.rows_of_keys(session, table, [], at=rows.watermark()).isEmpty()

    def test_columns_outside_the_hash_come_in_their_canonical_form(
        self, rows: RowBench, session: SparkSession, frame: DataFrame
    ) -> None:
        table, names = rows.keyed, canonical.outside_hash(rows.keyed)
        outside = rows.reader.outside_hash(session, table, WHOLE, at=rows.watermark()).collect()
        columns = (f"{quote_ident(name)} AS x{at}" for at, name in enumerate(names))
        assert {tuple(row) for row in outside} == {
            tuple(row) for row in frame.selectExpr(key_text(table), *columns).collect()
        }

    def test_another_server_is_not_read(self, rows: RowBench, session: SparkSession) -> None:
        with pytest.raises(Exception):  # noqa: B017, PT011 - the driver's own, from an executor
            rows.reader.rows(session, rows.keyed, [Chunk()], at=rows.foreign()).collect()
        with pytest.raises(Exception), rows.reader.view(rows.keyed, at=rows.foreign()):  # noqa: B017, PT011
            pytest.fail("a view of another server was opened")

    # ---- views --------------------------------------------------------------------------------------

    def test_the_source_writes_the_text_of_the_reference(
        self, rows: RowBench, expected: Mapping[str, str], frame: DataFrame
    ) -> None:
        table = rows.keyed
        with rows.reader.view(table, at=rows.watermark()) as view:
            for scheme in self._schemes(rows.reader.key_hash, table, view.bounds(), len(expected)):
                leaves = view.leaves(scheme, WHOLE)
                assert leaves == merge_leaves({leaf_of(table, scheme, key): row_leaf(h)} for key, h in expected.items())
                assert dict(view.hashes(scheme, sorted(leaves), WHOLE)) == expected
            assert view.count() == len(expected)
            images = view.images(expected)
        names = [column.name for column in table.key_columns] + list(canonical.outside_hash(table))
        others = {
            canonical.key_text(table, row): tuple(row[name] for name in canonical.outside_hash(table))
            for row in python_rows(frame, [table.column(name) for name in names])
        }
        assert images == {key: [(h, *others[key])] for key, h in expected.items()}

    def test_parts_together_are_the_table(self, rows: RowBench, expected: Mapping[str, str]) -> None:
        table = rows.keyed
        with rows.reader.view(table, at=rows.watermark()) as view:
            for scheme in self._schemes(rows.reader.key_hash, table, view.bounds(), len(expected)):
                whole = view.leaves(scheme, WHOLE)
                some, rest = sorted(whole)[::2], sorted(whole)[1::2]
                for leaves in (some, rest):
                    part = view.leaves(scheme, leaves_part(scheme, leaves))
                    assert part == {leaf: whole[leaf] for leaf in leaves}

    def test_a_view_does_not_change(self, rows: RowBench) -> None:
        with rows.reader.view(rows.keyless, at=rows.watermark()) as view:
            before = view.leaves(HashLeaves(1, rows.reader.key_hash), WHOLE)
            rows.write()
            assert view.leaves(HashLeaves(1, rows.reader.key_hash), WHOLE) == before
        with rows.reader.view(rows.keyless, at=rows.watermark()) as later:
            assert later.count() == before[0].n + 1

    def test_views_of_several_tables_are_read_by_several_threads(self, rows: RowBench) -> None:
        tables, scheme = [rows.keyless, rows.keyed, rows.keyless, rows.keyed], HashLeaves(4, rows.reader.key_hash)
        with rows.reader.views(tables, at=rows.watermark()) as views, ThreadPoolExecutor(4) as pool:
            before = list(pool.map(lambda view: view.leaves(scheme, WHOLE), list(views) * 3))
            rows.write()
            assert list(pool.map(lambda view: view.leaves(scheme, WHOLE), list(views) * 3)) == before
        for table, leaves in zip(tables, before, strict=False):
            with rows.reader.view(table, at=rows.watermark()) as view:
                now = sum(leaf.n for leaf in view.leaves(scheme, WHOLE).values())
            assert now - sum(leaf.n for leaf in leaves.values()) == table.keyless
        assert before[0] != before[1]
        with pytest.raises(Exception), rows.reader.views(tables, at=rows.foreign()):  # noqa: B017, PT011
            pytest.fail("views of another server were opened")

    def test_a_view_without_a_key_says_where_it_is_exactly_and_any_other_where_views_are_exact(
        self, rows: RowBench
    ) -> None:
        for table, exact in ((rows.keyed, rows.reader.exact_views), (rows.keyless, True)):
            before = rows.watermark()
            rows.write()
            with rows.reader.view(table, at=before) as view:
                rows.write()
                assert (view.position is not None) is exact
                if view.position is not None:
                    assert view.position.position.covers(before.position) is True
                    assert rows.watermark().position.covers(view.position.position) is True
                    assert view.position.position.covers(rows.watermark().position) is False

    def test_copies_of_a_row_are_counted(self, rows: RowBench) -> None:
        with rows.reader.view(rows.keyless, at=rows.watermark()) as view:
            hashes = view.hashes(HashLeaves(1, rows.reader.key_hash), [0], WHOLE)
            assert [key for key, _ in hashes] == [h for _, h in hashes]
            images = view.images({h for _, h in hashes})
        assert max(map(len, images.values())) > 1
        assert sum(map(len, images.values())) == len(hashes)

    def test_all_rows_at_one_exact_position(self, rows: RowBench, session: SparkSession) -> None:
        before, table = rows.watermark(), rows.keyless
        read: list[str] = []

        def use(frame: DataFrame) -> None:
            read.extend(row[0] for row in frame.selectExpr(key_text(table)).collect())

        position = rows.reader.rows_at_exactly(session, table, use, at=before)
        with rows.reader.view(table, at=before) as view:
            assert sorted(read) == sorted(h for _, h in view.hashes(HashLeaves(1, rows.reader.key_hash), [0], WHOLE))
        assert position.position.covers(before.position) is True

    def test_what_fails_while_rows_are_read_is_raised(self, rows: RowBench, session: SparkSession) -> None:
        def use(_frame: DataFrame) -> None:
            raise RuntimeError("the writer died")

        with pytest.raises(RuntimeError, match="the writer died"):
            rows.reader.rows_at_exactly(session, rows.keyless, use, at=rows.watermark())
        rows.write()

    def test_a_leaf_taken_out_leaves_the_rest(self, rows: RowBench, expected: Mapping[str, str]) -> None:
        """A comparison subtracts rows from the source's sums, so the sums must be made of the row hashes."""
        with rows.reader.view(rows.keyed, at=rows.watermark()) as view:
            total = view.leaves(HashLeaves(1, rows.reader.key_hash), WHOLE)[0]
        key, h = min(expected.items())
        others = merge_leaves({0: row_leaf(other)} for k, other in expected.items() if k != key)
        assert add_leaves(total, row_leaf(h), -1) == others[0]

    def test_what_is_known_of_a_tables_size(self, rows: RowBench) -> None:
        sizes = rows.reader.sizes([rows.keyed])
        assert sizes.keys() == {rows.keyed.full_name}
        with rows.reader.view(rows.keyed, at=rows.watermark()) as view:
            assert rows.reader.bounds(rows.keyed) == view.bounds()

    def _keys(self, frame: DataFrame, table: Table) -> list[str]:
        return [row[0] for row in frame.selectExpr(key_text(table)).collect()]

    def _schemes(self, by: KeyHash, table: Table, bounds: tuple[int, int] | None, rows: int) -> list[LeafScheme]:
        ranges = choose_scheme(table, rows, bounds, leaf_rows=3)
        assert bounds is not None
        return [ranges, HashLeaves(4, by), HashLeaves(1, by)]
