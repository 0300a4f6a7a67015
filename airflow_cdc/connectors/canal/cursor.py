"""The cursor that Canal stores for a client: a server's address (identity) and a place in its log (`postion`, Canal's spelling)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from airflow_cdc.core.errors import RESTORE_OFFSET, CdcError, OffsetRejectedError, PositionError
from airflow_cdc.core.offset import RawOffset, StoredOffset
from airflow_cdc.core.position import Position
from airflow_cdc.fields import Fields
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition, moved_in_files, mysql_position

TYPE: Final = "com.alibaba.otter.canal.protocol.position.LogPosition"
_PLACE: Final = "postion"
_IDENTITY: Final = "identity"
_KEYS: Final = ("@type", _IDENTITY, _PLACE)
_IDENTITY_KEYS: Final = ("slaveId", "sourceAddress")
_ADDRESS_KEYS: Final = ("address", "port")
_PLACE_KEYS: Final = ("gtid", "included", "journalName", "position", "serverId", "timestamp")
_MOST_PORTS: Final = 65535

# host, port → whether that is the server that Canal reads; None: it cannot be told
Recognises = Callable[[str, int], bool | None]


def _nothing_known(_host: str, _port: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Cursor:
    """A cursor, read.

    Attributes:
        address: host:port of the server on which it was taken, as Canal resolved it.
        place: where the last acknowledged change begins or, for a transaction that was acknowledged whole, its commit.
        gtids: None where Canal does not follow GTIDs.
        server_id: of the server that wrote the event there; None where the cursor does not say.
        timestamp: when that was, in milliseconds; None where the cursor does not say.
    """

    address: str
    place: BinlogPosition
    gtids: GtidSet | None = None
    server_id: int | None = None
    timestamp: int | None = None

    @classmethod
    def from_value(cls, value: RawOffset) -> Cursor:
        """Read a cursor as Canal stores it. Raises OffsetRejectedError listing every fault; unknown keys are none."""
        if faults := tuple(_faults(value)):
            raise OffsetRejectedError(
                f"the stored cursor cannot be read: {'; '.join(faults)}",
                reasons=faults,
                todo=RESTORE_OFFSET,
            )
        at, place = _mapping(_mapping(value[_IDENTITY])["sourceAddress"]), _mapping(value[_PLACE])
        return cls(
            f"{at['address']}:{at['port']}",
            BinlogPosition(place.text("journalName"), place.number("position")),
            GtidSet.parse(place.text("gtid")) if place.get("gtid") else None,
            place.number("serverId", 0) or None,
            place.number("timestamp", 0) or None,
        )


@dataclass(frozen=True, slots=True)
class CursorCodec:
    """Canal's cursors over a MySQL server.

    A codec of the bare kind knows of no server; the connector's own is told what its settings say.

    Attributes:
        by_gtid: `canal.instance.gtidon`: a set in the cursor then decides, and file and position do not count.
        typed: whether a cursor must carry `@type` (in ZooKeeper) or must not (in meta.dat); None: either.
        recognises: whether an address is that of the server which Canal reads: from another it does not take a position.
        address: host and port of that server, for cursors of our own making; None: not known.
    """

    by_gtid: bool = False
    typed: bool | None = None
    recognises: Recognises = field(default=_nothing_known, compare=False)
    address: tuple[str, int] | None = None

    def read(self, raw: RawOffset, key: RawOffset) -> StoredOffset:
        """What a stored cursor means."""
        try:
            cursor = Cursor.from_value(raw)
        except OffsetRejectedError as error:
            return StoredOffset(raw, key, fault=str(error))
        place, gtids = cursor.place, cursor.gtids if self.by_gtid else None
        position = MySqlPosition(
            place.file, place.pos, gtids, cursor.server_id, by_file=gtids is None, at_last_read=True
        )
        seconds = None if cursor.timestamp is None else cursor.timestamp // 1000
        progress = f"{cursor.address} {place} {cursor.gtids or ''}"
        return StoredOffset(raw, key, position, place=str(place), written=seconds, progress=progress)

    def faults(self, raw: RawOffset) -> tuple[str, ...]:
        """Every fault of a cursor that is about to be written, as text."""
        return (*_unknown(raw), *_faults(raw), *self._of_settings(raw))

    def at(self, position: Position, written: int | None) -> RawOffset:
        """The cursor that makes Canal start there; file and position and, where Canal follows GTIDs, the set."""
        there = mysql_position(position)
        if self.address is None:
            raise PositionError(
                "the server's address, which a cursor of Canal must carry, is not known here",
                todo="Start the instance once, so that it stores a cursor of its own, or name its database in its settings.",
            )
        host, port = self.address
        type_key = {"@type": TYPE} if self.typed else {}
        gtid = str(there.gtids) if self.by_gtid and there.gtids else ""
        place = {
            "gtid": gtid,
            "included": False,
            "journalName": there.file,
            "position": there.pos,
            "serverId": there.server_id or 0,
            "timestamp": (written or 0) * 1000,
        }
        return {**type_key, _IDENTITY: {"slaveId": -1, "sourceAddress": {"address": host, "port": port}}, _PLACE: place}

    def moved(self, before: RawOffset | None, after: RawOffset) -> str:
        """What a move from one cursor to another skips and repeats, in words. Raises OffsetRejectedError."""
        if before is None:
            return "there was no cursor before"
        old, new = Cursor.from_value(before), Cursor.from_value(after)
        if self.by_gtid and old.gtids and new.gtids:
            gap, overlap = new.gtids - old.gtids, old.gtids - new.gtids
            texts = [f"{verb} {part}" for verb, part in (("skips", gap), ("repeats", overlap)) if part]
            return "; ".join(texts) or "the same transactions"
        return moved_in_files(old.place, new.place)

    def stranger(self, raw: RawOffset) -> str:
        """host:port of another server on which the cursor was taken; "" if it is the one that Canal reads, or unknown."""
        try:
            address = Cursor.from_value(raw).address
        except OffsetRejectedError:
            return ""
        host, _, port = address.rpartition(":")
        return address if self.recognises(host, int(port)) is False else ""

    def _of_settings(self, raw: RawOffset) -> Iterator[str]:
        if self.typed is True and raw.get("@type") is None:
            yield f'"@type" is missing: in ZooKeeper Canal reads no cursor without it; write {TYPE}'
        if self.typed is False and "@type" in raw:
            yield '"@type" does not stand in meta.dat'
        if address := self.stranger(raw):
            yield f"identity names {address}, which is not the server that Canal reads: it would ignore the position"


def _unknown(raw: RawOffset) -> Iterator[str]:
    """Keys that Canal does not know, at every level."""
    identity = _mapping(raw.get(_IDENTITY))
    levels = (
        ("", raw, _KEYS),
        (f"{_IDENTITY}.", identity, _IDENTITY_KEYS),
        (f"{_IDENTITY}.sourceAddress.", _mapping(identity.get("sourceAddress")), _ADDRESS_KEYS),
        (f"{_PLACE}.", _mapping(raw.get(_PLACE)), _PLACE_KEYS),
    )
    for prefix, values, keys in levels:
        yield from (f"unknown key {prefix + str(key)!r}{_meant(key)}" for key in values if key not in keys)


def _meant(key: object) -> str:
    return f" (Canal spells it {_PLACE!r})" if key == "position" else ""


def _mapping(value: object) -> Fields:
    return Fields(value) if isinstance(value, Mapping) else Fields()


def _faults(value: RawOffset) -> Iterator[str]:
    if "@type" in value and value["@type"] != TYPE:
        yield f'"@type" is {value["@type"]!r}, must be {TYPE}'
    yield from _identity_faults(value.get(_IDENTITY))
    yield from _place_faults(value.get(_PLACE))


def _identity_faults(identity: object) -> Iterator[str]:
    at = _mapping(_mapping(identity).get("sourceAddress"))
    address, port = at.get("address"), at.get("port")
    if not isinstance(address, str) or not address.strip():
        yield f"{_IDENTITY}.sourceAddress.address is missing: Canal fails without it"
    if not _is_count(port) or not 0 < port <= _MOST_PORTS:
        yield f"{_IDENTITY}.sourceAddress.port is no port"


def _place_faults(value: object) -> Iterator[str]:
    place = _mapping(value)
    try:
        BinlogPosition(_text(place.get("journalName")), 0)
    except PositionError as error:
        yield f"{_PLACE}.journalName: {error.what}"
    if not _is_count(place.get("position")):
        yield f"{_PLACE}.position must be a number of 0 or more"
    if place.get("included") is not False:
        yield f"{_PLACE}.included must be false: with true Canal starts and delivers nothing"
    for key in ("serverId", "timestamp"):
        if place.get(key) is not None and not _is_count(place[key]):
            yield f"{_PLACE}.{key} must be a number of 0 or more"
    yield from _gtid_faults(place.get("gtid"))


def _gtid_faults(gtid: object) -> Iterator[str]:
    if not gtid and gtid in (None, ""):
        return
    try:
        GtidSet.parse(_text(gtid))
    except CdcError as error:
        yield f"{_PLACE}.gtid: {error}"


def _text(value: object) -> str:
    """Raises PositionError for what is not text."""
    if not isinstance(value, str):
        raise PositionError(f"{value!r} is not text")
    return value


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
