"""Positions in a source's log, as neutral values: a position, a recovery's watermark W, which changes it covers, and whether one is available.

Only the source knows the parts of a position (sources/*/position.py). Everything else only compares, prints and
stores it. In JSON a position carries its kind, so a document can be read without its source at hand. The source also says
once, as `Covered`, which changes a watermark covers: code that asks whether an event is covered knows no log format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from airflow_cdc.core.errors import MALFORMED, PositionError

JsonObject: TypeAlias = Mapping[str, object]

FORMAT = 2  # of a watermark in JSON; the first format had no number and held MySQL's file, pos and gtids itself


class Position(Protocol):
    """A place in one source's log. Only the source that made it can compare it."""

    @property
    def kind(self) -> str:
        """The kind of source, as pipelines.yaml names it."""
        ...

    def covers(self, other: Position) -> bool | None:
        """Whether a reader at this position has read everything up to `other`; None: unknown, as on another server."""
        ...

    def __str__(self) -> str: ...

    def to_json(self) -> dict[str, object]:
        """Plain JSON with its `kind`, which `kinds.read_position` reads."""
        ...


ReadPosition: TypeAlias = Callable[[JsonObject], Position]


@dataclass(frozen=True, slots=True)
class Watermark:
    """The source position W taken before the first snapshot read (INV 7), or another position read from a server.

    Attributes:
        server: the server's own name for itself in lower case, such as a server_uuid; "" if it has none.
        taken_at: when it was taken, by the server's clock; UTC if it has no time zone.
    """

    position: Position
    server: str
    taken_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "server", self.server.strip().lower())
        if self.taken_at.tzinfo is None:
            object.__setattr__(self, "taken_at", self.taken_at.replace(tzinfo=UTC))

    def __str__(self) -> str:
        return str(self.position)

    @property
    def hash(self) -> str:
        """sha256 of everything in W: the key under which ledgers keep what was read (INV 3)."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, object]:
        """{"format": 2, "position": {"kind": …}, "server": text, "taken_at": ISO time}."""
        return {
            "format": FORMAT,
            "position": self.position.to_json(),
            "server": self.server,
            "taken_at": self.taken_at.isoformat(),
        }

    @classmethod
    def from_json(cls, value: JsonObject | str, read_position: ReadPosition) -> Watermark:
        """The inverse of to_json(); accepts its JSON text too. Raises PositionError, also for an unknown format."""
        try:
            raw: Mapping[str, Any] = json.loads(value) if isinstance(value, str) else value
            if (known := raw.get("format")) != FORMAT:
                raise PositionError(
                    f"watermark of format {1 if known is None else known}, but only format {FORMAT} can be read here",
                    todo="Another version of airflow_cdc wrote it: recover the table (diff_repair) with this one.",
                )
            return cls(read_position(raw["position"]), str(raw["server"]), datetime.fromisoformat(raw["taken_at"]))
        except MALFORMED as error:
            raise PositionError(f"watermark cannot be read: {error!r}") from error


class Availability(StrEnum):
    """Whether a position can still be read from a source's log."""

    AVAILABLE = "available"
    NOT_YET = "not yet"  # the source has not reached it
    LOST = "lost"
    UNKNOWN = "unknown"  # could not be read: neither available nor lost


@dataclass(frozen=True, slots=True)
class Available:
    """The answer, with the reason in words."""

    state: Availability
    why: str

    def __bool__(self) -> bool:
        return self.state is Availability.AVAILABLE


# (n, pos, row) within an origin: the number of the transaction or of the log file, the place, the row of the event.
Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Covered:
    """Which changes are certainly at or before a watermark, so that rows read at it include them. By default none.

    Attributes:
        numbers: origin → spans (first, last) of `n`; all changes with such a number are covered, whatever clocks say.
        below: origin → the first (n, pos) that is not covered. A log that was reset reaches these places a second
            time; `taken_ms` tells the two apart.
        taken_ms: when the watermark was taken, in milliseconds since 1970.
    """

    numbers: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    below: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    taken_ms: int = 0

    def holds(self, origin: str | None, place: Place | None) -> bool:
        """Whether the change at `place` is covered; False without a place."""
        if origin is None or place is None:
            return False
        if any(first <= place[0] <= last for first, last in self.numbers.get(origin, ())):
            return True
        return origin in self.below and place[:2] < self.below[origin]


NOTHING = Covered()
