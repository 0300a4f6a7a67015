"""The offset that a MySQL source of Flink CDC stores: file, position and GTIDs, each as text."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from airflow_cdc.core.errors import RESTORE_OFFSET, CdcError, OffsetRejectedError
from airflow_cdc.core.offset import Inside, RawOffset, StoredOffset
from airflow_cdc.core.position import Position
from airflow_cdc.core.text import number_in
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition, moved_in_files, mysql_position

SPECIFIC: Final = "SPECIFIC"
_KEYS: Final = ("transaction_id", "ts_sec", "file", "pos", "kind", "gtids", "row", "event", "server_id")
_NUMBERS: Final = ("ts_sec", "pos", "row", "event", "server_id")


class FlinkCodec:
    """See core.offset.OffsetCodec."""

    def read(self, raw: RawOffset, key: RawOffset) -> StoredOffset:
        """What a stored offset means."""
        if faults := tuple(_faults(raw)):
            return StoredOffset(raw, key, fault=f"the stored offset cannot be read: {'; '.join(faults)}")
        position = _position(raw)
        inside = _number(raw, "event") or _number(raw, "row")
        progress = {name: value for name, value in raw.items() if name != "ts_sec"}
        return StoredOffset(
            raw,
            key,
            position,
            inside=Inside.TRANSACTION if inside else Inside.NOTHING,
            place=str(position.place),
            written=_number(raw, "ts_sec") or None,
            progress=str(progress),
        )

    def faults(self, raw: RawOffset) -> tuple[str, ...]:
        """Every fault of an offset that is about to be written, as text."""
        unknown = (f"unknown key {key!r}{_nearest(key)}" for key in raw if key not in _KEYS)
        return (*unknown, *_faults(raw))

    def at(self, position: Position, written: int | None) -> RawOffset:
        """The offset that makes a new source start there. With GTIDs the whole set: it alone counts then."""
        there = mysql_position(position)
        gtids = {"gtids": str(there.gtids)} if there.gtids else {}
        time = {"ts_sec": str(written)} if written is not None else {}
        return {**time, "file": there.file, "pos": str(there.pos), "kind": SPECIFIC, **gtids, "row": "0", "event": "0"}

    def moved(self, before: RawOffset | None, after: RawOffset) -> str:
        """What a move from one offset to another skips and repeats, in words. Raises OffsetRejectedError."""
        if before is None:
            return "there was no offset before"
        for raw in (before, after):
            if faults := tuple(_faults(raw)):
                raise OffsetRejectedError(
                    f"the offset cannot be read: {'; '.join(faults)}",
                    reasons=faults,
                    todo=RESTORE_OFFSET,
                )
        old, new = _position(before), _position(after)
        if old.gtids and new.gtids:
            gap, overlap = new.gtids - old.gtids, old.gtids - new.gtids
            texts = [f"{verb} {part}" for verb, part in (("skips", gap), ("repeats", overlap)) if part]
            return "; ".join(texts) or "the same transactions"
        return moved_in_files(old.place, new.place)


def _position(raw: RawOffset) -> MySqlPosition:
    gtids = GtidSet.parse(str(raw["gtids"])) if raw.get("gtids") else None
    return MySqlPosition(str(raw["file"]), int(str(raw["pos"])), gtids, _number(raw, "server_id") or None)


def _number(raw: RawOffset, key: str) -> int:
    return int(str(raw.get(key) or 0))


def _faults(raw: Mapping[str, object]) -> Iterator[str]:
    if raw.get("kind", SPECIFIC) != SPECIFIC:
        yield f"kind is {raw['kind']!r}: only {SPECIFIC} names a position"
    for key in _NUMBERS:
        if raw.get(key) is not None and not (isinstance(raw[key], str) and number_in(str(raw[key])) is not None):
            yield f"{key} must be a number of 0 or more as text, not {raw[key]!r}"
    yield from (f"{key} is missing" for key in ("file", "pos") if raw.get(key) is None)
    for key, check in (("file", lambda text: BinlogPosition(text, 0)), ("gtids", GtidSet.parse)):
        if raw.get(key):
            yield from _refused(key, raw[key], check)
        elif key == "file" and raw.get(key) is not None:
            yield "file is empty"


def _refused(key: str, value: object, check: Callable[[str], object]) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{key} must be text, not {value!r}"
        return
    try:
        check(value)
    except CdcError as error:
        yield f"{key}: {error}"


def _nearest(key: object) -> str:
    close = difflib.get_close_matches(str(key), _KEYS, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
