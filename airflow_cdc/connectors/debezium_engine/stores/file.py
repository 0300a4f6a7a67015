"""Offsets in the file of Kafka Connect's FileOffsetBackingStore."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_cdc.connectors.debezium_engine.java_map import JavaMap, NotAMapError
from airflow_cdc.connectors.debezium_engine.stores.offsets import Stored, changed_meanwhile
from airflow_cdc.core.errors import ConnectorError, DeadlineError
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.files import replace_connectors_file

# a running engine writes the file from its beginning, so a reader may see half of it
_HALF_WRITTEN_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class FileOffsets:
    """The file at `path`. Where it is not there yet, or is empty, there are no offsets: so Kafka Connect reads it."""

    path: Path

    @property
    def where(self) -> str:
        """How messages name the file."""
        return str(self.path)

    def read(self) -> Stored:
        """All offsets."""
        return _texts(self._map())

    def replace(self, key: str, before: str | None, value: str | None) -> None:
        """Write the file with this value; a copy of the old one stays beside it as NAME.before."""
        now = self._map()
        if _texts(now).get(key) != before:
            raise changed_meanwhile(self.where)
        if self.path.exists():
            replace_connectors_file(
                self.path.with_name(f"{self.path.name}.before"), self.path.read_bytes(), like=self.path
            )
        new = now.having(key.encode(), None if value is None else value.encode())
        replace_connectors_file(self.path, new.to_bytes(), like=self.path)

    def _map(self) -> JavaMap:
        def whole() -> JavaMap:
            content = self._content()
            try:
                return JavaMap.from_bytes(content) if content else JavaMap()
            except NotAMapError as error:
                raise NotYet(str(error)) from None

        try:
            return poll_until(whole, timeout=_HALF_WRITTEN_SECONDS, interval=0.05, what="the offsets to be written")
        except DeadlineError as error:
            raise ConnectorError(
                f"the file holds no offsets: {error.last}",
                where=self.where,
                todo="Check connector.offsets_file in pipelines.yaml, and the engine's offset.storage.file.filename.",
            ) from None

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ConnectorError(
                f"the file of the offsets cannot be read: {error.strerror}",
                where=self.where,
                todo="Let the worker's user read it.",
            ) from None


def _texts(content: JavaMap) -> dict[str, str | None]:
    return {
        key.decode(errors="replace"): None if value is None else value.decode(errors="replace")
        for key, value in content.entries.items()
    }
