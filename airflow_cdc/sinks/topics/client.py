"""The client of a sink that is only the topics: its tables are elsewhere, and known to nobody here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.observation import SinkTableFacts

WHERE = "the topics' consumers"


@dataclass(frozen=True, slots=True)
class TopicsEndpoint:
    """It has no address of its own: the transport's counts."""

    where: str = WHERE
    dataset: str = ""

    def limited(self, _: CallLimits) -> Self:
        """Itself: nothing is called."""
        return self


class Topics:
    """What is known of the consumers' tables without asking: that they are there (core.ports.Sink)."""

    def __init__(self, endpoint: TopicsEndpoint) -> None:
        self.where = endpoint.where

    def limited(self, _: CallLimits) -> Self:
        """Itself: nothing is called."""
        return self

    @property
    def staging(self) -> None:
        """None: they are written by their consumers alone."""
        return None

    @property
    def letters(self) -> None:
        """None: nothing is applied here."""
        return None

    def exists(self, namespace: str, table: str) -> bool:  # noqa: ARG002 - as Sink asks
        """Nobody can tell; a recovery reads the topic, which says it."""
        return True

    def facts(self, namespace: str, table: str) -> SinkTableFacts:  # noqa: ARG002 - as Sink asks
        """Neither a version nor a count: the topic is counted when it is compared."""
        return SinkTableFacts(exists=True)

    def row_count(self, namespace: str, table: str, version: int) -> int | None:  # noqa: ARG002 - as Sink asks
        """Not known without reading the topic."""
        return None
