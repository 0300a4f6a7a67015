"""Places in PostgreSQL's write-ahead log: an LSN, and a position that includes its server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any, ClassVar, Final

from airflow_cdc.core.errors import MALFORMED, RESTORE_OFFSET, PositionError
from airflow_cdc.core.position import JsonObject, Position
from airflow_cdc.sources.errors import OTHER_POSITION

_TEXT: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_LAST: Final = (1 << 64) - 1


@total_ordering
@dataclass(frozen=True, slots=True)
class Lsn:
    """A byte position in the log, 64 bits unsigned: `0/1788A40` as text, 24676928 as Debezium stores it."""

    value: int

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not 0 <= self.value <= _LAST:
            raise PositionError(f"{self.value!r} is not an LSN", todo="An LSN is a number of 64 bits without a sign.")

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """Parse `X/Y`, two hexadecimal 32-bit numbers. Raises PositionError."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise PositionError(f"{text!r} is not an LSN", todo="Expected one like 0/1788A40.")
        return cls((int(match[1], 16) << 32) + int(match[2], 16))

    def __str__(self) -> str:
        return f"{self.value >> 32:X}/{self.value & 0xFFFFFFFF:X}"

    def __lt__(self, other: Lsn) -> bool:
        return self.value < other.value

    def __sub__(self, other: Lsn) -> int:
        """Bytes of log between the two; negative if `other` is later."""
        return self.value - other.value


@dataclass(frozen=True, slots=True)
class PgPosition:
    """An LSN of one server's log.

    `system_id` and `timeline` identify it; "" and 0 if they were not stored (Debezium does not store them). They are
    compared before the LSN: a restored or promoted server continues the same numbers for other changes. `snapshot`
    (visible.py) lists the transactions that were visible there; "" if that was not read. `counted_since` shows whether
    the server has crashed since (crash.py); "" likewise.
    """

    lsn: Lsn
    timeline: int = 0
    system_id: str = ""
    snapshot: str = field(default="", compare=False)
    counted_since: str = field(default="", compare=False)

    kind: ClassVar[str] = "postgres"

    def __post_init__(self) -> None:
        if isinstance(self.timeline, bool) or not isinstance(self.timeline, int) or self.timeline < 0:
            raise PositionError(f"{self.timeline!r} is not a timeline", todo="Timelines count from 1.")

    @property
    def server(self) -> str:
        """`system identifier/timeline`, the server's name in watermarks; "" if neither is known."""
        return server_name(self.system_id, self.timeline) if self.system_id else ""

    def comparable(self, other: PgPosition) -> bool:
        """False when the two are known to be from different servers or timelines."""
        same_system = not self.system_id or not other.system_id or self.system_id == other.system_id
        return same_system and (not self.timeline or not other.timeline or self.timeline == other.timeline)

    def covers(self, other: Position) -> bool | None:
        """Whether everything up to `other` is at or before this position; None if they are from different servers."""
        if not isinstance(other, PgPosition) or not self.comparable(other):
            return None
        return self.lsn >= other.lsn

    def __str__(self) -> str:
        return f"{self.lsn} (timeline {self.timeline})" if self.timeline else str(self.lsn)

    def to_json(self) -> dict[str, object]:
        """Plain JSON that includes the kind of position; the LSN is text."""
        read = {"snapshot": self.snapshot, "counted_since": self.counted_since}
        said = {name: value for name, value in read.items() if value}
        return {"kind": self.kind, "lsn": str(self.lsn), "timeline": self.timeline, "system_id": self.system_id, **said}

    @classmethod
    def from_json(cls, value: JsonObject) -> PgPosition:
        """The inverse of to_json(). Raises PositionError."""
        raw: Mapping[str, Any] = value
        try:
            if raw["kind"] != cls.kind:
                raise PositionError(
                    f"a position of kind {raw['kind']!r} is not PostgreSQL's",
                    todo=OTHER_POSITION,
                )
            read = (str(raw.get(name) or "") for name in ("snapshot", "counted_since"))
            return cls(Lsn.parse(raw["lsn"]), raw["timeline"], str(raw["system_id"]), *read)
        except MALFORMED as error:
            raise PositionError(
                f"the position cannot be read: {error!r}",
                todo=RESTORE_OFFSET,
            ) from error


def postgres_position(position: Position) -> PgPosition:
    """`position` as a PgPosition. Raises PositionError for a position of another kind of source."""
    if not isinstance(position, PgPosition):
        raise PositionError(
            f"{position} is a position of a {position.kind} source, not of PostgreSQL",
            todo=OTHER_POSITION,
        )
    return position


def read_position(value: JsonObject) -> PgPosition:
    """See PgPosition.from_json."""
    return PgPosition.from_json(value)


def server_name(system_id: str, timeline: int) -> str:
    """How a watermark names the server: nothing else shows a restored backup or a promoted standby."""
    return f"{system_id}/{timeline}"
