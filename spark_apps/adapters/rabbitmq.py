"""Ranges of stream queues, read by Spark's tasks through pika."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_cdc.spark_apps.events import RAW_ARROW, RAW_SCHEMA
from airflow_cdc.transports.rabbitmq.stream import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.spark_apps.ports import Ranges
    from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport
    from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint

# a task reads at most so many messages
SPLIT_AT: Final = 20_000
_PER_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class StreamQueues:
    """The stream queues of a virtual host, as ports.TopicReader."""

    transport: RabbitMqTransport

    def read(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """See ports.TopicReader. A message that is not there any more fails the job."""
        parts = [(self.transport.queue_of(topic), topic, start, stop) for topic, start, stop in _parts(ranges)]
        if not parts:
            return spark.createDataFrame([], RAW_SCHEMA)
        rows = spark.createDataFrame(parts, "queue string, topic string, start bigint, stop bigint")
        return rows.repartition(len(parts), "start").mapInArrow(_Reader(self.transport.endpoint), RAW_SCHEMA)


def _parts(ranges: Ranges) -> Iterator[tuple[str, int, int]]:
    for topic, partitions in ranges.items():
        for start, end in partitions.values():
            for at in range(start, end, SPLIT_AT):
                yield topic, at, min(at + SPLIT_AT, end)


@dataclass(frozen=True, slots=True)
class _Reader:
    """The function of a Spark task, whose Python therefore needs this package with its extra `rabbitmq`."""

    endpoint: RabbitMqEndpoint

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.to_pylist():
                yield from self._read(**part)

    def _read(self, queue: str, topic: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, object]] = []
        for record in read(self.endpoint, queue, start, stop):
            rows.append({"topic": topic, "partition": 0, "offset": record.offset, "key": None, "value": record.value})
            if len(rows) == _PER_BATCH:
                yield pa.RecordBatch.from_pylist(rows, schema=RAW_ARROW)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=RAW_ARROW)
