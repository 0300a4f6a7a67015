"""The methods of every port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from airflow_cdc.core.endpoint import CallLimits


class Client(Protocol):
    """The methods of every client of a system. Creating one opens no connection."""

    @property
    def where(self) -> str:
        """How messages name the system."""
        ...

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        ...
