"""All connections of a pipeline, resolved at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from airflow_cdc.clients import Endpoints
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.settings import own_connection
from airflow_cdc.hooks.iceberg import IcebergCatalogHook
from airflow_cdc.hooks.kafka import CdcKafkaHook
from airflow_cdc.hooks.kafka_connect import KafkaConnectHook
from airflow_cdc.hooks.mysql import CdcMySqlHook

T = TypeVar("T")


def resolve_endpoints(pipeline: Pipeline) -> Endpoints:
    """The endpoints of `pipeline` from its Airflow connections.

    Raises ConfigError: as it stands for one bad connection, and as one error that lists them all for several.
    """
    errors: list[ConfigError] = []
    mysql = _try(CdcMySqlHook(pipeline.source.conn_id).endpoint, errors)
    connect = _try(KafkaConnectHook(pipeline.connector.conn_id).endpoint, errors)
    kafka = _try(CdcKafkaHook(pipeline.transport.conn_id).endpoint, errors)
    lake = _try(IcebergCatalogHook(own_connection(pipeline.sink)).endpoint, errors)
    named = {conn_id: _try(CdcMySqlHook(conn_id).endpoint, errors) for conn_id in pipeline.source.replicas}
    replicas = {conn_id: endpoint for conn_id, endpoint in named.items() if endpoint is not None}
    if errors or mysql is None or connect is None or kafka is None or lake is None:
        raise _merged(pipeline.name, errors)
    return Endpoints(mysql, connect, kafka, lake, replicas)


async def aresolve_endpoints(pipeline: Pipeline) -> Endpoints:
    """The same from a trigger's event loop. Raises ConfigError for the first bad connection."""
    return Endpoints(
        await CdcMySqlHook(pipeline.source.conn_id).aendpoint(),
        await KafkaConnectHook(pipeline.connector.conn_id).aendpoint(),
        await CdcKafkaHook(pipeline.transport.conn_id).aendpoint(),
        await IcebergCatalogHook(own_connection(pipeline.sink)).aendpoint(),
        {conn_id: await CdcMySqlHook(conn_id).aendpoint() for conn_id in pipeline.source.replicas},
    )


def _try(endpoint: Callable[[], T], errors: list[ConfigError]) -> T | None:
    try:
        return endpoint()
    except ConfigError as error:
        errors.append(error)
        return None


def _merged(name: str, errors: list[Any]) -> ConfigError:
    if len(errors) == 1:
        first = errors[0]
        return ConfigError(first.what, where=f"pipeline {name}, {first.where}", todo=first.todo)
    return ConfigError(
        f"{len(errors)} connections are not usable: {'; '.join(error.what for error in errors)}",
        where=f"pipeline {name}",
        todo=" ".join(error.todo for error in errors),
    )
