"""Read views of several tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.table import Table

V_co = TypeVar("V_co", covariant=True)


class View(Protocol[V_co]):
    """See ports.RowReader.view."""

    def __call__(self, table: Table, /, *, at: Watermark) -> AbstractContextManager[V_co]: ...


@contextmanager
def one_each(view: View[V_co], tables: Sequence[Table], at: Watermark) -> Iterator[Sequence[V_co]]:
    """A view of its own for each table."""
    with ExitStack() as stack:
        yield [stack.enter_context(view(table, at=at)) for table in tables]
