"""What the doctor asks of this Airflow: DAGs that run, slots, a report folder for all, links, and the jars for Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from airflow_cdc.cli import trigger
from airflow_cdc.cli.jars import jar_checks, other_spark
from airflow_cdc.config import settings
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import CdcError, ConfigError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.settings import own_connection
from airflow_cdc.core.spark_jars import Need
from airflow_cdc.kinds import SINKS, jars_for
from airflow_cdc.names import RECOVERY_DAG_ID, REPAIR_DAG_ID, apply_dag_id, dag_id_for, has_nights, nightly_dag_id
from airflow_cdc.operators.other_spark import check_ours
from airflow_cdc.reports.store import ReportStore

AIRFLOW = "installation"
# hold_binlog runs beside the chain of the other tasks
SLOTS = 2
PROBE = ".doctor"
LOCAL_EXECUTOR = "LocalExecutor"
TEMPORARY = (tempfile.gettempdir(), "/tmp", "/var/tmp")  # noqa: S108 - to advise against them


def airflow_checks(needs: Sequence[Need] | None) -> list[Check]:
    """What every recovery needs of this installation, whichever the pipeline.

    `needs`: the jars of the kinds that are declared; None without a pipeline that has a sink: then only what a restart of a
    connector and the page need.
    """
    common = [_dag(AIRFLOW, RECOVERY_DAG_ID, "bad"), _report_dir(settings.report_dir()), _links()]
    if needs is None:
        return common
    jars = jar_checks(AIRFLOW, needs) if needs else ()
    return [*common, _dag(AIRFLOW, REPAIR_DAG_ID, "warn"), *_slots(), *jars]


def pipeline_airflow_checks(pipeline: Pipeline) -> list[Check]:
    """What one pipeline needs of this installation: its DAGs, the jars of its catalog, and its own Spark."""
    name = pipeline.name
    own = (apply_dag_id, nightly_dag_id) if pipeline.is_applied else (nightly_dag_id,) if has_nights(pipeline) else ()
    dags = [_dag(name, dag_id(name), "warn") for dag_id in own]
    if pipeline.airflow.own_dags:
        dags = [_dag(name, dag_id_for(pipeline, RECOVERY_DAG_ID), "bad"), *dags]
    needs = catalog_needs(pipeline)
    if pipeline.spark.mode == "connect":
        from airflow_cdc.cli.remote_spark import remote_checks

        return [*dags, *remote_checks(pipeline, (*jars_for([pipeline]), *needs))]
    if pipeline.spark.python or SINKS[pipeline.sink.kind].spark:
        return [*dags, *_other_spark(pipeline, (*jars_for([pipeline]), *needs))]
    return [*dags, *(jar_checks(name, needs) if needs else ())]


def on_our_spark(pipeline: Pipeline) -> bool:
    """Whether its drivers run on the Spark beside Airflow: another one, or a server, has jars of its own."""
    return not (pipeline.spark.python or pipeline.spark.mode == "connect" or SINKS[pipeline.sink.kind].spark)


def catalog_needs(pipeline: Pipeline) -> Sequence[Need]:
    """The jars of the pipeline's catalog; none while its connection is faulty."""
    kind = SINKS[pipeline.sink.kind]
    if kind.jars_of is None or kind.hook is None:
        return ()
    try:
        needs: Sequence[Need] = kind.jars_of.load()(kind.hook.load()(own_connection(pipeline.sink)).endpoint())
    except ConfigError:
        return ()  # the check of the connections says it
    return needs


def _other_spark(pipeline: Pipeline, needs: Sequence[Need]) -> Iterator[Check]:
    """Whether drivers can run in the environment that `spark.python` names, with the pipeline's own jars."""
    sink, where = SINKS[pipeline.sink.kind], f"pipeline {pipeline.name}"
    try:
        if not pipeline.spark.python:
            check_ours(sink.title, sink.spark, where)
        place = other_spark(pipeline.spark.python, pipeline.spark.jars, where, sink.spark)
    except ConfigError as error:
        yield Check(pipeline.name, "spark.python", "bad", error.what, error.todo)
        return
    yield Check(pipeline.name, "spark.python", "ok", f"Spark {place.version} of {pipeline.spark.python}")
    yield from jar_checks(pipeline.name, needs, place)


# ---- DAGs, slots ------------------------------------------------------------------------------------


