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
from airflow_cdc.config.registry import Declared, load_unchanged
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.names import dag_id_for, has_nights

START = datetime(2024, 1, 1, tzinfo=UTC)


def registered() -> Declared:
    """The pipelines of the registry that are declared well, and the errors of the others; none if there is no registry yet.

    Raises ConfigError for one in which none can be found.
    """
    return load_unchanged(settings.registry_path())


def check_each() -> None:
    """Raise ConfigError with what is wrong in single pipelines of the registry, all of it."""
    errors = list(registered().errors.values())
    if errors:
        others = "".join(f"\n{error}" for error in errors[1:])
        raise ConfigError(f"{errors[0].what}", where=errors[0].where, todo=f"{errors[0].todo}{others}")


def with_our_writer() -> list[Pipeline]:
    """The pipelines whose sink this provider writes. Raises ConfigError for a bad registry."""
    return [pipeline for pipeline in registered().values() if pipeline.is_applied]


def compared_at_night() -> list[Pipeline]:
    """The pipelines whose sink is compared each night. Raises ConfigError for a bad registry."""
    return [pipeline for pipeline in registered().values() if has_nights(pipeline)]


def with_own_dags() -> list[Pipeline]:
    """The pipelines that are recovered, repaired and abandoned by DAGs of their own. Raises ConfigError for a bad registry."""
    return [pipeline for pipeline in registered().values() if pipeline.airflow.own_dags]


def registered_names() -> list[str]:
    """The names for the form of a shared DAG; [] for a bad registry, which the first task of a run then reports."""
    try:
        return sorted(name for name, one in registered().items() if not one.airflow.own_dags)
    except ConfigError:
        return []


def own_and_shared(make: Callable[[Pipeline | None], DAG]) -> dict[str, DAG]:
    """The DAG for all pipelines (made of None), and one for each pipeline with DAGs of its own.

    Only the first for a bad registry: its error is shown once, by the apply DAGs' file.
    """
    shared = make(None)
    try:
        own = with_own_dags()
    except ConfigError:
        own = []
    return {shared.dag_id: shared, **one_each(own, make)}


def pipeline_param(pipeline: Pipeline | None) -> Param:
    """The field that names the pipeline. Suggestions, not an enum, where there are several: each change of an enum makes a new
    version of the DAG.
    """
    shape: dict[str, Any] = {"title": "Pipeline", "type": "string"}
    if pipeline is not None:
        return Param(pipeline.name, enum=[pipeline.name], description="This DAG is of one pipeline.", **shape)
    return Param(
        minLength=1,
        examples=registered_names(),
        description="A name from pipelines.yaml; the list has those that were declared when the DAG was parsed.",
        **shape,
    )


def step_defaults(pipeline: Pipeline | None) -> dict[str, Any]:
    """`default_args` of recovery, repair and abandon: the pipeline, and where its tasks run if the DAG is its own.

    Their retries follow Airflow's `[core] default_task_retries`, and no step of a recovery has a time limit.
    """
    if pipeline is None:
        return {"pipeline": "{{ params.pipeline }}"}
    own = task_defaults(pipeline)
    where = {key: value for key, value in own.items() if key not in ("retries", "execution_timeout")}
    return {**where, "pipeline": pipeline.name}


def dag_name(pipeline: Pipeline | None, dag_id: str) -> str:
    """The id of the pipeline's own DAG, or of the one for all."""
    return dag_id if pipeline is None else dag_id_for(pipeline, dag_id)


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


def tags_of(pipeline: Pipeline | None) -> list[str]:
    """The tags of a DAG of one pipeline, each once; those of a DAG for all."""
    if pipeline is None:
        return ["cdc"]
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
