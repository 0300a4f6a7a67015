"""The settings of RabbitMQ in pipelines.yaml."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar, cast

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

    def at(self, endpoint: E) -> E:
        """The connection's endpoint, with this pipeline's queue."""
        own: Any = endpoint
        return cast("E", replace(own, queue=self.queue))
