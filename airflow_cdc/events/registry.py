"""A schema registry, as those who decode see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, Self

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
