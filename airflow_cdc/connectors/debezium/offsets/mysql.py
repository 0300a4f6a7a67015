"""The offset value that Debezium's MySQL connector stores in Kafka Connect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_cdc.connectors.debezium.offsets import unknown_keys
from airflow_cdc.core.errors import RESTORE_OFFSET, CdcError, OffsetRejectedError
from airflow_cdc.core.offset import Inside, StoredOffset
from airflow_cdc.core.position import JsonObject, Position
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition, is_mariadb
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition, moved_in_files, mysql_position

_KEYS = (
    "file",
    "pos",
    "gtids",
    "ts_sec",
    "server_id",
    "event",
    "row",
    "snapshot",
    "snapshot_completed",
    "transaction_id",
)
_NUMBERS = ("pos", "ts_sec", "server_id", "event", "row")


@dataclass(frozen=True, slots=True)
class MySqlOffset:
    """A stored offset. `gtids` is None when the key is absent (a server without GTID) or holds MariaDB's, in `domains`.

    `event` and `row` say how much of the transaction at the position was already read. `extra` holds
    the keys that carry no position (snapshot and transaction state), sorted, so nothing is lost.
    """

    file: str
    pos: int
    gtids: GtidSet | None = None
    ts_sec: int | None = None
    server_id: int | None = None
    event: int = 0
    row: int = 0
    extra: tuple[tuple[str, object], ...] = ()
    domains: MariaDbPosition | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", BinlogPosition(self.file, self.pos).file)
        object.__setattr__(self, "extra", tuple(sorted(self.extra)))

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> MySqlOffset:
        """Read the value as Connect returns it. Raises OffsetRejectedError listing every fault.

        A key that is not known here is kept in `extra`: a newer connector may store more.
        """
        if faults := _faults(value):
            raise OffsetRejectedError(
                f"the stored offset cannot be read: {'; '.join(faults)}",
                reasons=faults,
                todo=RESTORE_OFFSET,
            )
        own = {k: value[k] for k in ("file", "pos", "ts_sec", "server_id") if value.get(k) is not None}
        gtids = None if value.get("gtids") is None else _gtids(value["gtids"])
        return cls(
            **own,
            gtids=gtids if isinstance(gtids, GtidSet) else None,
            domains=gtids if isinstance(gtids, MariaDbPosition) else None,
            event=value.get("event") or 0,
            row=value.get("row") or 0,
            extra=tuple((k, v) for k, v in value.items() if k not in _KEYS[:7]),
        )

    def to_value(self) -> dict[str, object]:
        """The value as Connect stores it; keys without content are left out."""
        value: dict[str, object] = {"file": self.file, "pos": self.pos}
        if (held := self.gtids if self.domains is None else self.domains) is not None:
            value["gtids"] = str(held)
        for key in ("ts_sec", "server_id"):
            if getattr(self, key) is not None:
                value[key] = getattr(self, key)
        for key in ("event", "row"):
            if getattr(self, key):
                value[key] = getattr(self, key)
        return {**value, **dict(self.extra)}

    @property
    def position(self) -> BinlogPosition:
        """File and position from which the connector would read on."""
        return BinlogPosition(self.file, self.pos)

    @property
    def by_gtid(self) -> bool:
        """True when GTIDs determine what was read; file and position are then ignored."""
        return bool(self.gtids) or bool(self.domains)

    @property
    def in_snapshot(self) -> bool:
        """True while the connector's own first snapshot is not complete."""
        extra = dict(self.extra)
        return bool(extra.get("snapshot")) and not extra.get("snapshot_completed")

    @property
    def in_transaction(self) -> bool:
        """True if the next transaction was already sent in part."""
        return bool(self.event or self.row)

    @property
    def inside(self) -> Inside:
        """What the connector was in the middle of."""
        if self.in_snapshot:
            return Inside.SNAPSHOT
        return Inside.TRANSACTION if self.in_transaction else Inside.NOTHING

    def may_be_on(self, server_id: int) -> bool:
        """False when the offset names another server. Right after a snapshot it names none."""
        return self.server_id is None or self.server_id == server_id


