"""The position of a reader of a MariaDB server's log, and where a change stands there: ordered by its number within the domain.

That order holds whichever server wrote the change. A change without a GTID is ordered by the files of the server that
wrote it, as in MySQL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from airflow_cdc.core.errors import MALFORMED, RESTORE_OFFSET, PositionError
from airflow_cdc.core.position import Covered, JsonObject, Place, Position, Watermark
from airflow_cdc.fields import Fields
from airflow_cdc.sources.errors import OTHER_POSITION
from airflow_cdc.sources.mariadb.gtid import MariaDbGtid
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mysql.position import BinlogPosition
from airflow_cdc.sources.mysql.position import place_of as place_in_file


@dataclass(frozen=True, slots=True)
class MariaDbPosition:
    """`domains`: the last transaction of each domain; then only these count. None: only file and position are known.

    `read`: how many events after the place a connector has read; they belong to no transaction that it counts as done.
    """

    file: str
    pos: int
    domains: Domains | None = None
    server_id: int | None = field(default=None, compare=False)
    read: int = field(default=0, compare=False)

    kind: ClassVar[str] = "mariadb"

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", BinlogPosition(self.file, self.pos).file)

    def __str__(self) -> str:
        return f"{self.place} {self.domains}" if self.domains is not None else str(self.place)

    @property
    def place(self) -> BinlogPosition:
        """Only file and position."""
        return BinlogPosition(self.file, self.pos)

    def covers(self, other: Position) -> bool | None:
        """Compare by domains if both have them; else by file, within one series of one server's files."""
        if not isinstance(other, MariaDbPosition):
            return None
        if self.domains or other.domains:
            return None if self.domains is None or other.domains is None else other.domains.issubset(self.domains)
        servers = {self.server_id, other.server_id} - {None}
        if len(servers) > 1 or not self.place.comparable(other.place):
            return None
        return other.place <= self.place

    def to_json(self) -> dict[str, object]:
        """Plain JSON; `domains` is text such as "0-1-100,1-2-50", or null."""
        domains = None if self.domains is None else str(self.domains)
        return {"kind": self.kind, "file": self.file, "pos": self.pos, "domains": domains, "server_id": self.server_id}

    @classmethod
    def from_json(cls, value: JsonObject) -> MariaDbPosition:
        """The inverse of to_json(). Raises PositionError."""
        raw = Fields(value)
        try:
            domains = None if raw["domains"] is None else Domains.parse(raw.text("domains"))
            server_id = None if raw["server_id"] is None else raw.number("server_id")
            return cls(str(raw["file"]), raw.number("pos"), domains, server_id)
        except MALFORMED as error:
            raise PositionError(
                f"MariaDB position cannot be read: {error!r}",
                todo=RESTORE_OFFSET,
            ) from error


def mariadb_position(position: Position) -> MariaDbPosition:
    """`position` as a MariaDbPosition. Raises PositionError for a position of another kind of source."""
    if not isinstance(position, MariaDbPosition):
        raise PositionError(
            f"{position} is a position of a {position.kind} source, not of MariaDB",
            todo=OTHER_POSITION,
        )
    return position


def read_position(value: JsonObject) -> MariaDbPosition:
    """See MariaDbPosition.from_json."""
    return MariaDbPosition.from_json(value)


def covered(watermark: Watermark | None) -> Covered:
    """The changes at or before W: those up to W's number in each domain. Raises PositionError for a W without GTIDs."""
    if watermark is None:
        return Covered()
    position = mariadb_position(watermark.position)
    if not position.domains:
        raise PositionError(f"a watermark without GTIDs: {position}", todo="Recover again, with a new watermark.")
    return Covered(numbers={str(gtid.domain): [(1, gtid.number)] for gtid in position.domains.gtids})


def place_of(gtid: object, server_id: object, file: object, pos: object) -> tuple[str, Place] | None:
    """(origin, place) of a statement, as reported by a connector; None if the report has no place."""
    if not gtid:
        return place_in_file(None, server_id, file, pos)
    try:
        named = MariaDbGtid.parse(str(gtid))
    except PositionError:
        return None
    return str(named.domain), (named.number, 0, 0)
