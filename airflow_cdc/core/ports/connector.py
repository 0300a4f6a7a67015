"""A CDC engine, as the steps use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from airflow_cdc.core.ports.base import Client
from airflow_cdc.core.ports.transport import Transport

if TYPE_CHECKING:
    from airflow_cdc.core.endpoint import Login
    from airflow_cdc.core.observation import (
        Capture,
        ConnectorFacts,
        ConnectorState,
        HistoryFacts,
    )
    from airflow_cdc.core.offset import OffsetCodec, OffsetEntry, OffsetStore, RawOffset
    from airflow_cdc.core.table import Table


class Connector(Client, Protocol):
    """The control interface of the CDC engine. `name` is the connector's. Every method raises ConnectorError for what it
    cannot do.
    """

    @property
    def endpoint(self) -> Any:
        """Its kind's own Endpoint, for the kind's own adapters."""
        ...

    @property
    def codec(self) -> OffsetCodec:
        """How its stored offsets are read and made."""
        ...

    @property
    def own_topics(self) -> OwnTopics:
        """What the connector keeps in topics. It is read through the transport, so that a hanging broker does not look like a connector fault."""
        ...

    def facts(self, name: str) -> ConnectorFacts:
        """State, tasks, settings without secrets, and the stored offset, in one reading."""
        ...

    # ---- stop and start

    def state(self, name: str) -> ConnectorState:
        """Its state and its tasks', now."""
        ...

    def stop(self, name: str, *, timeout: float = 60.0) -> None:
        """Stop, and return when no task produces any more; raise DeadlineError after `timeout` seconds."""
        ...

    def resume(self, name: str) -> None:
        """Ask a stopped connector to run. It answers before it runs."""
        ...

    def wait_running(self, name: str, *, timeout: float = 120.0) -> None:
        """Return when it runs; raise with the cause it gives, or DeadlineError."""
        ...

    def restart(self, name: str) -> None:
        """Restart a failed connector and its failed tasks, once."""
        ...

    # ---- where it has read to

    def entries(self, name: str) -> Sequence[OffsetEntry]:
        """All stored offsets."""
        ...

    def committed_offset(self, name: str, server: str) -> RawOffset | None:
        """The value stored for the connector's own name `server`, or None."""
        ...

    def offset_store(self, name: str, key: RawOffset) -> OffsetStore:
        """Where it keeps the offset of `key`."""
        ...

    # ---- its settings, and where it reads

    def raw_config(self, name: str) -> Mapping[str, str]:
        """The settings with their secrets: to be written back, never for a log, XCom or report."""
        ...

    def change_config(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Replace the settings `before` by `after`, and read them back; on any difference put `before` back."""
        ...

    def is_away(self, name: str) -> bool:
        """Whether `point_at` sent it elsewhere, and `point_back` did not yet."""
        ...

    def point_at(self, name: str, there: Login, home: Login) -> None:
        """Let it read at another server than the one whose login is `home`; what it read at is kept."""
        ...

    def point_back(self, name: str) -> None:
        """Let it read again where it read before. Safe to run again."""
        ...


class OwnTopics(Protocol):
    """What a connector keeps in topics of its own."""

    def with_elsewhere(self, name: str, facts: ConnectorFacts, topics: Transport) -> ConnectorFacts:
        """The facts with offsets that another topic keeps for it."""
        ...

    def history(self, capture: Capture, topics: Transport, definitions: Mapping[str, Table]) -> HistoryFacts | None:
        """Its table definitions, and their differences from `definitions`; None if they are kept elsewhere."""
        ...
