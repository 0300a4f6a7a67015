"""A Debezium connector's settings in pipelines.yaml."""

from __future__ import annotations

from airflow_cdc.core.pipeline import ConnectorSpec
from airflow_cdc.core.settings import CONNECTION, key, settings


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
