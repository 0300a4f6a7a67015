"""What a connector has stored as its offset: exactly as it stands, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from airflow_cdc.core.position import JsonObject, Position


class Inside(StrEnum):
    """What a connector was in the middle of when it stored its offset."""

    NOTHING = "nothing"
    TRANSACTION = "transaction"  # only a part of the transaction that comes next was sent
    SNAPSHOT = "snapshot"  # its own copy of the tables is not complete


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A stored offset, read once by the codec of its connector and source.

    Attributes:
        raw: the value, kept as it was: a backup is this.
        key: under which it is stored, such as {"server": "shop"}.
        position: where the connector would read on; None if `raw` cannot be read.
        fault: why it cannot; "" if it can.
        place: the position's place in the log as a person reads it, such as mysql-bin.000004:198; "" without a position.
        written: when the change at the position was written, in unix seconds; None where the offset does not say.
        foreign: what in `raw` belongs to another make of source and tells nothing about this one; "" if nothing does.
    """

    raw: JsonObject
    key: JsonObject
    position: Position | None = None
    fault: str = ""
    inside: Inside = Inside.NOTHING
    place: str = ""
    written: int | None = None
    foreign: str = ""


class OffsetCodec(Protocol):
    """Raw value ↔ position, for one connector and one kind of source."""

    def read(self, raw: JsonObject, key: JsonObject) -> StoredOffset:
        """What a stored value means. Never raises: what cannot be read is the answer's `fault`."""
        ...

    def faults(self, raw: JsonObject) -> tuple[str, ...]:
        """Every fault of a value that is about to be written, as text; () when it is well formed."""
        ...

    def moved(self, before: JsonObject | None, after: JsonObject) -> str:
        """What a move from one stored value to another skips and repeats, in words. Raises OffsetRejectedError."""
        ...
