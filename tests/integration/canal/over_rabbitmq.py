"""A MySQL database that a real Canal server follows through RabbitMQ into OpenSearch, with its cursor in meta.dat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from airflow_cdc.transports.rabbitmq.kind import RabbitMqSettings
from stack.rabbitmq import RabbitServer
from tests.integration.canal.recovered import Followed
from tests.integration.opensearch.searched import IntoSearch

EXCHANGE = "canal"
STREAM = {"x-queue-type": "stream"}


def endpoint_of(server: RabbitServer) -> RabbitMqEndpoint:
    """The virtual host `/`."""
    api = f"http://{server.host}:{server.management}"
    return RabbitMqEndpoint(server.host, server.port, "/", server.user.user, server.user.password, api)


def declare(server: RabbitServer, queue: str, key: str, arguments: Mapping[str, Any]) -> None:
    """A durable queue that gets what is sent to the exchange with this routing key."""
    connection = server.connect()
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, "direct", durable=True)
    channel.queue_declare(queue, durable=True, arguments=dict(arguments))
    channel.queue_bind(queue, EXCHANGE, key)
    connection.close()


def canal_properties(server: RabbitServer, queue: str) -> dict[str, str]:
    """The lines of canal.properties with which Canal declares this queue and writes there."""
    return {
        "rabbitmq.queue": queue,
        "rabbitmq.routingKey": queue,
        "rabbitmq.deliveryMode": "direct",
        "rabbitmq.host": f"{server.host}:{server.port}",
        "rabbitmq.virtual.host": "/",
        "rabbitmq.exchange": EXCHANGE,
        "rabbitmq.username": server.user.user,
        "rabbitmq.password": server.user.password,
    }


@dataclass(slots=True)
class OverRabbitMq(IntoSearch, Followed):
    """Canal's own queue is a classic one with the database's name; the stream queue beside it is read.

    `kafka` and `connect_url` are empty. `moved`: there is none beside it; its messages are moved to one.
    """

    rabbit: RabbitServer
    url: str
    moved: bool = False

    def transport_parts(self) -> tuple[Any, Any]:
        """See Followed."""
        if self.moved:
            settings = RabbitMqSettings("rabbitmq", "r", stream=f"{self.database}.cdc")
            return RabbitMqTransport(settings.at(endpoint_of(self.rabbit))), settings
        settings = RabbitMqSettings("rabbitmq", "r", f"{self.database}.stream")
        declare(self.rabbit, settings.queue, self.database, STREAM)
        return RabbitMqTransport(settings.at(endpoint_of(self.rabbit))), settings

    def canal_properties(self) -> dict[str, str]:
        """See Followed."""
        return canal_properties(self.rabbit, self.database)
