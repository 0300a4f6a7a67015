"""What the decisions need of the outside: one protocol per kind of system.

A class in systems/ implements a port by its shape, without importing it. Only what every system of a
kind must offer stands here; what one server can do beyond that is asked of it by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from airflow_cdc.core.diagnosis.observation import ConnectorFacts, SourceFacts
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.topics import TopicState


@runtime_checkable
class SourcePort(Protocol):
    """A source database server. Every method raises SourceError for a server that fails or refuses."""

    def facts(self) -> SourceFacts:
        """What diagnosis needs to know of the server, read at one time."""
        ...

    def reserve_log(self, timeout: float) -> None:
        """Have the server keep its log from now on for the stopped connector, where it does so for a named reader only.

        What was kept for it before and can no longer be read is given up. DeadlineError after `timeout` seconds.
        """
        ...

    def watermark(self) -> Watermark:
        """W: a position at or before everything that a read started afterwards can see (INV 7, 8)."""
        ...

    def position(self) -> Watermark:
        """A position at or after everything that is visible now. Not usable as W."""
        ...

    def wait_visible(self, watermark: Watermark, timeout: float) -> None:
        """Return once all transactions up to W are visible; raise DeadlineError after `timeout` seconds."""
        ...

    def check_same_server(self, watermark: Watermark) -> None:
        """Raise unless this is the server W was taken on, up without a break since (INV 9)."""
        ...


@runtime_checkable
class ConnectorPort(Protocol):
    """A CDC engine's control interface. Every method raises ConnectorError for what it cannot do."""

    def facts(self, name: str) -> ConnectorFacts:
        """State, tasks, settings without secrets, and the stored offset."""
        ...

    def stop(self, name: str, *, timeout: float = 60.0) -> None:
        """Stop, and return when no task is left; raise DeadlineError after `timeout` seconds."""
        ...

    def resume(self, name: str) -> None:
        """Start a stopped connector."""
        ...

    def restart(self, name: str) -> None:
        """Restart a failed connector and its failed tasks, once."""
        ...

    def alter_offsets(self, name: str, partition: Mapping[str, Any], value: Mapping[str, Any] | None) -> str:
        """Replace the stored offset of a stopped connector. Nothing is validated: read it back."""
        ...


@runtime_checkable
class TransportPort(Protocol):
    """The topics between connector and sink. Every method raises TransportError."""

    def topic_states(self, names: Sequence[str]) -> Mapping[str, TopicState]:
        """The named topics that exist, with the first and next offset of each partition."""
        ...


@runtime_checkable
class ControlPort(Protocol):
    """The control table of one pipeline: lease, epoch, open recovery, ledger. Changed by compare-and-set."""

    def acquire(self, owner: str, ttl: float) -> object:
        """Take or keep the lease for `ttl` seconds. Raises LeaseHeldError."""
        ...

    def release(self, owner: str) -> object:
        """Give the lease back, if `owner` holds it."""
        ...

    def close_recovery(self, run_id: str) -> object:
        """Close the recovery that `run_id` opened."""
        ...

    def ledger_get(self, run_id: str) -> Mapping[str, Any]:
        """What `run_id` has finished so far."""
        ...

    def ledger_set(self, run_id: str, key: str, value: Any) -> object:
        """Keep a value for `run_id`, replacing an earlier one."""
        ...

    def ledger_once(self, run_id: str, key: str, value: Any) -> Any:
        """Keep a value unless one stands already; return the one that stands."""
        ...


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A pipeline's control document as a store holds it.

    Attributes:
        text: JSON, as control/document.py writes it; "" where something was stored and no document is in it any more.
        version: what the store calls this state of it; only that store can compare it.
    """

    text: str
    version: str


class ControlStore(Protocol):
    """Keeps one document per pipeline, changed by compare-and-set. control/control.py does the rest."""

    @property
    def where(self) -> str:
        """How messages name the server or catalog."""
        ...

    def place(self, pipeline: str) -> str:
        """How messages name the place of one document."""
        ...

    def load(self, pipeline: str) -> StoredDocument | None:
        """The document as it stands; None before the first write. Raises UnknownStateError if it cannot be read."""
        ...

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        """Replace the document of version `expected` (None: there is none yet) by `text`.

        Raises StaleHeadError if the stored version is another one, UnknownStateError if the write may or may not stand, and
        an error of the store's own for a write that it refuses. Makes what the store needs at the first write.
        """
        ...
