"""Positions in a MySQL server's log: a place in a binlog file, the position of a reader, and where a change stands.

A change with a GTID is ordered by the numbers of the server that committed it (with its tag); one without by the files
of the server that wrote it, named "<server id>/<base name>".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import total_ordering
from typing import ClassVar

from airflow_cdc.core.errors import MALFORMED, RESTORE_OFFSET, PositionError
from airflow_cdc.core.position import Covered, JsonObject, Place, Position, Watermark
from airflow_cdc.core.text import number_in
from airflow_cdc.fields import Fields
from airflow_cdc.sources.errors import OTHER_POSITION
from airflow_cdc.sources.mysql.gtid import GtidSet


@total_ordering
@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """A byte position in a binlog file, such as mysql-bin.000004:198.

    Positions compare only within one base name, by the file's number (mysql-bin.9 < mysql-bin.10,
    and .999999 < .1000000); comparing any others raises PositionError, because they have no order.
    """

    file: str
    pos: int

    def __post_init__(self) -> None:
        base, _, number = self.file.strip().rpartition(".")
        if not base or number_in(number) is None:
            raise PositionError(f"{self.file!r} is not a binlog file name", todo="Expected one like mysql-bin.000004.")
        if isinstance(self.pos, bool) or not isinstance(self.pos, int) or self.pos < 0:
            raise PositionError(
                f"binlog position {self.pos!r} is not a number of bytes",
                where=self.file,
                todo=RESTORE_OFFSET,
            )
        object.__setattr__(self, "file", self.file.strip())

    @classmethod
    def parse(cls, text: str) -> BinlogPosition:
        """Parse `file:pos`, the form that str() prints."""
        file, _, pos = text.strip().rpartition(":")
        if (place := number_in(pos)) is None:
            raise PositionError(f"{text!r} is not a binlog position", todo="Expected file:pos.")
        return cls(file, place)

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"

    @property
    def base(self) -> str:
        """The file's name without its number: mysql-bin."""
        return self.file.rpartition(".")[0]

    @property
    def file_number(self) -> int:
        """The file's number: 4 for mysql-bin.000004."""
        return int(self.file.rpartition(".")[2])

    def comparable(self, other: BinlogPosition) -> bool:
        """True if both are in one series of files, so that they can be ordered."""
        return self.base == other.base

    def __lt__(self, other: BinlogPosition) -> bool:
        if not self.comparable(other):
            raise PositionError(
                f"{self} and {other} are in different series of files and cannot be ordered",
                todo="Recover: after a new series of files only that tells what is missing.",
            )
        return (self.file_number, self.pos) < (other.file_number, other.pos)


def file_after(files: Iterable[str], file: str) -> str | None:
    """The first of `files` after `file` in the same series; None if there is none."""
    here = BinlogPosition(file, 0)
    later = [place for place in (BinlogPosition(name, 0) for name in files) if here.comparable(place) and here < place]
    return min(later).file if later else None


def moved_in_files(old: BinlogPosition, new: BinlogPosition) -> str:
    """A sentence that says what a move from `old` to `new` skips or repeats."""
    if not old.comparable(new):
        return f"from {old} to {new}, which cannot be compared"
    verb = "skips" if new > old else "repeats"
    return "the same position" if new == old else f"{verb} what lies between {old} and {new}"


