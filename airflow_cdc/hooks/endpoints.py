"""All connections of a pipeline, resolved at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from airflow_cdc.core.endpoint import Endpoint
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.kind import Hook
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.settings import own_connection
from airflow_cdc.kinds import CONNECTORS, CONTROLS, SINKS, SOURCES, TRANSPORTS
from airflow_cdc.parts import Endpoints


def hooks_of(pipeline: Pipeline) -> tuple[dict[str, Hook[Endpoint]], dict[str, Hook[Endpoint]]]:
    """The hooks of the pipeline's parts, by part, and of the source's replicas, by connection."""
    source = SOURCES[pipeline.source.kind].hook.load()
    parts: dict[str, Hook[Endpoint]] = {
        "source": source(own_connection(pipeline.source)),
        "connector": CONNECTORS[pipeline.connector.kind].hook.load()(own_connection(pipeline.connector)),
    }
    if (hook := TRANSPORTS[pipeline.transport.kind].hook) is not None:
        parts["transport"] = hook.load()(own_connection(pipeline.transport))
    schemas = TRANSPORTS[pipeline.transport.kind].registry
    if schemas is not None and pipeline.transport.schemas_conn_id:
        parts["registry"] = schemas.hook.load()(pipeline.transport.schemas_conn_id)
    if (of_sink := SINKS[pipeline.sink.kind].hook) is not None:
        parts["sink"] = of_sink.load()(own_connection(pipeline.sink))
    if pipeline.control is not None:
        parts["control"] = CONTROLS[pipeline.control.kind].hook.load()(own_connection(pipeline.control))
    return parts, {conn_id: source(conn_id) for conn_id in pipeline.source.replicas}


def resolve_endpoints(pipeline: Pipeline) -> Endpoints:
    """The endpoints of `pipeline` from its Airflow connections.

    Raises ConfigError: the error itself for one bad connection, one error that lists them all for several.
    """
    errors: list[ConfigError] = []
    parts, replicas = hooks_of(pipeline)
    of_parts = {part: _try(hook.endpoint, errors) for part, hook in parts.items()}
    of_replicas = {conn_id: _try(hook.endpoint, errors) for conn_id, hook in replicas.items()}
    if errors:
        raise _merged(pipeline.name, errors)
    return _endpoints(pipeline, of_parts, of_replicas)


async def aresolve_endpoints(pipeline: Pipeline) -> Endpoints:
    """As resolve_endpoints, from a trigger's event loop. Raises ConfigError for the first bad connection."""
    parts, replicas = hooks_of(pipeline)
    of_parts = {part: await hook.aendpoint() for part, hook in parts.items()}
    return _endpoints(pipeline, of_parts, {conn_id: await hook.aendpoint() for conn_id, hook in replicas.items()})


def _endpoints(pipeline: Pipeline, parts: Mapping[str, object], replicas: Mapping[str, object]) -> Endpoints:
    """The endpoints from the hooks' results; a transport or sink without a hook gets its kind's own, empty endpoint."""
    sink = parts.get("sink") or SINKS[pipeline.sink.kind].endpoint.load()()
    topics = parts.get("transport") or TRANSPORTS[pipeline.transport.kind].endpoint.load()()
    own = {
        "transport": pipeline.transport.at(topics),
        "source": pipeline.source.at(parts["source"]),
        "connector": pipeline.connector.at(parts["connector"]),
        "sink": pipeline.sink.at(sink),
    }
    servers = {conn_id: pipeline.source.at(one) for conn_id, one in replicas.items()}
    return Endpoints(**cast("dict[str, Any]", {**parts, **own}), replicas=cast("dict[str, Any]", servers))


def _try(endpoint: Callable[[], object], errors: list[ConfigError]) -> object:
    try:
        return endpoint()
    except ConfigError as error:
        errors.append(error)
        return None


def _merged(name: str, errors: list[ConfigError]) -> ConfigError:
    if len(errors) == 1:
        first = errors[0]
        return ConfigError(first.what, where=f"pipeline {name}, {first.where}", todo=first.todo)
    return ConfigError(
        f"{len(errors)} connections cannot be used: {'; '.join(error.what for error in errors)}",
        where=f"pipeline {name}",
        todo=" ".join(error.todo for error in errors),
    )
