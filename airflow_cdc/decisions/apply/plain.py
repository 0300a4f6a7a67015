"""A plain change: one decoded record in memory, for batches that are too small for Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from airflow_cdc.decisions.apply.applied import LastChange


class NotPlainError(ValueError):
    """Something in the records is not the plain change of a row: the jobs of a batch say what it means."""


class PlainChange(NamedTuple):
    """A create, update, delete or tombstone of the table itself, with every value readable.

    The fields are those of the neutral record (spark_apps/events.py): `key` holds the key's values in the key's
    order, `after` those of the mirrored columns, in Arrow's terms (a moment is microseconds since 1970, a date is days).
    `change` is None for a tombstone, `after` for a tombstone and a delete. `before` is the row as it was, where that is
    asked for and the record has it.
    """

    partition: int
    offset: int
    op: str
    key: tuple[Any, ...]
    after: tuple[Any, ...] | None = None
    change: LastChange | None = None
    defaulted: bool = False
    before: tuple[Any, ...] | None = None
