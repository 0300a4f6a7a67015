"""How far topics were read: the values in fences, stamps and backlogs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from airflow_cdc.core.errors import TransportError

PartitionRanges: TypeAlias = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compacted topic's loss of deletes: tombstones older than `since_ms` may be gone (epoch ms, like `now_ms`).

    `first`: partition → offset of the first record that is not older; the partition's end if all are older.
    """

    now_ms: int
    since_ms: int
    first: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic: its id and, per partition, (first offset, next offset); `compaction` if it is compacted.

    `ahead`: how many messages wait in front of it, without an offset; see Transport.gathered.
    """

    name: str
    id: str
    partitions: Mapping[int, tuple[int, int]]
    compaction: Compaction | None = None
    ahead: int = 0

    def check_offsets(self, where: str) -> None:
        """Raises TransportError for a topic without a partition: its events have no offsets."""
        if not self.partitions:
            raise TransportError(
                f"the events in {self.name} have no offsets, so they cannot be applied exactly once",
                where=where,
                todo="Diagnose the pipeline: it says what kind of queue that is, and which kind is needed.",
            )


@dataclass(frozen=True, slots=True)
class NewestRecord:
    """How a topic's newest record is written.

    `headers`: their names; `at_ms`: when (epoch), 0: not said; `carried`: the headers with their values.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[str, ...] = ()
    at_ms: int = 0
    carried: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be written: into this partition, as these bytes."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """One topic: its id ("" from brokers that give none) and, of each partition, the next offset to read.

    Raises ValueError for a partition or an offset that is not a whole number of 0 or more.
    """

    topic_id: str
    next: Mapping[int, int]

    def __post_init__(self) -> None:
        ordered = sorted((whole(p, "a partition"), whole(n, "an offset")) for p, n in self.next.items())
        object.__setattr__(self, "topic_id", str(self.topic_id))
        object.__setattr__(self, "next", dict(ordered))

    @classmethod
    def end_of(cls, state: TopicState) -> TopicOffsets:
        """The offsets after reading everything that is in the topic now."""
        return cls(state.id, {partition: end for partition, (_, end) in state.partitions.items()})

    @classmethod
    def after(cls, topic_id: str, ranges: PartitionRanges) -> TopicOffsets:
        """The offsets after reading `ranges` (partition → first offset, end) to their ends."""
        return cls(topic_id, {partition: max(start, end) for partition, (start, end) in ranges.items()})

    def is_of(self, topic_id: str) -> bool | None:
        """Whether these are offsets of the topic with that id; None if brokers give topics no id."""
        return self.topic_id == topic_id if self.topic_id and topic_id else None

    def reached(self, ends: TopicOffsets) -> bool:
        """Whether everything up to `ends` was read, in this very topic with the partitions it has now."""
        return (
            self.topic_id == ends.topic_id
            and self.next.keys() == ends.next.keys()
            and all(self.next[partition] >= end for partition, end in ends.next.items())
        )

    def is_past_record(self, topic_id: str, partition: int, offset: int) -> bool:
        """Whether a record is before these offsets; a record of an earlier topic with the same name is."""
        return self.topic_id != topic_id or offset < self.next.get(partition, 0)

    def to_json(self) -> dict[str, object]:
        """{"id": topic id, "partitions": {partition as text: next offset}}."""
        return {"id": self.topic_id, "partitions": {str(partition): n for partition, n in self.next.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TopicOffsets:
        """The inverse of `to_json`; observations once had them by their fields. Raises one of MALFORMED for anything else."""
        topic_id, ends = ("topic_id", "next") if "next" in value else ("id", "partitions")
        return cls(str(value[topic_id]), {whole(p, "a partition"): n for p, n in value[ends].items()})


# Topic → how far it counts as read. A topic that is absent did not exist then: it is read from 0 (INV 16).
Fence: TypeAlias = Mapping[str, TopicOffsets]


def fence_to_json(fence: Fence) -> dict[str, object]:
    """Plain JSON: topic → as TopicOffsets.to_json, sorted by topic."""
    return {topic: fence[topic].to_json() for topic in sorted(fence)}


def fence_from_json(value: Mapping[str, Any]) -> dict[str, TopicOffsets]:
    """The inverse of `fence_to_json`. Raises KeyError, TypeError or ValueError for anything else."""
    return {topic: TopicOffsets.from_json(offsets) for topic, offsets in sorted(value.items())}


def whole(value: object, what: str) -> int:
    """A whole number that is not negative; bool and 1.5 are refused, "7" is read. Raises ValueError."""
    number = int(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"{what} must be a whole number of 0 or more, not {value!r}")
    return number
