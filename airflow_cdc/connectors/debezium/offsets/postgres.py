"""The offset value that Debezium's PostgreSQL connector stores in Kafka Connect.

LSNs are decimal numbers. The effect of each key was tested on 15 and 18 (docs/measured-facts.md):
- `lsn` is the last event; the connector drops whatever the server sends again up to there.
- `lsn_proc` alone is checked against the slot's restart_lsn at the start; without it nothing is checked.
- `lsn_commit` is the end of the last complete transaction; the slot's confirmed_flush_lsn follows it.
- `messageType` shows which of several messages with one LSN was the last; copied to another LSN it costs a row.
Connect accepts any value with 200; text where a number belongs kills the task with a ClassCastException.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_cdc.connectors.debezium.offsets import unknown_keys
from airflow_cdc.core.errors import RESTORE_OFFSET, CdcError, OffsetRejectedError
from airflow_cdc.core.offset import Inside, StoredOffset
from airflow_cdc.core.position import JsonObject, Position
from airflow_cdc.sources.postgres.position import Lsn, PgPosition, postgres_position

_LSNS: Final = ("lsn", "lsn_proc", "lsn_commit")
_NUMBERS: Final = (*_LSNS, "txId", "ts_usec")
_SNAPSHOT: Final = ("snapshot", "snapshot_completed", "last_snapshot_record")
_KEYS: Final = (*_NUMBERS, "messageType", *_SNAPSHOT, "transaction_id", "origin", "origin_lsn")
MESSAGE_TYPES: Final = (
    "BEGIN",
    "COMMIT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "TRUNCATE",
    "MESSAGE",
    "NOOP",
    "RELATION",
    "TYPE",
    "ORIGIN",
)


@dataclass(frozen=True, slots=True)
class PgOffset:
    """A stored offset. LSNs that are absent are None; `extra` holds the keys that carry no position, sorted."""

    lsn: Lsn
    proc: Lsn | None = None
    commit: Lsn | None = None
    message_type: str = ""
    ts_usec: int | None = None
    extra: tuple[tuple[str, object], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "extra", tuple(sorted(self.extra)))

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> PgOffset:
        """Read the value as Connect returns it. Raises OffsetRejectedError listing every fault.

        A key that is not known here is kept in `extra`: a newer connector may store more.
        """
        if faults := _faults(value):
            raise OffsetRejectedError(
                f"the stored offset cannot be read: {'; '.join(faults)}",
                reasons=faults,
                todo=RESTORE_OFFSET,
            )
        lsns = {name: None if value.get(name) is None else Lsn(value[name]) for name in _LSNS}
        return cls(
            lsn=Lsn(value["lsn"]),
            proc=lsns["lsn_proc"],
            commit=lsns["lsn_commit"],
            message_type=value.get("messageType") or "",
            ts_usec=value.get("ts_usec"),
            extra=tuple((k, v) for k, v in value.items() if k not in {*_LSNS, "messageType", "ts_usec"}),
        )

    @property
    def position(self) -> PgPosition:
        """The last event that was read. The value does not say which server it is from."""
        return PgPosition(self.lsn)

    @property
    def confirmed(self) -> Lsn:
        """Up to here the connector lets the server drop the log: the slot is not past it, unless someone moved it."""
        return self.commit or self.proc or self.lsn

    @property
    def checked(self) -> bool:
        """Whether the connector checks at its start that the server still has this place."""
        return self.proc is not None

    @property
    def in_snapshot(self) -> bool:
        """True while the connector's own first snapshot is not complete."""
        extra = dict(self.extra)
        return bool(extra.get("snapshot")) and not extra.get("snapshot_completed")


def value_at(lsn: Lsn) -> dict[str, int]:
    """The value that makes the connector start exactly after `lsn`, with its own check of the slot left on.

    Connect replaces the whole value, so keys that are not written are reset: above all messageType, then snapshot and
    transaction state. txId and ts_usec do not affect where it starts.
    """
    return dict.fromkeys(_LSNS, lsn.value)


def validate(value: Mapping[str, object]) -> tuple[str, ...]:
    """Every fault of a value that is about to be written, as text; () when it is well formed.

    Stricter than reading: a value without lsn_proc turns the connector's own check off, and a messageType belongs only
    to the event that it was stored with.
    """
    faults = [*unknown_keys(value, _KEYS)]
    if value.get("lsn") is not None and value.get("lsn_proc") is None and not value.get("snapshot"):
        faults.append("lsn_proc is missing: the connector would not check that the server still has the place")
    return (*faults, *_faults(value))


def moved(before: Mapping[str, object] | None, after: Mapping[str, object]) -> str:
    """What a move from one stored value to another skips and repeats, in words. Raises OffsetRejectedError."""
    if before is None:
        return "there was no offset before"
    old, new = PgOffset.from_value(before).lsn, PgOffset.from_value(after).lsn
    if old == new:
        return "the same position"
    verb = "skips" if new > old else "repeats"
    return f"{verb} what lies between {old} and {new} ({abs(new - old):,} bytes of log)"


def _faults(value: Mapping[str, object]) -> tuple[str, ...]:
    faults = [] if value.get("lsn") is not None else ["lsn is missing"]
    faults += [
        f"{key} must be a number of 64 bits without a sign, not {value[key]!r}"
        for key in _NUMBERS
        if value.get(key) is not None and not _is_lsn(value[key])
    ]
    if value.get("lsn") == 0:
        faults.append("lsn is 0, which no log holds")
    kind = value.get("messageType")
    if kind is not None and kind not in MESSAGE_TYPES:
        faults.append(f"messageType {kind!r} is not one that the connector knows")
    return tuple(faults)


def _is_lsn(value: object) -> bool:
    try:
        Lsn(value)  # type: ignore[arg-type]
    except CdcError:
        return False
    return True


class PostgresCodec:
    """The offset that Debezium's PostgreSQL connector stores."""

    def read(self, raw: JsonObject, key: JsonObject) -> StoredOffset:
        """What a stored value means."""
        try:
            offset = PgOffset.from_value(raw)
        except OffsetRejectedError as error:
            return StoredOffset(raw, key, fault=str(error))
        inside = Inside.SNAPSHOT if offset.in_snapshot else Inside.NOTHING
        written = None if offset.ts_usec is None else offset.ts_usec // 1_000_000
        progress = " ".join(f"{name}={raw.get(name)}" for name in (*_LSNS, "txId", "snapshot_completed"))
        place = str(offset.lsn)
        return StoredOffset(raw, key, offset.position, inside=inside, place=place, written=written, progress=progress)

    def faults(self, raw: JsonObject) -> tuple[str, ...]:
        """See `validate`."""
        return validate(raw)

    def at(self, position: Position, written: int | None) -> dict[str, object]:
        """The value that makes the connector start exactly after the position, with its own check of the slot left on.

        Debezium 1.9 ends with a NullPointerException (PostgresOffsetContext$Loader.load) if the value has no time.
        """
        time = {} if written is None else {"ts_usec": written * 1_000_000}
        return {**value_at(postgres_position(position).lsn), **time}

    def moved(self, before: JsonObject | None, after: JsonObject) -> str:
        """See `moved`."""
        return moved(before, after)
