"""What Debezium stores for such a source: {"file": 4, "line": 17}."""

from __future__ import annotations

from airflow_cdc.core.errors import OffsetRejectedError, PositionError
from airflow_cdc.core.offset import StoredOffset
from airflow_cdc.core.position import JsonObject
from airflow_cdc_jsonlog.position import JsonLogPosition, read_position


class JsonLogCodec:
    """Raw value ↔ position."""

    def read(self, raw: JsonObject, key: JsonObject) -> StoredOffset:
        """What a stored value means. Never raises: what cannot be read is the answer's `fault`."""
        try:
            position = read_position(raw)
        except PositionError as error:
            return StoredOffset(raw, key, fault=error.what)
        return StoredOffset(raw, key, position, place=str(position))

    def faults(self, raw: JsonObject) -> tuple[str, ...]:
        """Every fault of a value that is about to be written, as text; () when it is well formed."""
        unknown = tuple(f"{name!r} is not a key of it" for name in raw if name not in ("file", "line"))
        fault = self.read(raw, {}).fault
        return (*unknown, *([fault] if fault else []))

    def moved(self, before: JsonObject | None, after: JsonObject) -> str:
        """What a move from one stored value to another skips or repeats. Raises OffsetRejectedError."""
        if faults := self.faults(after):
            raise OffsetRejectedError(f"the offset cannot be read: {'; '.join(faults)}", reasons=faults)
        old, new = self._position(before), self._position(after)
        if old is None or new is None:
            return "there was no offset before"
        if old == new:
            return "the same position"
        return f"skips {old} to {new}" if new.covers(old) else f"repeats {new} to {old}"

    def _position(self, raw: JsonObject | None) -> JsonLogPosition | None:
        position = None if raw is None else self.read(raw, {}).position
        return position if isinstance(position, JsonLogPosition) else None
