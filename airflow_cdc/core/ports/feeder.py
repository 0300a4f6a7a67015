"""A sink connector, as the steps and applications use it: the program of others that fills the sink's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from airflow_cdc.core.endpoint import Client

if TYPE_CHECKING:
    from airflow_cdc.core.observation import ConnectorState


class Feeder(Client, Protocol):
    """Reads topics and writes tables, and commits to a consumer group how far it has read. Raises ConnectorError."""

    @property
    def name(self) -> str:
        """Its name in its own engine."""
        ...

    def state(self) -> ConnectorState:
        """The current state of it and of its tasks, with what they say of their failures."""
        ...

    def settings(self) -> Mapping[str, str]:
        """Its settings without secrets."""
        ...

    def group(self, settings: Mapping[str, str]) -> str:
        """The consumer group of a sink connector with these settings."""
        ...

    def letters_topic(self, settings: Mapping[str, str]) -> str:
        """The topic to which it sends the records that it cannot write; "": it has none."""
        ...

    def own_member(self, client_id: str) -> bool:
        """Whether a member of its group with this client id is one of its own tasks."""
        ...


class Groups(Protocol):
    """The consumer groups of a transport. Raises TransportError."""

    def members(self, group: str) -> tuple[str, ...]:
        """The client ids of a group's members; () of one that does not exist or is empty."""
        ...

    def committed(self, group: str) -> Mapping[str, Mapping[int, int]]:
        """Topic → partition → next offset that a group has committed; {} if there is none."""
        ...
