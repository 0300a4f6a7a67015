"""What every operator shares: a pipeline found by name, and the run for which its step acts.

A DAG file is parsed often and its tasks run rarely, so modules that only a running task needs (steps, clients of
servers) are imported where they are used. With these imports at the top, parsing 200 pipelines took half as long again.
"""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook, BaseOperator, BaseXCom, Connection, Context
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

from airflow_cdc import metrics
from airflow_cdc.config import settings
from airflow_cdc.config.registry import find_declared
from airflow_cdc.core.errors import CdcError, ConfigError, NotAllowedError, UnknownStateError, UsageError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.fail_fast import FailFast
from airflow_cdc.links import runbook_url
from airflow_cdc.names import SHARED_DAG_IDS, dag_id_for

if TYPE_CHECKING:
    from airflow_cdc.flows.lease import Lives
    from airflow_cdc.flows.run import Facts, Run

log = logging.getLogger("airflow_cdc.operators")

DIAGNOSE_TASK = "diagnose"
APPROVE_TASK = "approve"
# the XCom of the asking task: id and form of the run that asks again
AGAIN = "asked_again"
NONE = "none"
LIVE = ("queued", "running")
MASTER_EXAMPLE = """'{"conn_type": "spark", "host": "local[2]"}'"""
ASKED = ("strategy", "tables", "note", "approved", "replay", "dry_run")


def find_pipeline(name: str, registry: str | None = None) -> Pipeline:
    """The pipeline `name` of the registry. Raises ConfigError (it is declared badly) or UsageError (no such pipeline)."""
    return find_declared(settings.registry_path(registry), name)


def open_run(
    pipeline: Pipeline,
    run_id: str,
    options: Mapping[str, object] | None = None,
    reports: str | None = None,
    *,
    dag_id: str = "",
    lives: Lives | None = None,
    answer_within: float | None = None,
) -> Run:
    """The run `run_id` over `pipeline`, with its connections resolved. Raises ConfigError for a missing connection.

    `answer_within`: seconds that each system has to answer, if that is less than its connection allows.
    """
    from airflow_cdc.core.endpoint import CallLimits
    from airflow_cdc.flows.run import RunOptions, make_run
    from airflow_cdc.hooks.endpoints import resolve_endpoints

    endpoints, folder = resolve_endpoints(pipeline), settings.report_dir(reports)
    if answer_within is not None:
        endpoints = endpoints.limited(CallLimits.waited_for(answer_within))
    return make_run(pipeline, endpoints, run_id, folder, RunOptions.from_json(options), dag_id=dag_id, lives=lives)


def open_run_of(context: Context, pipeline: Pipeline, reports: str | None = None) -> Run:
    """The run of this DAG run over `pipeline`. Raises ConfigError or UsageError."""
    check_own_dags(context, pipeline)
    options = asked_for(context, pipeline)
    return open_run(
        pipeline, context["run_id"], options, reports, dag_id=context["ti"].dag_id, lives=partial(lives, context)
    )


def spark_connection(conn_id: str, pipeline: str, example: str = MASTER_EXAMPLE) -> Connection:
    """Airflow's connection of a pipeline's Spark. Raises ConfigError with the command that creates it."""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConfigError(
            f"connection {conn_id!r} is not defined",
            where=f"needed as Spark, pipeline {pipeline}",
            todo=f"Create it: airflow connections add {conn_id} --conn-json {example}",
        ) from None


def check_own_dags(context: Context, pipeline: Pipeline) -> None:
    """Raise NotAllowedError in a DAG for all pipelines, if this one has DAGs of its own: rights to those would mean nothing."""
    dag_id = context["ti"].dag_id
    if pipeline.airflow.own_dags and dag_id in SHARED_DAG_IDS:
        raise NotAllowedError(
            f"pipeline {pipeline.name} has DAGs of its own, and {dag_id} does nothing for it",
            where=f"pipeline {pipeline.name}, key airflow.own_dags",
            todo=f"Trigger {dag_id_for(pipeline, dag_id)}; it also finishes a recovery that was opened here.",
        )


