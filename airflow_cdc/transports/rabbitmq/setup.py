"""What `airflow cdc init` asks about RabbitMQ."""

from __future__ import annotations

import json
from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Password, Question, Setup, host_and_port


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
