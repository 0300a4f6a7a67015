"""A sink connector: the program of others that fills the sink's tables from the topics, as it was read at one time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_cdc.core.observation import ConnectorState, Shown
    from airflow_cdc.core.topics import TopicState

# topic → partition → next offset to read
Offsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class FeederFacts:
    """The sink connector, its consumer group and its topics; `settings` hold no secrets.

    Attributes:
        strangers: the client ids of the group's members that are none of its tasks.
        committed: how far the group has consumed.
        topics: those of the pipeline's tables that exist.
        late: topic → how many of its records have waited for longer than the policy's max_lag.
        letters: how many records are in the topic to which it sends what it cannot write.
        clock: by which `late` was counted; None if it was not asked.
    """

    name: str
    state: ConnectorState
    settings: Mapping[str, str]
    group: str
    strangers: tuple[str, ...] = ()
    committed: Offsets = field(default_factory=dict)
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    letters_topic: str = ""
    letters: int = 0
    clock: Shown | None = None

    @property
    def running(self) -> bool:
        """Whether it runs with at least one task, and all its tasks run."""
        return self.state.running

    @property
    def partitions(self) -> Iterator[tuple[str, int, int | None, tuple[int, int]]]:
        """(topic, partition, next offset of the group or None, (first offset, end)) of all partitions."""
        for name, state in self.topics.items():
            for number, ends in state.partitions.items():
                yield name, number, self.committed.get(name, {}).get(number), ends

    @property
    def waiting(self) -> Mapping[str, Mapping[int, tuple[int, int]]]:
        """Topic → partition → (next offset, end), where the group has records left to consume."""
        left: dict[str, dict[int, tuple[int, int]]] = {}
        for name, number, at, (first, end) in self.partitions:
            if (begin := max(at or 0, first)) < end:
                left.setdefault(name, {})[number] = (begin, end)
        return left
