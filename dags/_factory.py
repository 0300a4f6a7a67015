"""What the DAG files share: the registered pipelines, and a DAG for each.

Reading pipelines.yaml is the only I/O while a DAG file is parsed. Airflow parses each file in a process of its own, so
each kind of DAG is built in a module of its own that imports only the operators of that kind.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param

from airflow_cdc.config import settings
from airflow_cdc.config.registry import load_unchanged
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Pipeline

START = datetime(2024, 1, 1, tzinfo=UTC)


def registered() -> dict[str, Pipeline]:
    """The pipelines of the registry; none if there is no registry yet. Raises ConfigError for a bad one."""
    return load_unchanged(settings.registry_path())


def with_our_writer() -> list[Pipeline]:
    """The pipelines whose sink this provider writes. Raises ConfigError for a bad registry."""
    return [pipeline for pipeline in registered().values() if pipeline.is_applied]


def registered_names() -> list[str]:
    """The pipelines' names for the form; [] for a bad registry, which the first task of a run then reports."""
    try:
        return sorted(registered())
    except ConfigError:
        return []


def tables_param(description: str, **schema: Any) -> Param:
    """The field of a form that names tables; empty means all."""
    return Param(
        [], title="Tables", type=["array", "null"], items={"type": "string"}, description=description, **schema
    )


def task_defaults(pipeline: Pipeline) -> dict[str, Any]:
    """`default_args` of a DAG of one pipeline: what its `airflow:` and `owner:` say."""
    asked = pipeline.airflow
    optional = {
        "queue": asked.queue,
        "executor": asked.executor,
        "executor_config": {"pod_template_file": asked.pod_template} if asked.pod_template else None,
        "owner": pipeline.owner,
        "execution_timeout": timedelta(seconds=asked.timeout),
    }
    given = {name: value for name, value in optional.items() if value}
    return {"retries": asked.retries, "pool": asked.pool, "pool_slots": asked.pool_slots, **given}


def tags_of(pipeline: Pipeline) -> list[str]:
    """The tags of a DAG of one pipeline, each once."""
    return list(dict.fromkeys(["cdc", pipeline.name, *pipeline.tags]))


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable the garbage collector while DAGs are built: it finds nothing, and costs a sixth of
    the time in which 200 pipelines are parsed.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def one_each(pipelines: Iterable[Pipeline], make: Callable[[Pipeline], DAG]) -> dict[str, DAG]:
    """A DAG per pipeline, by id."""
    with uncollected():
        return {dag.dag_id: dag for dag in map(make, pipelines)}
