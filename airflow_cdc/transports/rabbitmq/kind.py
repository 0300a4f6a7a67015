"""What is known of RabbitMQ before a client is opened: its settings in pipelines.yaml, init's questions, the form of its connection."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import E, TransportSpec
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.core.setup import Answers, Key, NewConnection, Password, Question, Setup, form_field, host_and_port

if TYPE_CHECKING:
    from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint


@settings
class RabbitMqSettings(TransportSpec):
    """A queue in a virtual host of a RabbitMQ server."""

    conn_id: str = key("Airflow connection (`cdc_rabbitmq`) of the server.", form=CONNECTION)
    queue: str = key(
        "The queue that is read, if it is not the one that the connector itself declares: a stream queue beside that one,"
        " bound to the same exchange.",
        default="",
    )
    stream: str = key(
        "A stream queue that the messages of a classic or quorum queue are moved to, and that events are read from."
        " It is declared when it is first needed.",
        default="",
    )

    def __post_init__(self) -> None:
        if self.stream and self.stream == self.queue:
            raise ConfigError(
                "names the queue itself",
                where="stream",
                todo="Name a stream beside the queue; a queue that is a stream needs none.",
            )

    def at(self, endpoint: E) -> E:
        """The connection's endpoint, with this pipeline's queues."""
        own = cast("RabbitMqEndpoint", endpoint)
        return cast("E", replace(own, queue=self.queue, stream=self.stream))


def keys(name: str, _answers: Answers) -> Sequence[Key]:
    """The keys under `transport`."""
    return (Key("conn_id", f"{name}_rabbitmq"),)


def connections(name: str, answers: Answers) -> Sequence[NewConnection]:
    """The server's connection."""
    host, port = host_and_port(answers["rabbitmq"], 5672, key="rabbitmq")
    management = answers["rabbitmq_management"] or f"http://{host}:15672"
    return (
        NewConnection(
            f"{name}_rabbitmq",
            "cdc_rabbitmq",
            host,
            port,
            login=answers["rabbitmq_user"],
            schema=answers["rabbitmq_vhost"],
            extra=json.dumps({"management": management}),
            password=Password("the RabbitMQ user", "CDC_RABBITMQ_PASSWORD"),
        ),
    )


SETUP = Setup(
    (
        Question("rabbitmq", "RabbitMQ, host:port", example="rabbit.example:5672"),
        Question("rabbitmq_vhost", "RabbitMQ's virtual host", "/"),
        Question("rabbitmq_user", "RabbitMQ user, with the tag `management`", "cdc"),
        Question("rabbitmq_management", "Its management interface (default: http, port 15672)", needed=False),
    ),
    keys,
    connections,
)


FORM: Final[dict[str, object]] = {
    "connection-type": "cdc_rabbitmq",
    "hook-class-name": "airflow_cdc.hooks.rabbitmq.CdcRabbitMqHook",
    "hook-name": "CDC RabbitMQ transport",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"schema": "Virtual host"},
        "placeholders": {"host": "rabbit.example", "port": "5672", "schema": "/"},
    },
    "conn-fields": {
        "management": form_field("Management interface", "http://HOST:15672, of the plugin rabbitmq_management"),
        "tls": form_field("TLS", "true: messages are read through TLS (port 5671)"),
        "verify": form_field("Check the TLS certificate", type=["boolean", "null"], default=True),
        "ca_file": form_field("TLS: CA file", "Path; takes the place of the system's authorities"),
        "cert_file": form_field("TLS: client certificate", "Path"),
        "key_file": form_field("TLS: client key", "Path; if it is not in the certificate's file"),
        "key_password": form_field("TLS: password of the client key", format="password"),
    },
}
