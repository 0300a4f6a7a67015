"""The offset that a connector has stored: the raw value and its meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from airflow_cdc.core.position import Position, Watermark

# A stored value, or its key. Kept byte for byte; only the codec looks inside.
RawOffset: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One stored offset: the value and its key. `value` None: nothing is stored under the key."""

    key: RawOffset
    value: RawOffset | None

    def to_json(self) -> dict[str, object]:
        """{"partition": key, "offset": value}, as in Kafka Connect's REST interface and in a backup file."""
        return {"partition": dict(self.key), "offset": dict(self.value) if self.value else None}


def entry_of(entries: Sequence[OffsetEntry], server: str) -> OffsetEntry:
    """The entry of the connector whose name for its source is `server`; without a value if nothing is stored."""
    return next((one for one in entries if one.key.get("server") == server), OffsetEntry({"server": server}, None))


class Inside(StrEnum):
    """What a connector was in the middle of when it stored its offset."""

    NOTHING = "nothing"
    TRANSACTION = "transaction"  # only part of the next transaction was sent
    SNAPSHOT = "snapshot"  # its own copy of the tables is incomplete


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A stored offset, read once by the codec of its connector and source.

    Attributes:
        raw: the unchanged value, as backups store it.
        key: the key under which it is stored, such as {"server": "shop"}.
        position: where the connector would continue to read; None if `raw` cannot be read.
        fault: why `raw` cannot be read; "" if it can.
        place: the position's place in the log as text, such as mysql-bin.000004:198; "" without a position.
        written: when the change at the position was written, in unix seconds; None if the offset does not say.
        progress: everything in `raw` except the time; it stays the same while the connector does not move.
        foreign: the part of `raw` that belongs to another kind of source and says nothing about this one; "" if none.
    """

    raw: RawOffset
    key: RawOffset
    position: Position | None = None
    fault: str = ""
    inside: Inside = Inside.NOTHING
    place: str = ""
    written: int | None = None
    progress: str = ""
    foreign: str = ""

    def has_read(self, watermark: Watermark) -> bool | None:
        """True if the connector has read everything up to W, False if not yet, None if unknown.

        An offset inside the connector's own snapshot is past no position. An offset inside a transaction is past W only
        if it names something beyond W. A connector that lost its connection within a transaction may read it again from
        its beginning, and meanwhile its offset names that transaction as done. (Seen on Debezium 3.6.1, with 15,285 of
        its 60,000 events in the topic.) If W ends with that transaction, W is not read yet.
        """
        if self.position is None:
            return None
        if self.inside is Inside.SNAPSHOT:
            return False
        covered = self.position.covers(watermark.position)
        if covered and self.inside is Inside.TRANSACTION:
            return not watermark.position.covers(self.position)
        return covered

    def held_by(self, watermark: Watermark) -> bool | None:
        """Whether W covers everything that the connector has read at this offset; None if unknown.

        If so, rows read at W include everything it has sent, and it may continue from its offset (INV 39).
        """
        if self.position is None or self.inside is Inside.SNAPSHOT:
            return None
        return watermark.position.covers(self.position)


class OffsetCodec(Protocol):
    """Raw value ↔ position, for one connector and one kind of source."""

    def read(self, raw: RawOffset, key: RawOffset) -> StoredOffset:
        """The meaning of a stored value. Never raises: for an unreadable value the result has a `fault`."""
        ...

    def faults(self, raw: RawOffset) -> tuple[str, ...]:
        """Every fault of a value that is about to be written, as text; () if it is well-formed."""
        ...

    def at(self, position: Position, written: int | None) -> RawOffset:
        """The value that makes the connector start at a position; `written`: its time in unix seconds, if known.

        Everything else is reset: the whole value is replaced. Raises PositionError for a position of another kind of source.
        """
        ...

    def moved(self, before: RawOffset | None, after: RawOffset) -> str:
        """What the connector skips or repeats if its offset moves from one value to the other, in words.

        Raises OffsetRejectedError.
        """
        ...


class OffsetStore(Protocol):
    """Where one connector keeps its offset. Raises the errors of the system that keeps it."""

    def read(self) -> RawOffset | None:
        """The raw value; None while there is none."""
        ...

    def write(self, raw: RawOffset | None) -> None:
        """Replace the value; None deletes it. Only while the connector is stopped. Validates nothing: read it back."""
        ...