def _dag(subject: str, dag_id: str, state: str) -> Check:
    """Whether Airflow knows a DAG, and runs it: a triggered run of a paused one waits for ever."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        paused = trigger.paused(dag_id)
    except SQLAlchemyError as error:
        return Check(subject, dag_id, "unknown", f"Airflow's database can't be read: {type(error).__name__}")
    return dag_check(subject, dag_id, state, paused=paused)


def dag_check(subject: str, dag_id: str, state: str, *, paused: bool | None) -> Check:
    """`paused`: None for a DAG that Airflow does not know. `state` is what to call one that does not run."""
    if paused is None:
        todo = (
            "Run: airflow dags reserialize. If it isn't loaded then, Airflow doesn't look where the DAG files are: run "
            "`airflow cdc init` again and give Airflow the `export` line that it prints"
        )
        return Check(subject, dag_id, state, "Airflow has not loaded this DAG", todo)
    if paused:
        return Check(subject, dag_id, state, "paused, so its runs wait", f"Run: airflow dags unpause {dag_id}")
    return Check(subject, dag_id, "ok", "runs")


def _slots() -> Iterator[Check]:
    """Wherever there is one slot only, the task that holds the log takes it, and the recovery waits for itself."""
    from airflow.models.pool import Pool
    from airflow.sdk.configuration import conf
    from sqlalchemy.exc import SQLAlchemyError

    for key in ("parallelism", "max_active_tasks_per_dag"):
        yield slot_check(f"[core] {key}", conf.getint("core", key))
    try:
        pool = Pool.get_default_pool()
    except SQLAlchemyError as error:
        yield Check(
            AIRFLOW, Pool.DEFAULT_POOL_NAME, "unknown", f"Airflow's database can't be read: {type(error).__name__}"
        )
        return
    yield slot_check(Pool.DEFAULT_POOL_NAME, pool.slots if pool else 0)


def slot_check(name: str, slots: int) -> Check:
    """Whether a recovery fits; a pool of -1 slots, and a limit of 0, have no limit."""
    if slots >= SLOTS or slots < 0 or (slots == 0 and name.startswith("[core]")):
        return Check(AIRFLOW, name, "ok", f"{slots} slots")
    todo = f"Make it {SLOTS} or more: the task that holds the log occupies one slot while the other tasks run."
    return Check(AIRFLOW, name, "bad", f"{slots} slots", todo)


# ---- reports and links ------------------------------------------------------------------------------


def _report_dir(location: str) -> Check:
    from airflow.sdk.configuration import conf

    placed = report_dir_check(location, str(conf.get("core", "executor", fallback=LOCAL_EXECUTOR)))
    if placed.state == "bad":
        return placed
    try:
        ReportStore(location).write("airflow cdc doctor may write here\n", PROBE)
    except (CdcError, ImportError) as error:
        return Check(AIRFLOW, "report_dir", "bad", str(error), "Check [cdc] report_dir and its permissions.")
    return placed


def report_dir_check(location: str, executor: str) -> Check:
    """By the name alone: whether every component of Airflow finds the reports there, and later, too."""
    remote = "://" in location and not location.startswith("file://")
    path = Path(location.removeprefix("file://"))
    if not remote and not path.is_absolute():
        todo = "Use an absolute path or a URL: each component resolves a relative path from its own working folder."
        return Check(AIRFLOW, "report_dir", "bad", f"{location} is relative", todo)
    if not remote and any(path.is_relative_to(folder) for folder in TEMPORARY):
        todo = "Set [cdc] report_dir to a permanent folder: the page and `airflow cdc proof` read old reports."
        return Check(AIRFLOW, "report_dir", "warn", f"{location} is a temporary folder", todo)
    if not remote and LOCAL_EXECUTOR not in executor:
        todo = (
            "Make sure that workers, API server and triggerer mount the same folder there, or set a URL such as s3://…"
        )
        return Check(
            AIRFLOW, "report_dir", "warn", f"{location} is a local folder, and the executor is {executor}", todo
        )
    return Check(AIRFLOW, "report_dir", "ok", location)


def _links() -> Check:
    from airflow.sdk.configuration import conf

    if conf.get("api", "base_url", fallback=""):
        return Check(AIRFLOW, "links", "ok", settings.airflow_url())
    todo = "Set [api] base_url to the address at which people open Airflow."
    return Check(AIRFLOW, "links", "warn", f"links in notifications point to {settings.airflow_url()}", todo)
