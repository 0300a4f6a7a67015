"""The cursors of all clients of one destination, and how one of them is written: all at once, with a copy to go back to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.offset import RawOffset
from airflow_cdc.core.text import read_json

CLIENT: Final = 1001  # the client under which Canal itself writes to topics

# client → its cursor; None: it has subscribed and acknowledged nothing yet
ByClient = Mapping[int, RawOffset | None]


class Cursors(Protocol):
    """Where a destination's cursors are. Raises ConnectorError."""

    def read(self) -> ByClient:
        """Every client's cursor."""
        ...

    def stored(self) -> Mapping[str, bytes]:
        """What holds the cursors, to the byte: place → content."""
        ...

    def replace(self, before: Mapping[str, bytes], cursor: RawOffset | None) -> None:
        """Give every client this cursor (None: take all away). Raises ConnectorError where `before` is no longer there."""
        ...

    def put_back(self, before: Mapping[str, bytes]) -> None:
        """Make the content what it was, to the byte."""
        ...


@dataclass(slots=True)
class CursorStore:
    """The offset of one destination (core.offset.OffsetStore).

    The smallest cursor of all clients decides where Canal reads on, so a write sets all of them. What stood there before is
    kept, and writing our client's old cursor again puts all of it back to the byte.
    """

    cursors: Cursors
    check_stopped: Callable[[], None]
    _before: Mapping[str, bytes] | None = None
    _own: RawOffset | None = field(default=None)

    def read(self) -> RawOffset | None:
        """Our client's cursor."""
        return self.cursors.read().get(CLIENT)

    def write(self, raw: RawOffset | None) -> None:
        """Replace it. Raises ConnectorError unless the server is stopped: it would write over it when it ends."""
        self.check_stopped()
        if self._before is not None and raw == self._own:
            self.cursors.put_back(self._before)
            return
        before, own = self.cursors.stored(), self.read()
        self.cursors.replace(before, raw)
        if self._before is None:
            self._before, self._own = before, own


def text(value: object) -> bytes:
    """JSON as Canal writes it: no blanks, keys in their order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def readable(content: bytes) -> dict[str, object] | None:
    """A JSON object; None if it is none."""
    try:
        value = read_json(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parsed(content: bytes, place: str) -> dict[str, object]:
    """A JSON object. Raises ConnectorError."""
    value = readable(content)
    if value is None:
        raise ConnectorError(
            f"{place} holds no cursor: it is not a JSON object",
            where=place,
            todo="Stop Canal and restore it from a backup, or take it away so that Canal begins at instance.properties.",
        )
    return value


def changed_meanwhile(place: str) -> ConnectorError:
    """The error about somebody else who wrote there."""
    return ConnectorError(
        "somebody else wrote the cursor meanwhile; nothing was changed",
        where=place,
        todo="Find who: another Canal server of this destination, or a person. Then do this again.",
    )
