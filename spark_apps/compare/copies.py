"""A table that others fill in a database, compared with the source's: each side in its own SQL, by the same canonical text.

Both sides are asked about the same columns, under each side's own names and types (sinks give a pair of tables).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from airflow_cdc.decisions.compare.chunk import Chunk
from airflow_cdc.decisions.compare.leaves import IntegerLeaves, KeyHash, Leaf, LeafScheme, leads_with_integer
from airflow_cdc.decisions.compare.part import WHOLE, Part
from airflow_cdc.spark_apps.compare.views import SinkView
from airflow_cdc.spark_apps.driver.sql import quote_ident

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.compare.verdict import Rows
    from airflow_cdc.spark_apps.ports import RowReader, SourceView


class Pair(Protocol):
    """A table of the source and its copy, with the same columns in the same order."""

    @property
    def source(self) -> Table: ...

    @property
    def copy(self) -> Table: ...

    @property
    def losses(self) -> Sequence[tuple[str, str]]:
        """(column of the source, why it is not compared)."""
        ...


class Copied(Protocol):
    """A sink whose tables are read as those of a source."""

    def pair(self, table: Table, topic: str) -> Pair:
        """A table of the source and its copy. Raises SinkError or SchemaError."""
        ...


@dataclass(frozen=True, slots=True)
class CopyReader:
    """Reads copies. `at` is not looked at: the reader of copies proves no position."""

    rows: RowReader
    at: Watermark

    @contextmanager
    def view(self, spark: SparkSession, pair: Pair) -> Iterator[CopyView]:
        """One copy in a new read view."""
        with self.rows.view(pair.copy, at=self.at) as view:
            yield CopyView(spark, pair.copy.full_name, 0, None, self, pair, view)


@dataclass(frozen=True, slots=True)
class CopyView(SinkView):
    """A copy in one read view of its database. It has no versions: `version` is 0."""

    reader: CopyReader = None  # type: ignore[assignment]  # the fields before it have defaults
    pair: Pair = None  # type: ignore[assignment]
    view: SourceView = None  # type: ignore[assignment]

    def leaves(self, table: Table, scheme: LeafScheme, part: Part = WHOLE) -> dict[int, Leaf]:
        """See SinkView."""
        return dict(self.view.leaves(self._scheme(table, scheme), part))

    def count(self) -> int:
        """See SinkView."""
        return self.view.count()

    def hashes(
        self, table: Table, scheme: LeafScheme, leaves: Sequence[int], part: Part = WHOLE
    ) -> list[tuple[str, str]]:
        """See SinkView."""
        return self.view.hashes(self._scheme(table, scheme), leaves, part)

    def images(self, table: Table, keys: Iterable[str], part: Part = WHOLE) -> Rows:  # noqa: ARG002 - it is the pair's
        """See SinkView."""
        return self.view.images(keys, part)

    def images_frame(self, table: Table, part: Part = WHOLE) -> DataFrame:  # noqa: ARG002 - it is the pair's
        """See SinkView: without the hashes, which only the view has."""
        return self.reader.rows.outside_hash(self.spark, self.pair.copy, part, at=self.reader.at)

    def frame(self) -> DataFrame:
        """See SinkView."""
        rows = self.reader.rows.rows(self.spark, self.pair.copy, [Chunk(None, None)], at=self.reader.at)
        return self._renamed(rows)

    def rows_of_keys(self, keys: Sequence[str]) -> DataFrame:
        """See SinkView."""
        return self._renamed(self.reader.rows.rows_of_keys(self.spark, self.pair.copy, keys, at=self.reader.at))

    def _renamed(self, rows: DataFrame) -> DataFrame:
        names = zip(self.pair.copy.columns, self.pair.source.columns, strict=True)
        return rows.selectExpr(*(f"{quote_ident(theirs.name)} AS {quote_ident(ours.name)}" for theirs, ours in names))

    def _scheme(self, table: Table, scheme: LeafScheme) -> LeafScheme:
        """The scheme under the copy's name of the column."""
        if not isinstance(scheme, IntegerLeaves):
            return scheme
        names = dict(zip(table.key, self.pair.copy.key, strict=True))
        return replace(scheme, column=names[scheme.column])


@dataclass(frozen=True, slots=True)
class SourceOfCopies:
    """A source's reader whose leaves the copies' database can calculate, too; the rest is its own.

    Leaves are ranges only of a key that both sides know as a whole number; else they are by a hash that both have.
    """

    reader: RowReader
    copies: RowReader

    @property
    def key_hash(self) -> KeyHash:
        """See ports.RowReader."""
        own, theirs = self.reader.key_hash, self.copies.key_hash
        return own if own is theirs else KeyHash.SHA256

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)


@dataclass(frozen=True, slots=True)
class Unranged:
    """A source's view of a table whose key is no whole number in the copy."""

    view: SourceView

    def bounds(self) -> None:
        """None: leaves are by hash."""
        return

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)


def ranged(pair: Pair, view: SourceView) -> SourceView:
    """The source's view of a pair, with ranges of its key only if both sides have them."""
    both = leads_with_integer(pair.source) and leads_with_integer(pair.copy)
    return view if both else cast("SourceView", Unranged(view))
