"""A transport whose topics end earlier than they do: between a delete and its tombstone, where there is such a place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from airflow_cdc.transports.kafka.wire import read_few

if TYPE_CHECKING:
    from airflow_cdc.core.topics import TopicState
    from airflow_cdc.transports.kafka.wire import KafkaEndpoint

MOST_BYTES = 8 << 20


@dataclass(slots=True)
class CutTransport:
    """In all but where topics end the transport itself. `reached`: topic → partition → where the sink's batches ended."""

    transport: Any
    endpoint: KafkaEndpoint
    reached: Mapping[str, Mapping[int, int]]
    rng: Random

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def gathered(self, topics: Iterable[str]) -> dict[str, TopicState]:
        """As the transport gathers them, with such ends."""
        return {name: self._cut(state) for name, state in self.transport.gathered(topics).items()}

    def _cut(self, state: TopicState) -> TopicState:
        ends = {p: (begin, self._end(state.name, p, begin, end)) for p, (begin, end) in state.partitions.items()}
        return replace(state, partitions=ends)

    def _end(self, topic: str, partition: int, begin: int, end: int) -> int:
        low = max(begin, self.reached.get(topic, {}).get(partition, end))
        if low >= end:
            return end
        records = read_few(self.endpoint, topic, {partition: (low, end)}, MOST_BYTES) or ()
        tombstones = [one.offset for one in records if one.value is None and one.offset > low]
        return self.rng.choice(tombstones) if tombstones else end
