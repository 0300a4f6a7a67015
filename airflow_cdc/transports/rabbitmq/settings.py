"""The settings of RabbitMQ in pipelines.yaml."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar, cast

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import TransportSpec
from airflow_cdc.core.settings import CONNECTION, key, settings

E = TypeVar("E")


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
        own: Any = endpoint
        return cast("E", replace(own, queue=self.queue, stream=self.stream))
