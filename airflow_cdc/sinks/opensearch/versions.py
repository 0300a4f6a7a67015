"""The version of a document: made of the epoch and the offset of the event that wrote it (INV 22).

OpenSearch refuses a write whose version is lower than the document's. Positions in the source's log would not do: after
a failover to a server with lower file numbers, every later write would be refused. Within one epoch, all events of a key
are in one partition, so their offsets are in order. A recovery raises the epoch, so nothing from before can win.

A version is 63 bits: 15 for the epoch, 48 for the offset + 1. The number 0 is left for rows read from the source, which
every event after the read replaces.

An event is written with a version type that refuses an equal version, because an equal version is the same event. A row
that was read from the source again is written with the version that its document has, by the type that allows this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_cdc.core.errors import SinkError
from airflow_cdc.core.stamp import EPOCH, READ_EPOCH

OFFSET_BITS: Final = 48
MOST_EPOCHS: Final = 2**15
MOST_OFFSETS: Final = 2**OFFSET_BITS - 1


def of_event(epoch: int, offset: int) -> int:
    """The version written by the event at `offset`."""
    if not 0 <= offset < MOST_OFFSETS:
        raise SinkError(f"offset {offset} does not fit into a document's version")
    return of_read(epoch) + offset + 1


def of_read(epoch: int) -> int:
    """The version of a row that was read from the source: lower than that of any event of its epoch."""
    if not 0 <= epoch < MOST_EPOCHS:
        raise SinkError(
            f"epoch {epoch} does not fit into a document's version",
            todo="Start the table again: drop its alias and indexes, and recover it with a new control document.",
        )
    return epoch << OFFSET_BITS


def removable(epoch: int, unread: int) -> int:
    """Documents of deleted rows below this version may be removed, if events from offset `unread` on are not applied.

    OpenSearch counts the removal as one more version and remembers it for a while: that must be below every unread event's, too.
    """
    return of_event(epoch, unread) - 1


def epoch_of(summary: Mapping[str, str]) -> int:
    """The epoch that a commit's summary states; 0 if it states none."""
    return int(summary.get(EPOCH) or summary.get(READ_EPOCH) or 0)
