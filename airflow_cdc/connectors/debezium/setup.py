"""What `airflow cdc init` asks about a Debezium connector."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup


def keys(name: str, answers: Answers) -> Sequence[Key]:
    """The keys below `connector`."""
    return (
        Key("conn_id", f"{name}_connect", "the REST interface of Kafka Connect"),
        Key("name", answers["connector"], "the connector's name there"),
    )


def connections(name: str, answers: Answers) -> Sequence[NewConnection]:
    """The connection to Kafka Connect."""
    return (NewConnection(f"{name}_connect", "kafka_connect", answers["connect"]),)


SETUP = Setup(
    (
        Question("connect", "Kafka Connect's REST address", "http://localhost:8083"),
        Question("connector", "Name of the Debezium connector there", example="shop"),
    ),
    keys,
    connections,
)
