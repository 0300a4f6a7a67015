"""The topics themselves: consumers that nobody has to know, put right through what they read. Their tables are elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_cdc.core.endpoint import Unlimited
from airflow_cdc.core.kind import Lazy, SinkKind
from airflow_cdc.core.observation import SinkTableFacts
from airflow_cdc.core.pipeline import SinkSpec
from airflow_cdc.core.settings import key, settings
from airflow_cdc.core.setup import Setup

WHERE = "the topics' consumers"


@settings
class TopicsSettings(SinkSpec):
    """Whoever reads the topics. Nobody's tables are read or written: what the topics say is compared and corrected."""

    namespace: str = key("Not used with topics.", default="")
    writer: Literal["consumers"] = key(
        "Who writes the tables: the topics' consumers.", default="consumers", kw_only=True
    )

    @property
    def where(self) -> str:
        """How messages name it."""
        return "the topics"


@dataclass(frozen=True, slots=True)
class TopicsEndpoint(Unlimited):
    """It has no address of its own: the transport's counts."""

    where: str = WHERE
    dataset: str = ""


class Topics(Unlimited):
    """What is known of the consumers' tables without asking: that they are there (core.ports.Sink)."""

    def __init__(self, endpoint: TopicsEndpoint) -> None:
        self.where = endpoint.where

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


# `airflow cdc init` has no question about it
SETUP = Setup()

KIND = SinkKind(
    name="topics",
    title="Consumers of the topics",
    settings=TopicsSettings,
    endpoint=Lazy(f"{__name__}:TopicsEndpoint"),
    client=Lazy(f"{__name__}:Topics"),
    hook=None,
    setup=Lazy(f"{__name__}:SETUP"),
)
