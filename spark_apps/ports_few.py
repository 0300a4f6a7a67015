"""What sources and sinks can do for few rows without Spark, beside what ports.py asks of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_cdc.core.ports import Stage
    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.stamp import Stamp
    from airflow_cdc.core.table import Table
    from airflow_cdc.spark_apps.tidied import Tidied


@runtime_checkable
class ReadsFewRows(Protocol):
    """A RowReader that can read small tables without Spark."""

    def few_rows(self, *, at: Watermark) -> AbstractContextManager[FewRowsReader]:
        """Reads small tables until the block ends, in several threads; each has one connection for all of its tables."""
        ...


class FewRowsReader(Protocol):
    """Reads a small table without Spark."""

    def __call__(self, table: Table, *, most_rows: int, most_bytes: int) -> pa.Table | None:
        """All rows in sink types; they may be newer than the watermark. None if they are more, or only Spark can read them."""
        ...


class SmallCommit(Protocol):
    """A table of the sink as it was when it was opened, to be changed by one commit without Spark and without a stage."""

    def stamped(self, mirror: Stamp | None) -> tuple[Stamp | None, Mapping[str, str]]:
        """As StageWriter.stamped."""
        ...

    def definition(self, fingerprint: str | None) -> Table | None:
        """As StageWriter.definition."""
        ...

    @property
    def version(self) -> int | None:
        """The table's version; None if it has none."""
        ...

    @property
    def rows(self) -> int | None:
        """How many rows it has; None if that is not cheap to find out."""
        ...

    def takes(self, table: Table) -> bool:
        """Whether the table has this definition's columns, and is laid out so that it can be written like this."""
        ...

    def write(
        self,
        table: Table,
        keys: pa.Table,
        rows: pa.Table,
        summary: Mapping[str, str],
        *,
        copies: Sequence[int] | None = None,
    ) -> int | None:
        """Delete what is under `keys` and add `rows`, visible to readers at once. Returns the new version.

        `copies`: how many rows under each key are deleted, where `keys` are whole rows of a table without a key; None: all.

        None if only StageWriter.changes can write them; nothing was written then. Raises StaleHeadError if the table
        has changed since it was opened.
        """
        ...

    def nothing(self, table: Table, summary: Mapping[str, str]) -> int | None:
        """A commit that changes no row. Returns the new version.

        None, with nothing written, if the table has not this definition's columns, or if only StageWriter.nothing can.
        Raises StaleHeadError as `write` does.
        """
        ...

    def merge_files(self, at_least: int) -> Tidied:
        """After `write`: if small commits have left so many small files, put their rows into few. No row changes.

        Raises StaleHeadError as `write` does; nothing was changed then.
        """
        ...


@runtime_checkable
class CommitsFew(Protocol):
    """A StageWriter whose tables can be changed by a small commit of their own."""

    def open_table(self, identifier: tuple[str, str]) -> SmallCommit:
        """The table as it is now."""
        ...


@runtime_checkable
class HoldsFew(Protocol):
    """A StageWriter whose small stages can be read into memory without Spark."""

    def few(self, stage: Stage, version: int, *, most_rows: int, most_bytes: int) -> pa.Table | None:
        """All rows of that version; None if they are more than that, or if that is not known."""
        ...
