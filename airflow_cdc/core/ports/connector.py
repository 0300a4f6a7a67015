"""A CDC engine, as the steps use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from airflow_cdc.core.endpoint import Client
from airflow_cdc.core.ports.transport import Transport

if TYPE_CHECKING:
    from airflow_cdc.core.endpoint import Endpoint, Login
    from airflow_cdc.core.observation import (
        Capture,
        ConnectorFacts,
        ConnectorState,
        HistoryFacts,
    )
    from airflow_cdc.core.offset import OffsetCodec, OffsetEntry, OffsetStore, RawOffset
    from airflow_cdc.core.table import Table

# ids of schemas in a registry (events.record.SchemaId) → their texts; raises TransportError
SchemaTexts: TypeAlias = Callable[[Iterable[Any]], Mapping[Any, str]]


class Connector(Client, Protocol):
    """The control interface of the CDC engine. `name` is the connector's name. Every method raises ConnectorError if
    it fails.
    """

    @property
    def endpoint(self) -> Endpoint:
        """Its kind's own Endpoint, for the kind's own adapters."""
        ...

    @property
    def codec(self) -> OffsetCodec:
        """Reads and builds its stored offsets."""
        ...

    @property
    def own_topics(self) -> OwnTopics:
        """What the connector keeps in topics, read through the transport: a hanging broker is no connector fault."""
        ...

    def facts(self, name: str) -> ConnectorFacts:
        """State, tasks, settings without secrets, and the stored offset, read together."""
        ...

    # ---- stop and start

    def state(self, name: str) -> ConnectorState:
        """The current state of the connector and its tasks."""
        ...

    def stop(self, name: str, *, timeout: float = 60.0) -> None:
        """Stop it, and return when no task produces any more. Raises DeadlineError after `timeout` seconds."""
        ...

    def resume(self, name: str) -> None:
        """Ask a stopped connector to run. Returns before it runs."""
        ...

    def wait_running(self, name: str, *, timeout: float = 120.0) -> None:
        """Return when it runs. Raises ConnectorError with the cause that it reports, or DeadlineError."""
        ...

    def restart(self, name: str) -> None:
        """Restart a failed connector and its failed tasks, once."""
        ...

    # ---- its offsets

    def entries(self, name: str) -> Sequence[OffsetEntry]:
        """All stored offsets."""
        ...

    def committed_offset(self, name: str, server: str) -> RawOffset | None:
        """The value stored for the connector's own name `server`, or None."""
        ...

    def offset_store(self, name: str, key: RawOffset) -> OffsetStore:
        """The store of the offset under `key`."""
        ...

    # ---- its settings, and the server it reads

    def raw_config(self, name: str) -> Mapping[str, str]:
        """The settings with their secrets, to write them back; never for a log, XCom or report."""
        ...

    def change_config(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Replace the settings `before` by `after` and read them back; on any difference restore `before`."""
        ...

    def rebuilding(self, name: str) -> Mapping[str, str]:
        """The settings, in its version's words, with which each start reads all table definitions again; {}: it has none."""
        ...

    def is_away(self, name: str) -> bool:
        """Whether `point_at` moved it to another server and `point_back` has not moved it back."""
        ...

    def point_at(self, name: str, there: Login, home: Login) -> None:
        """Let it read another server than the one with the login `home`; the old address is kept."""
        ...

    def point_back(self, name: str) -> None:
        """Let it read its former server again. Safe to run again."""
        ...


class OwnTopics(Protocol):
    """What a connector keeps in topics of its own."""

    def with_elsewhere(
        self, name: str, facts: ConnectorFacts, topics: Transport, texts: SchemaTexts | None = None
    ) -> ConnectorFacts:
        """The facts, with offsets that another topic holds for it. `texts`: asks the registry of its records' schemas."""
        ...

    def history(self, capture: Capture, topics: Transport, definitions: Mapping[str, Table]) -> HistoryFacts | None:
        """Its table definitions, and their differences from `definitions`; None if they are kept elsewhere."""
        ...
