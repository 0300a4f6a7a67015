"""What is known of Debezium before a client is opened: its settings in pipelines.yaml, init's questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from airflow_cdc.core.pipeline import ConnectorSpec
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.core.setup import HTTPS, Answers, Key, NewConnection, Question, Setup, form_field


@settings
class DebeziumSettings(ConnectorSpec):
    """A Debezium connector on Kafka Connect."""

    conn_id: str = key(
        "Airflow connection (`kafka_connect` or `http`) of Kafka Connect's REST interface.", form=CONNECTION
    )
    offsets_topic: str = key(
        "Only for a Kafka Connect before 3.6, which changes no offsets by REST: its `offset.storage.topic`, in the broker "
        "of the transport. Such a connector is paused and restarted instead of stopped, and its offset is written to the topic.",
        default="",
    )
    status_topic: str = key(
        "Belongs to `offsets_topic`: the `status.storage.topic` of that Kafka Connect, where the restart is seen.",
        default="",
    )
    strimzi_namespace: str = key(
        "Only for a connector that is a `KafkaConnector` resource of Strimzi: the namespace of that resource, whose name is `name`."
        " It is then stopped, started and changed there; `conn_id` still leads to Connect's REST interface.",
        default="",
    )


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


FORM: Final[dict[str, object]] = {
    "connection-type": "kafka_connect",
    "hook-class-name": "airflow_cdc.hooks.kafka_connect.KafkaConnectHook",
    "hook-name": "Kafka Connect",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"schema": "Scheme", "host": "Host or URL"},
        "placeholders": {"host": "http://connect.example:8083", "schema": "http"},
    },
    "conn-fields": {
        **HTTPS,
        "token_url": form_field("OAuth: token URL", "Login and password are then the client's id and secret"),
        "scope": form_field("OAuth: scope"),
    },
}
