"""A schema registry, as those who decode see it, and what a connector's settings say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.events.record import SchemaId


class Registry(Protocol):
    """One registry, asked by the driver alone. What it said once counts for good: an id never names another schema."""

    @property
    def where(self) -> str:
        """How messages name it."""
        ...

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        ...

    def reach(self) -> None:
        """Ask it for something small. Raises TransportError if it does not answer, or refuses the login."""
        ...

    def texts(self, schemas: Iterable[SchemaId]) -> Mapping[SchemaId, str]:
        """The text of each schema; those that it does not know are absent.

        Raises TransportError if it does not answer, or refuses the login; ConfigError for ids of another kind than its own.
        """
        ...


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """A schema registry, as a connector's own settings name it."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)


@runtime_checkable
class RecordSettings(Protocol):
    """Settings of a connector whose records may have their schemas in a registry, and parts of themselves in headers."""

    @property
    def headers(self) -> bool:
        """Whether its records must be read with their headers."""
        ...

    @property
    def shows_before(self) -> bool:
        """Whether its records show a row as it was before its change, where the source's log has that."""
        ...

    @property
    def needs_registry(self) -> bool:
        """Whether its records can be read only with schemas of a registry."""
        ...

    @property
    def needs_avro(self) -> bool:
        """Whether some of them are Avro, which is read by a package."""
        ...

    @property
    def registry(self) -> RegistryAddress | None:
        """That registry, by its own settings; None where they name none that can be used."""
        ...
