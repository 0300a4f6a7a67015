"""Writes corrections into topics: in one transaction, into the partitions that the records' keys are in (INV 23, 47)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.core.topics import Outgoing
from airflow_cdc.transports.kafka.wire import KafkaEndpoint, explaining, producer

if TYPE_CHECKING:
    from kafka import KafkaProducer as Client
    from kafka.producer.future import FutureRecordMetadata


@dataclass(frozen=True, slots=True)
class KafkaProducer:
    """See core.ports.Producer."""

    endpoint: KafkaEndpoint

    def partition_of(self, key: bytes, partitions: int) -> int:
        """As Kafka's own partitioner: murmur2 of the key's bytes."""
        from kafka.partitioner.default import murmur2

        return int((murmur2(key) & 0x7FFFFFFF) % partitions)

    def fence(self, id_: str) -> None:
        """See the port."""
        where = self.endpoint.where
        with producer(self.endpoint, transactional_id=id_) as client, explaining(where, f"end transactions of {id_}"):
            client.init_transactions()

    def transaction(self, id_: str, topic: str, records: Sequence[Outgoing]) -> Mapping[int, tuple[int, int]]:
        """See the port. A transaction that fails is aborted; one whose writer dies ends by the broker, or by the next of its id."""
        where = self.endpoint.where
        with (
            producer(self.endpoint, transactional_id=id_) as client,
            explaining(where, f"write corrections to {topic}"),
        ):
            client.init_transactions()
            client.begin_transaction()
            try:
                sent = [_send(client, topic, one) for one in records]
                client.flush(self.endpoint.timeout)
                offsets = [one.get(self.endpoint.timeout) for one in sent]
            except BaseException:
                client.abort_transaction()
                raise
            client.commit_transaction()
        return _ranges((one.partition, one.offset) for one in offsets)


def _send(client: Client, topic: str, record: Outgoing) -> FutureRecordMetadata:
    return client.send(
        topic, key=record.key, value=record.value, partition=record.partition, headers=list(record.headers)
    )


def _ranges(places: Iterable[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    ranges: dict[int, tuple[int, int]] = {}
    for partition, offset in places:
        low, high = ranges.get(partition, (offset, offset + 1))
        ranges[partition] = (min(low, offset), max(high, offset + 1))
    return ranges
