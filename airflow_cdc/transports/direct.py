"""Nothing between connector and sink: the connector writes the sink itself, and there are no topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from airflow_cdc.core.endpoint import Unlimited
from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.kind import Lazy, TransportKind
from airflow_cdc.core.pipeline import TransportSpec
from airflow_cdc.core.settings import key, settings
from airflow_cdc.core.setup import Setup
from airflow_cdc.core.topics import NewestRecord, PartitionRanges, TopicState

WHERE = "no transport"


@settings
class DirectSettings(TransportSpec):
    """Nothing in between: the connector writes the sink itself, and events cannot be read again."""

    conn_id: str = key("Not used: there is nothing to connect to.", default="")


@dataclass(frozen=True, slots=True)
class DirectEndpoint(Unlimited):
    """The endpoint of a pipeline without a transport: it has no address."""

    where: str = WHERE


class DirectTransport(Unlimited):
    """No topic exists (core.ports.Transport); reading one raises UsageError."""

    def __init__(self, endpoint: DirectEndpoint) -> None:
        self.endpoint = endpoint
        self.where = endpoint.where

    @property
    def producer(self) -> None:
        """None: there are no topics."""
        return None

    @property
    def groups(self) -> None:
        """None: nothing is consumed."""
        return

    def topic_states(self, names: Iterable[str]) -> dict[str, TopicState]:  # noqa: ARG002
        """None exists."""
        return {}

    gathered = topic_states

    def end_offsets(self, names: Iterable[str]) -> dict[str, dict[int, int]]:  # noqa: ARG002
        """None exists."""
        return {}

    def offsets_since(self, parts: Mapping[str, Iterable[int]], at_ms: int) -> dict[str, dict[int, int | None]]:  # noqa: ARG002
        """None exists."""
        return {}

    def now_ms(self, names: Iterable[str]) -> None:  # noqa: ARG002
        """None: no record has a time."""
        return

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:  # noqa: ARG002
        """None exists."""
        return {}

    def topic_names(self) -> list[str]:
        """None exists."""
        return []

    def newest(self, names: Iterable[str]) -> dict[str, NewestRecord]:  # noqa: ARG002
        """None exists."""
        return {}

    def records(self, topic: str, ranges: PartitionRanges | None = None) -> NoReturn:  # noqa: ARG002
        """Raises UsageError."""
        raise _no_topics()

    def history_records(self, topic: str) -> Sequence[Mapping[str, object]]:  # noqa: ARG002
        """Raises UsageError."""
        raise _no_topics()


def _no_topics() -> UsageError:
    return UsageError(
        "there are no events to read: the connector writes the sink itself",
        where=WHERE,
        todo="Use a connector that writes to topics where events must be read again.",
    )


# `airflow cdc init` has no question about it
SETUP = Setup()

KIND = TransportKind(
    name="direct",
    title="No transport",
    settings=DirectSettings,
    endpoint=Lazy(f"{__name__}:DirectEndpoint"),
    client=Lazy(f"{__name__}:DirectTransport"),
    hook=None,
    setup=Lazy(f"{__name__}:SETUP"),
)