@dataclass(frozen=True, slots=True)
class MySqlPosition:
    """The position of a reader of a MySQL server's log.

    On a GTID server `gtids` is the full set and alone counts (INV 7). Elsewhere it is None; file and position count.
    `server_id` is the server whose files these are; None if it is not known, as right after a snapshot. If only the set
    is known, `file` is "". `by_file`: the reader asks by file and position even on a GTID server. `at_last_read`: the last event that
    was read begins there, and not the next one.
    """

    file: str
    pos: int
    gtids: GtidSet | None = None
    server_id: int | None = field(default=None, compare=False)
    by_file: bool = field(default=False, compare=False)
    at_last_read: bool = field(default=False, compare=False)

    kind: ClassVar[str] = "mysql"

    def __post_init__(self) -> None:
        if self.file or self.gtids is None:
            object.__setattr__(self, "file", self.place.file)

    def __str__(self) -> str:
        return " ".join(str(part) for part in (self.file and self.place, self.gtids) if part not in ("", None))

    @property
    def place(self) -> BinlogPosition:
        """File and position alone. Raises PositionError if only the set is known."""
        return BinlogPosition(self.file, self.pos)

    def covers(self, other: Position) -> bool | None:
        """Compared by GTID if both have a set. A set and no set do not compare, unless the reader of one goes by file.

        Otherwise compared by file, within one series of one server's files.
        """
        if not isinstance(other, MySqlPosition):
            return None
        files = (self.by_file or other.by_file) and self.file and other.file
        if (self.gtids or other.gtids) and not files:
            return None if self.gtids is None or other.gtids is None else other.gtids.issubset(self.gtids)
        if not self.may_be_on(other.server_id) or not self.place.comparable(other.place):
            return None
        return other.place <= self.place

    def may_be_on(self, server_id: int | None) -> bool:
        """False if the position is known to be in another server's files."""
        return self.server_id is None or server_id is None or self.server_id == server_id

    def to_json(self) -> dict[str, object]:
        """Plain JSON; `gtids` is text without newlines, or null."""
        gtids = None if self.gtids is None else str(self.gtids)
        value = {"kind": self.kind, "file": self.file, "pos": self.pos, "gtids": gtids, "server_id": self.server_id}
        return {**value, "by_file": True} if self.by_file else value

    @classmethod
    def from_json(cls, value: JsonObject) -> MySqlPosition:
        """The inverse of to_json(). Raises PositionError."""
        raw = Fields(value)
        try:
            gtids = None if raw["gtids"] is None else GtidSet.parse(raw.text("gtids"))
            server_id = None if raw["server_id"] is None else raw.number("server_id")
            return cls(str(raw["file"]), raw.number("pos"), gtids, server_id, raw.get("by_file") is True)
        except MALFORMED as error:
            raise PositionError(
                f"MySQL position cannot be read: {error!r}",
                todo=RESTORE_OFFSET,
            ) from error


def mysql_position(position: Position) -> MySqlPosition:
    """`position` as a MySqlPosition. Raises PositionError for a position of another kind of source."""
    if not isinstance(position, MySqlPosition):
        raise PositionError(
            f"{position} is a position of a {position.kind} source, not of MySQL",
            todo=OTHER_POSITION,
        )
    return position


def at_last_read(position: Position | None) -> bool:
    """Whether the place of a position is where the last event begins that was read."""
    return isinstance(position, MySqlPosition) and position.at_last_read


def read_position(value: JsonObject) -> MySqlPosition:
    """See MySqlPosition.from_json."""
    return MySqlPosition.from_json(value)


def log_name(server_id: str, base: str) -> str:
    """The name of a server's series of files."""
    return f"{server_id}/{base}"


def covered(watermark: Watermark | None) -> Covered:
    """The changes at or before W: by GTID where W has a set, else by place in the files of W's own server."""
    if watermark is None:
        return Covered()
    position = mysql_position(watermark.position)
    if position.gtids is None:
        below = {log_name(str(position.server_id), position.place.base): (position.place.file_number, position.pos)}
        return Covered(below=below, taken_ms=int(watermark.taken_at.timestamp() * 1000))
    return Covered(numbers={f"{uuid}:{tag}" if tag else uuid: spans for uuid, tag, spans in position.gtids.items})


def place_of(gtid: object, server_id: object, file: object, pos: object) -> tuple[str, Place] | None:
    """(origin, place) of a statement, as reported by a connector; None where the report has no place."""
    if gtid:
        source, _, number = str(gtid).rpartition(":")
        n = number_in(number)
        return None if n is None or not source else (source.lower(), (n, 0, 0))
    try:
        at = BinlogPosition(str(file), int(str(pos)))
    except (PositionError, ValueError):
        return None
    return log_name(str(server_id), at.base), (at.file_number, at.pos, 0)
