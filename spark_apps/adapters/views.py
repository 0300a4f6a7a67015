"""Read views of several tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.table import Table

V = TypeVar("V")


@contextmanager
def one_each(
    view: Callable[..., AbstractContextManager[V]], tables: Sequence[Table], at: Watermark
) -> Iterator[Sequence[V]]:
    """A view of its own for each table, by a reader's `view` (ports.RowReader)."""
    with ExitStack() as stack:
        yield [stack.enter_context(view(table, at=at)) for table in tables]
