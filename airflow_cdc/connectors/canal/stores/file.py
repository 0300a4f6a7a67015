"""Cursors in meta.dat, the file of a Canal server that has no ZooKeeper.

A running Canal empties the file and writes it anew each second, so a reader may find it empty or cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_cdc.connectors.canal.stores.cursors import CLIENT, ByClient, changed_meanwhile, parsed, readable, text
from airflow_cdc.core.errors import MALFORMED, ConnectorError, DeadlineError
from airflow_cdc.core.offset import RawOffset
from airflow_cdc.core.poll import poll_until
from airflow_cdc.files import replace_connectors_file

_WRITTEN_S: Final = 3.0  # Canal writes the file in moments; one that stays unreadable for so long is damaged


@dataclass(frozen=True, slots=True)
class FileCursors:
    """`path`: CONF/DESTINATION/meta.dat. A file that is not there holds no cursor."""

    path: Path
    destination: str

    def read(self) -> ByClient:
        """Every client's cursor."""
        try:
            return {int(one["clientIdentity"]["clientId"]): one.get("cursor") for one in _clients(self._document())}
        except MALFORMED:
            raise self._unreadable("it does not say which client a cursor is of") from None

    def stored(self) -> Mapping[str, bytes]:
        """The file's bytes; nothing where there is no file."""
        content = self._content()
        return {} if content is None else {str(self.path): content}

    def replace(self, before: Mapping[str, bytes], cursor: RawOffset | None) -> None:
        """Write the file with this cursor for every client; a copy of the old one stays beside it as meta.dat.before."""
        if self.stored() != before:
            raise changed_meanwhile(self._where)
        content = before.get(str(self.path))
        document = parsed(content, self._where) if content is not None else self._new()
        if content is not None:
            self._write(self.path.with_name("meta.dat.before"), content)
        for one in _clients(document):
            one.pop("cursor", None)
            if cursor is not None:
                one["cursor"] = dict(cursor)
        self._write(self.path, text(document))

    def put_back(self, before: Mapping[str, bytes]) -> None:
        """Write the old bytes, or take the file away where there was none."""
        content = before.get(str(self.path))
        if content is None:
            self.path.unlink(missing_ok=True)
        else:
            self._write(self.path, content)

    @property
    def _where(self) -> str:
        return str(self.path)

    def _document(self) -> Mapping[str, object]:
        """What the file says once it is whole; {} where there is no file."""

        def whole() -> Mapping[str, object] | None:
            content = self._content()
            return {} if content is None else readable(content)

        try:
            return poll_until(whole, timeout=_WRITTEN_S, interval=0.05, what="meta.dat to be whole")
        except DeadlineError:
            return parsed(self._content() or b"", self._where)

    def _content(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(f"it cannot be read: {error.strerror}") from None

    def _new(self) -> dict[str, object]:
        client = {"clientIdentity": {"clientId": CLIENT, "destination": self.destination, "filter": ""}}
        return {"clientDatas": [client], "destination": self.destination}

    def _write(self, path: Path, content: bytes) -> None:
        """Whole or not at all, with the old file's owner and rights: Canal must be able to write it again."""
        replace_connectors_file(path, content, like=self.path)

    def _unreadable(self, why: str) -> ConnectorError:
        return ConnectorError(
            f"{self.path.name}: {why}", where=self._where, todo="Check connector.conf in pipelines.yaml, and the file."
        )


def _clients(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(document.get("clientDatas") or [])
