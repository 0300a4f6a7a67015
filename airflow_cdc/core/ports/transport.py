"""The topics between connector and sink, as the steps and applications use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from airflow_cdc.core.endpoint import Client
from airflow_cdc.core.ports.feeder import Groups

if TYPE_CHECKING:
    from airflow_cdc.core.endpoint import Endpoint
    from airflow_cdc.core.topics import NewestRecord, Outgoing, PartitionRanges, TopicState


class Transport(Client, Protocol):
    """The topics between connector and sink. Topics that do not exist are absent from answers. Raises TransportError."""

    @property
    def endpoint(self) -> Endpoint:
        """Its kind's own Endpoint, for the kind's own adapters."""
        ...

    @property
    def producer(self) -> Producer | None:
        """What writes corrections into its topics; None where that is not possible in transactions."""
        ...

    @property
    def groups(self) -> Groups | None:
        """Its consumer groups; None if it has none."""
        ...

    def topic_states(self, names: Iterable[str]) -> Mapping[str, TopicState]:
        """Id and, per partition, first and next offset of each topic."""
        ...

    def gathered(self, names: Iterable[str]) -> Mapping[str, TopicState]:
        """The states after all events that were sent by now were brought to where they have offsets. It may write there."""
        ...

    def end_offsets(self, names: Iterable[str]) -> Mapping[str, Mapping[int, int]]:
        """Topic → partition → next offset."""
        ...

    def offsets_since(self, parts: Mapping[str, Iterable[int]], at_ms: int) -> Mapping[str, Mapping[int, int | None]]:
        """Topic → partition → offset of the first record not older than `at_ms` (epoch, by `now_ms`); None: all are older."""
        ...

    def now_ms(self, names: Iterable[str]) -> int | None:
        """What the clock shows at least (epoch ms) that gives the records of these topics their times; None if nothing tells."""
        ...

    def topic_configs(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Topic → those of its settings that a diagnosis needs."""
        ...

    def topic_names(self) -> Sequence[str]:
        """All topics that the user may see."""
        ...

    def records(self, topic: str, ranges: PartitionRanges | None = None) -> Sequence[TopicRecord]:
        """The committed records of a small topic, in order within a partition: all, or those in `ranges`."""
        ...

    def newest(self, names: Iterable[str]) -> Mapping[str, NewestRecord]:
        """The newest record of each topic, rather one with a value; topics without records are absent."""
        ...

    def history_records(self, topic: str) -> Sequence[Mapping[str, object]]:
        """The records of a topic of table definitions, oldest first."""
        ...


class Producer(Protocol):
    """Writes corrections into topics (INV 23, 47). Raises TransportError."""

    def partition_of(self, key: bytes, partitions: int) -> int:
        """Where producers put a record with this key, unless a partitioner of their own decides."""
        ...

    def fence(self, id_: str) -> None:
        """End what a killed writer of this id left open: until then nobody reads past it. It can't write any more."""
        ...

    def transaction(self, id_: str, topic: str, records: Sequence[Outgoing]) -> PartitionRanges:
        """Write the records in this order in one transaction, and return partition → (first offset, next) of them.

        Readers of committed records see all or none.
        """
        ...


class TopicRecord(Protocol):
    """A record of a topic, as bytes."""

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...