def lives(context: Context, dag_id: str, run_id: str) -> bool | None:
    """Whether Airflow is still executing that run; None if it could not be asked. A deleted run has ended."""
    ti: Any = context["ti"]
    try:
        return bool(ti.get_dr_count(dag_id=dag_id, run_ids=[run_id], states=list(LIVE)))
    except AirflowRuntimeError as error:
        log.warning("Airflow could not be asked about run %s of %s: %s", run_id, dag_id, error)
        return None


def asked_for(context: Context, pipeline: Pipeline) -> dict[str, object]:
    """The options chosen by the person who triggered the run, as plain JSON. Raises UsageError for an unknown table."""
    params = context.get("params") or {}
    options = {key: params[key] for key in ASKED if params.get(key)}
    if user := getattr(context.get("dag_run"), "triggering_user_name", None):
        options["started_by"] = str(user)
    if unknown := sorted(set(options.get("tables", ())) - set(pipeline.source.tables)):
        known = ", ".join(pipeline.source.tables)
        raise UsageError(f"pipeline {pipeline.name} has no table {unknown[0]}", todo=f"Choose from: {known}.")
    return options


def plain(facts: Mapping[str, object]) -> Facts:
    """`facts` for XCom: JSON types only, so that no enum or tuple comes back as another type."""
    return dict(json.loads(json.dumps(facts, default=str)))


def decision_of(context: Context, task: str = DIAGNOSE_TASK) -> Facts:
    """The decision of `task` in this run; {} if it made none."""
    return dict(context["ti"].xcom_pull(task_ids=task) or {})


def standing_decision(context: Context, task: str = DIAGNOSE_TASK) -> Facts:
    """The decision to carry out: the approved plan, else that of `task`. Raises UsageError if there is none."""
    decision = dict(decision_of(context, APPROVE_TASK).get("decision") or decision_of(context, task))
    if not decision:
        raise UsageError("no decision was made in this run", todo=f"Clear the task {task}.")
    return decision


def gist(decision: Facts) -> tuple[str, str, str]:
    """The parts of a plan that a person approves: problem, strategy, loss."""
    return decision["diagnosis"]["code"], decision["plan"]["strategy"], decision["plan"]["data_loss"]


def refusal(decision: Facts) -> CdcError:
    """The error about a plan that may not be carried out: the diagnosis, and what a person can do."""
    kind = UnknownStateError if decision["diagnosis"]["code"] == "UNKNOWN" else CdcError
    return kind(
        f"nothing was changed: {decision['plan']['reason']}",
        where=f"pipeline {decision['pipeline']}",
        todo=f"Fix what is named, then trigger the run again. Runbook: {runbook_url(decision['diagnosis']['code'])}",
    )


def end_and_skip(operator: Any, context: Context, facts: Facts, tasks: Collection[object]) -> Facts:
    """End the task with the result `facts`, and skip `tasks`. Airflow's `skip` raises, which would lose the result."""
    if tasks:
        context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=facts)
        operator.skip(ti=context["ti"], tasks=tasks)
    return facts


class CdcOperator(FailFast, BaseOperator):
    """Base of the operators of a recovery.

    :param pipeline: the pipeline's name in the registry (templated).
    :param registry: path of pipelines.yaml; default `[cdc] registry` (templated).
    :param report_dir: folder or object-storage URL of the reports; default `[cdc] report_dir` (templated).
    """

    template_fields: Sequence[str] = ("pipeline", "registry", "report_dir")
    ui_color = "#e8f0f8"

    def __init__(
        self, *, pipeline: str, registry: str | None = None, report_dir: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.registry = registry
        self.report_dir = report_dir
        self.facts: Facts = {}

    def planned(self, strategy: str) -> bool:  # noqa: ARG002 - a step of all strategies
        """Whether this task is a step of `strategy`."""
        return True

    @abstractmethod
    def step(self, run: Run) -> Facts:
        """The one call into `flows`."""

    def execute(self, context: Context) -> Facts:
        run = self.open_run(context)
        with metrics.timed_step(self.pipeline, self.task_id):
            self.facts = plain(self.step(run))
        return self.facts

    def open_run(self, context: Context) -> Run:
        """The run of this DAG run over this task's pipeline. Raises ConfigError or UsageError."""
        return open_run_of(context, find_pipeline(self.pipeline, self.registry), self.report_dir)