def stored(raw: JsonObject, key: JsonObject, offset: MySqlOffset, position: Position, *, foreign: str) -> StoredOffset:
    """What an offset contains besides its position."""
    return StoredOffset(
        raw,
        key,
        position,
        inside=offset.inside,
        place=str(offset.position),
        written=offset.ts_sec,
        progress=str(replace(offset, ts_sec=None).to_value()),
        foreign=foreign,
    )


class MySqlCodec:
    """The offset that Debezium's MySQL connector stores."""

    def read(self, raw: JsonObject, key: JsonObject) -> StoredOffset:
        """What a stored value means; MariaDB's GTIDs in it are foreign here."""
        try:
            offset = MySqlOffset.from_value(raw)
        except OffsetRejectedError as error:
            return StoredOffset(raw, key, fault=str(error))
        position = MySqlPosition(offset.file, offset.pos, offset.gtids, offset.server_id)
        return stored(raw, key, offset, position, foreign=str(offset.domains or ""))

    def faults(self, raw: JsonObject) -> tuple[str, ...]:
        """See `validate`."""
        return validate(raw)

    def at(self, position: Position, written: int | None) -> dict[str, object]:
        """The value that makes the connector start there; event, row, snapshot* and transaction* are all reset.

        On a GTID server the FULL executed set is written: with gtids missing Debezium ignores file and pos and replays
        from gtid_purged.
        """
        there = mysql_position(position)
        return MySqlOffset(there.file, there.pos, there.gtids, written).to_value()

    def moved(self, before: JsonObject | None, after: JsonObject) -> str:
        """See `moved`."""
        return moved(before, after)


def validate(value: Mapping[str, object]) -> tuple[str, ...]:
    """Every fault of a value that is about to be written, as text; () when it is well formed."""
    return (*unknown_keys(value, _KEYS), *_faults(value))


def _faults(value: Mapping[str, object]) -> tuple[str, ...]:
    faults = [f"{key} is missing" for key in ("file", "pos") if value.get(key) is None]
    faults += [
        f"{key} must be a number of 0 or more, not {value[key]!r}"
        for key in _NUMBERS
        if value.get(key) is not None and not _is_count(value[key])
    ]
    return tuple(faults + _text_faults(value))


def moved(before: Mapping[str, object] | None, after: Mapping[str, object]) -> str:
    """What a move from one stored value to another skips and repeats, in words."""
    if before is None:
        return "there was no offset before"
    old, new = MySqlOffset.from_value(before), MySqlOffset.from_value(after)
    if old.gtids is not None and new.gtids is not None:
        skipped, repeated = new.gtids - old.gtids, old.gtids - new.gtids
        texts = [f"skips {skipped} ({skipped.count} transactions)" if skipped else ""]
        texts += [f"repeats {repeated} ({repeated.count} transactions)" if repeated else ""]
        return "; ".join(text for text in texts if text) or "the same transactions"
    return moved_in_files(old.position, new.position)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text_faults(value: Mapping[str, object]) -> list[str]:
    return [*_fault_of(value, "file", _check_file), *_fault_of(value, "gtids", _gtids)]


def _fault_of(value: Mapping[str, object], key: str, check: Callable[[str], object]) -> list[str]:
    text = value.get(key)
    if text is None:
        return []
    if not isinstance(text, str):
        return [f"{key} must be text, not {text!r}"]
    try:
        check(text)
    except CdcError as error:
        return [f"{key}: {error}"]
    return []


def _gtids(text: str) -> GtidSet | MariaDbPosition:
    """MySQL's set or MariaDB's position, distinguished by their form."""
    return MariaDbPosition.parse(text) if is_mariadb(text) else GtidSet.parse(text)


def _check_file(text: str) -> BinlogPosition:
    return BinlogPosition(text, 0)
