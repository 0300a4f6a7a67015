"""What a connector has stored as its offset: the raw value, and its meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from airflow_cdc.core.position import Position, Watermark

# A stored value, or the key it is stored under: kept to the byte, and looked into by the codec alone.
RawOffset: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One stored offset: the value, and the key that it is stored under. `value` None: the key has none."""

    key: RawOffset
    value: RawOffset | None

    def to_json(self) -> dict[str, Any]:
        """{"partition": key, "offset": value}, the words of Kafka Connect's REST and of a backup file."""
        return {"partition": dict(self.key), "offset": dict(self.value) if self.value else None}


def entry_of(entries: Sequence[OffsetEntry], server: str) -> OffsetEntry:
    """The entry of the connector that calls its source `server`; without a value where nothing is stored."""
    return next((one for one in entries if one.key.get("server") == server), OffsetEntry({"server": server}, None))


class Inside(StrEnum):
    """What a connector was in the middle of when it stored its offset."""

    NOTHING = "nothing"
    TRANSACTION = "transaction"  # only a part of the transaction that comes next was sent
    SNAPSHOT = "snapshot"  # its own copy of the tables is not complete


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A stored offset, read once by the codec of its connector and source.

    Attributes:
        raw: the unchanged value; a backup holds this.
        key: under which it is stored, such as {"server": "shop"}.
        position: where the connector would read on; None if `raw` cannot be read.
        fault: why it cannot; "" if it can.
        place: the position's place in the log as a person reads it, such as mysql-bin.000004:198; "" without a position.
        written: when the change at the position was written, in unix seconds; None where the offset does not say.
        progress: all that `raw` says but the time: it stays the same for as long as the connector does not move.
        foreign: what in `raw` belongs to another make of source and tells nothing about this one; "" if nothing does.
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

        An offset inside the connector's own snapshot is past no position. One inside a transaction is past W only if it names
        something beyond W: a connector that lost its connection within a transaction may read it again from its begin, and
        its offset meanwhile names that transaction as done (seen on Debezium 3.6.1, with 15,285 of its 60,000 events in the
        topic): if W ends with it, W is not read yet.
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

        If so, rows read at W include everything it has sent, and it may continue from where it is (INV 39).
        """
        if self.position is None or self.inside is Inside.SNAPSHOT:
            return None
        return watermark.position.covers(self.position)


class OffsetCodec(Protocol):
    """Raw value ↔ position, for one connector and one kind of source."""

    def read(self, raw: RawOffset, key: RawOffset) -> StoredOffset:
        """What a stored value means. Never raises: what cannot be read is the answer's `fault`."""
        ...

    def faults(self, raw: RawOffset) -> tuple[str, ...]:
        """Every fault of a value that is about to be written, as text; () when it is well formed."""
        ...

    def at(self, position: Position, written: int | None) -> RawOffset:
        """The value that makes the connector start at a position; `written`: its time in unix seconds, if known.

        Everything else is reset: the whole value is replaced. Raises PositionError for a position of another kind of source.
        """
        ...

    def moved(self, before: RawOffset | None, after: RawOffset) -> str:
        """What a move from one stored value to another skips and repeats, in words. Raises OffsetRejectedError."""
        ...


class OffsetStore(Protocol):
    """Where one connector keeps its offset. Raises the errors of the system that keeps it."""

    def read(self) -> RawOffset | None:
        """The raw value; None while there is none."""
        ...

    def write(self, raw: RawOffset | None) -> None:
        """Replace it; None takes it away. Only while the connector is stopped. Nothing is validated: read it back."""
        ...
