"""Tables that others write from the topics: what a topic must be, so that a recovery can correct them through it (INV 23, 47)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from airflow_cdc.core.errors import SchemaError, TransportError

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table
    from airflow_cdc.core.topics import TopicState

_INSTEAD: Final = (
    "A ghost can only be seen against all that the topic ever said. Let the connector write the table into a topic that is"
    " compacted or kept whole (cleanup.policy=compact, or retention.ms=-1 and retention.bytes=-1), from a snapshot on."
)
# a reader that takes longer than this share of delete.retention.ms could miss the tombstone of a record that it has read
_SHARE: Final = 0.5


def check_keyed(table: Table) -> None:
    """Raise SchemaError for a table without a key: its topic does not say which row a record is about."""
    if table.keyless:
        raise SchemaError(
            "a table without a key can't be corrected through its topic: no record names the row that it is about",
            where=f"table {table.full_name}",
            todo="Give it a primary key or a message key (message.key.columns), or leave it out of the pipeline.",
        )


def check_complete(state: TopicState | None, topic: str, where: str) -> TopicState:
    """The state of a topic that is complete from its beginning. Raises TransportError with the evidence for another.

    A topic begins at offset 0 until records are removed by age or size, or by hand. Compaction moves no beginning, and leaves
    the last record of each key.
    """
    state = check_written(state, topic, where)
    if late := {p: begin for p, (begin, _) in state.partitions.items() if begin > 0}:
        parts = ", ".join(f"partition {p} begins at offset {begin}" for p, begin in sorted(late.items()))
        raise TransportError(f"the topic {topic} is not complete: {parts}", where=where, todo=_INSTEAD)
    return state


def is_complete(state: TopicState) -> bool:
    """Whether the topic has its beginning (see check_complete)."""
    return not any(begin for begin, _ in state.partitions.values())


def check_written(state: TopicState | None, topic: str, where: str) -> TopicState:
    """The state of a topic that has a record, which corrections are written like. Raises TransportError."""
    if state is None or not state.partitions:
        raise TransportError(f"the topic {topic} does not exist", where=where, todo=_INSTEAD)
    if all(begin == end for begin, end in state.partitions.values()):
        raise TransportError(
            f"the topic {topic} has no record, and corrections are written as its newest one is",
            where=where,
            todo="Let the connector snapshot the table, then recover.",
        )
    return state


def check_time(state: TopicState, config: Mapping[str, str], seconds: float, where: str) -> None:
    """Raise TransportError if reading a compacted topic took so long that tombstones may have gone meanwhile.

    A tombstone stays for delete.retention.ms after the record that it deletes is gone.
    """
    if state.compaction is None:
        return
    limit = int(config.get("delete.retention.ms", "86400000")) / 1000
    if seconds > limit * _SHARE:
        raise TransportError(
            f"reading the topic {state.name} took {seconds:.0f} s, and tombstones are only kept for {limit:.0f} s",
            where=where,
            todo="Raise delete.retention.ms of the topic, then clear the task.",
        )
