"""What the Spark applications ask of a pipeline's systems. An adapter satisfies its port by shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.compare.chunk import Chunk, Key
    from airflow_cdc.core.compare.leaves import Leaf, LeafScheme
    from airflow_cdc.core.compare.part import Part
    from airflow_cdc.core.compare.verdict import Rows
    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.table import Table


class SourceView(Protocol):
    """One table of the source in one read view: every answer is about the same rows."""

    @property
    def position(self) -> Watermark | None:
        """Exact position of the view of a table without a key: it holds all changes up to it and nothing later."""
        ...

    def leaves(self, scheme: LeafScheme, part: Part) -> Mapping[int, Leaf]:
        """The digest of every leaf, in one scan."""
        ...

    def count(self) -> int:
        """How many rows the table has."""
        ...

    def bounds(self) -> tuple[int, int] | None:
        """The smallest and greatest id, where the key begins with one whose leaves are ranges; else, or if empty, None."""
        ...

    def hashes(self, scheme: LeafScheme, leaves: Sequence[int], part: Part) -> list[tuple[str, str]]:
        """(key text, hash) of every row in these leaves."""
        ...

    def images(self, keys: Iterable[str], part: Part = ...) -> Rows:
        """The rows under these key texts (of a table without a key: under these hashes)."""
        ...


class RowReader(Protocol):
    """A source, for Spark. Every connection proves that it reaches the server of `at`, and shows all of it (INV 9)."""

    def chunks(self, table: Table, after: Key | None, rows: int, *, at: Watermark, ahead: int) -> Iterator[list[Chunk]]:
        """The chunks of `rows` rows after the key `after`, `ahead` at a time; the last chunk is open-ended (INV 25)."""
        ...

    def rows(self, spark: SparkSession, table: Table, chunks: Sequence[Chunk], *, at: Watermark) -> DataFrame:
        """The rows of these chunks in sink types, a partition each. They may be newer than `at`."""
        ...

    def rows_of_keys(self, spark: SparkSession, table: Table, keys: Sequence[str], *, at: Watermark) -> DataFrame:
        """The rows under these key texts in sink types.

        Rows of other keys that the source takes for equal (a collation that ignores case) may be among them.
        """
        ...

    def rows_at_exactly(
        self, spark: SparkSession, table: Table, use: Callable[[DataFrame], None], *, at: Watermark
    ) -> Watermark:
        """Give `use` all rows of the table in one read view, and return the exact position of that view (INV 19).

        `use` runs in a thread of its own and has to read the frame once. Raises SourceError if the position cannot be
        had, and what `use` raises; `use` may still have read something then, which must not count.
        """
        ...

    def outside_hash(self, spark: SparkSession, table: Table, part: Part, *, at: Watermark) -> DataFrame:
        """(key_text, x0, x1 …) of the part's rows: the columns outside the row hash, in sink types."""
        ...

    def view(self, table: Table, *, at: Watermark) -> AbstractContextManager[SourceView]:
        """One read view of the table; ends with the block. That of a table without a key has an exact position."""
        ...

    def bounds(self, table: Table) -> tuple[int, int] | None:
        """As SourceView.bounds, outside any view: to size leaves for the next time."""
        ...

    def wait_visible(self, at: Watermark, timeout: float) -> None:
        """Wait until new connections show everything up to `at`; DeadlineError after `timeout` seconds."""
        ...

    def estimated_rows(self, tables: Sequence[Table]) -> Mapping[str, int]:
        """The source's own estimate per table ("schema.table"): for progress and order only."""
        ...
