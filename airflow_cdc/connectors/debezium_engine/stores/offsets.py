"""One engine's offset in a store of several, and what a write to it keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.offset import RawOffset
from airflow_cdc.core.text import read_json

# key → value, both as the text that the engine wrote; None: no value
Stored: TypeAlias = Mapping[str, str | None]


class Offsets(Protocol):
    """A place with offsets. Raises ConnectorError."""

    @property
    def where(self) -> str:
        """How messages name the place."""
        ...

    def read(self) -> Stored:
        """All of them."""
        ...

    def replace(self, key: str, before: str | None, value: str | None) -> None:
        """Set one (None: take it away). Raises ConnectorError where `before` is no longer there."""
        ...


@dataclass(slots=True)
class EngineOffsetStore:
    """The offset under one key (core.offset.OffsetStore).

    The text that stood there before the first write is kept: writing that value again restores it to the byte.
    """

    offsets: Offsets
    key: str
    check_stopped: Callable[[], None]
    _before: str | None = None
    _written: bool = field(default=False)

    def read(self) -> RawOffset | None:
        """The value; None if there is none."""
        return value_of(self.offsets.read().get(self.key), self.offsets.where)

    def write(self, raw: RawOffset | None) -> None:
        """Replace it. Raises ConnectorError unless the engine is stopped: it would write over it when it ends."""
        self.check_stopped()
        now = self.offsets.read().get(self.key)
        if not self._written:
            self._before, self._written = now, True
        self.offsets.replace(self.key, now, self._text(raw))

    def _text(self, raw: RawOffset | None) -> str | None:
        if raw is None:
            return None
        same = self._before is not None and value_of(self._before, self.offsets.where) == dict(raw)
        return self._before if same else json.dumps(dict(raw), separators=(",", ":"), ensure_ascii=False)


def value_of(text: str | None, where: str) -> RawOffset | None:
    """A stored value. Raises ConnectorError for a text that is no JSON object."""
    if text is None:
        return None
    try:
        value = read_json(text)
    except ValueError:
        value = text
    if value is not None and not isinstance(value, dict):
        raise ConnectorError(
            "an offset is not a JSON object",
            where=where,
            todo="Another program's offsets are kept there: check the engine's offset.storage settings.",
        )
    return value


def changed_meanwhile(where: str) -> ConnectorError:
    """The error about somebody else who wrote there."""
    return ConnectorError(
        "somebody else wrote the offset meanwhile; nothing was changed",
        where=where,
        todo="Find who: another engine with these offsets, or a person. Then do this again.",
    )
