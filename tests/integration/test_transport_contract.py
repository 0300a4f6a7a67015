"""Every built-in transport whose events can be read again does what airflow_cdc.testing asks of any, on its real server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pika
import pytest

from airflow_cdc.core.kind import TransportKind
from airflow_cdc.kinds import TRANSPORTS
from airflow_cdc.testing import TransportBench, TransportContract
from airflow_cdc.transports.kafka.wire import KafkaEndpoint, admin, producer
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from stack.ports import free_ports
from stack.process import wait_until
from stack.rabbitmq import RabbitServer
from tests.integration.canal.over_rabbitmq import endpoint_of

_GONE_S = 60.0


def name() -> str:
    return f"c-{uuid.uuid4().hex[:8]}"


@dataclass
class KafkaBench:
    """A broker."""

    endpoint: KafkaEndpoint
    kind: TransportKind = TRANSPORTS["kafka"]

    def topic(self) -> str:
        return self._create(name(), {})

    def removing_topic(self) -> str:
        return self.topic()

    def remove(self, topic: str) -> None:
        from kafka import TopicPartition

        with admin(self.endpoint) as client:
            client.delete_records({TopicPartition(topic, 0): 200})

    def make_anew(self, topic: str) -> None:
        with admin(self.endpoint) as client:
            client.delete_topics([topic])
            wait_until(lambda: topic not in client.list_topics() or None, timeout=_GONE_S, what="the topic to be gone")
        self._create(topic, {})

    def send(self, topic: str, values: list[bytes]) -> None:
        with producer(self.endpoint) as client:
            for value in values:
                client.send(topic, value=value, partition=0)
            client.flush(self.endpoint.timeout)

    def unreachable(self) -> KafkaEndpoint:
        return replace(self.endpoint, bootstrap=f"127.0.0.1:{free_ports(1)[0]}")

    def _create(self, topic: str, configs: dict[str, str]) -> str:
        from kafka.admin import NewTopic

        with admin(self.endpoint) as client:
            client.create_topics([NewTopic(topic, 1, 1, topic_configs=configs)])
        return topic


@dataclass
class StreamBench:
    """A RabbitMQ server whose topics are stream queues."""

    server: RabbitServer
    kind: TransportKind = TRANSPORTS["rabbitmq"]

    @property
    def endpoint(self) -> RabbitMqEndpoint:
        return replace(endpoint_of(self.server), timeout=10.0)

    def topic(self) -> str:
        return self._declare(name())

    def removing_topic(self) -> str:
        return self._declare(name(), **{"x-stream-max-segment-size-bytes": 2000, "x-max-length-bytes": 4000})

    def remove(self, topic: str) -> None:
        """Its segments are so small that the server does it by itself."""

    def make_anew(self, topic: str) -> None:
        with self.server.connect() as connection:
            connection.channel().queue_delete(topic)
        self._declare(topic)

    def send(self, topic: str, values: list[bytes]) -> None:
        with self.server.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for value in values:
                channel.basic_publish("", topic, value, pika.BasicProperties(delivery_mode=2), mandatory=True)

    def unreachable(self) -> RabbitMqEndpoint:
        port, api = free_ports(2)
        return replace(self.endpoint, port=port, management=f"http://127.0.0.1:{api}")

    def _declare(self, queue: str, **arguments: Any) -> str:
        with self.server.connect() as connection:
            arguments = {"x-queue-type": "stream", **arguments}
            connection.channel().queue_declare(queue, durable=True, arguments=arguments)
        return queue


class TestKafka(TransportContract):
    @pytest.fixture
    def bench(self, kafka: str) -> TransportBench:
        return KafkaBench(KafkaEndpoint(kafka))


class TestStreamQueues(TransportContract):
    @pytest.fixture
    def bench(self, rabbit: RabbitServer) -> TransportBench:
        return StreamBench(rabbit)


@dataclass
class MovedBench(StreamBench):
    """A queue whose messages are moved to a stream: one pair, whose name a topic is."""

    queue_kind: str = "classic"
    queue: str = ""

    @property
    def endpoint(self) -> RabbitMqEndpoint:
        return replace(super().endpoint, stream=f"{self.queue}.cdc")

    def topic(self) -> str:
        with self.server.connect() as connection:
            connection.channel().queue_declare(self.queue, durable=True, arguments={"x-queue-type": self.queue_kind})
        return self.queue

    def removing_topic(self) -> str:
        self._declare(f"{self.queue}.cdc", **{"x-stream-max-segment-size-bytes": 2000, "x-max-length-bytes": 4000})
        return self.topic()

    def make_anew(self, topic: str) -> None:
        with self.server.connect() as connection:
            connection.channel().queue_delete(topic)
            connection.channel().queue_delete(f"{topic}.cdc")
        self.topic()


@pytest.mark.parametrize("queue_kind", ["classic", pytest.param("quorum", marks=pytest.mark.slow)])
class TestQueuesMovedToAStream(TransportContract):
    @pytest.fixture
    def bench(self, rabbit: RabbitServer, queue_kind: str) -> Iterator[TransportBench]:
        bench = MovedBench(rabbit, queue_kind=queue_kind, queue=name())
        yield bench
        with rabbit.connect() as connection:
            for queue in (bench.queue, f"{bench.queue}.cdc"):
                connection.channel().queue_delete(queue)
