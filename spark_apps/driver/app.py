"""The start of every application in this package: the run, the session, and a readable log."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from airflow_cdc.core.errors import CdcError, UsageError
from airflow_cdc.core.secrets import mask_text
from airflow_cdc.core.timeline import THIS_PROCESS, process_began
from airflow_cdc.flows.run import Run, RunOptions, make_run
from airflow_cdc.kinds import read_pipeline
from airflow_cdc.parts import Endpoints
from airflow_cdc.spark_apps.driver.session import LATE_JVM, SessionOnDemand, build_session, remote_session
from airflow_cdc.spark_apps.driver.speaking import Speaking, spark_parts
from airflow_cdc.spark_apps.driver.task import end_in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# how a Spark Connect session says that it was stopped, also by an error that is none of pyspark's
CLOSED = "Channel closed"
NEEDED = ("pipeline", "endpoints", "run_id", "report_dir")


@contextmanager
def open_app(settings: Mapping[str, Any], name: str) -> Iterator[tuple[Run, SparkSession]]:
    """The run that the settings file describes, and a session with its lake that is closed at the end of the block.

    The session is made when it is first used: starting it takes longer than many a run's work. Raises UsageError if a part
    is missing.

    `launched` is when the task started the driver; `jars` (paths) and `spark` (settings) are for a driver that was not started by spark-submit.
    """
    log_to_stderr()
    note_launch(settings.get("launched"))
    run = read_run(settings)
    extra = {str(key): str(value) for key, value in (settings.get("spark") or {}).items()}
    jars = [str(jar) for jar in settings.get("jars") or ()]
    title = f"cdc {name} {run.pipeline.name}"
    remote = settings.get("connect")
    if remote:
        end_in_order()
        make = partial(remote_session, title, run.clients.sink, remote)
    else:
        make = partial(build_session, title, run.clients.sink, jars, extra)
    spark = SessionOnDemand.of(make)
    parts = spark_parts(lambda: cast("SessionOnDemand", spark).existing)
    try:
        with Speaking(name, parts):
            yield run, spark
    finally:
        spark.stop()


def note_launch(launched: object) -> None:
    """Note how long spark-submit, which the task called at that unix time, took until it started this process, if it did."""
    began = None if LATE_JVM in os.environ else process_began()
    if isinstance(launched, float) and began is not None and began > launched:
        THIS_PROCESS.add("spark-submit starts its JVM", launched, began)


def read_run(settings: Mapping[str, Any]) -> Run:
    """The run of a settings file, its clients not connected yet."""
    if missing := [key for key in NEEDED if key not in settings]:
        raise UsageError(
            f"the settings file lacks {', '.join(missing)}", where="--settings", todo="Let the operator write it."
        )
    # in this process alone: a command line or spark-submit's environment would show it
    os.environ |= settings.get("report_env") or {}
    return make_run(
        read_pipeline(settings["pipeline"]),
        Endpoints.from_json(settings["endpoints"]),
        str(settings["run_id"]),
        str(settings["report_dir"]),
        RunOptions.from_json(settings.get("options")),
        dag_id=str(settings.get("dag_id") or ""),
    )


@contextmanager
def explained(kind: type[CdcError], doing: str, *, where: str, todo: str) -> Iterator[None]:
    """Turn a failed Spark job into one error of `kind`, "could not <doing>", with the root cause as its reason.

    Also what PyIceberg lets through of a disk that is full, of an object store that refuses, and of a catalog's database.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (Py4JError, PySparkException, OSError, SQLAlchemyError) as error:
        raise kind(f"could not {doing}: {mask_text(root_cause(str(error)))}", where=where, todo=todo) from error
    except ValueError as error:
        if CLOSED not in str(error):
            raise
        raise kind(f"could not {doing}: {root_cause(str(error))}", where=where, todo=todo) from error


def root_cause(text: str) -> str:
    """The last "Caused by" of a Java stack trace, what grpc says of a server, or the first line."""
    if CLOSED in text:
        return "the session of Spark was stopped meanwhile"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    details = [line.removeprefix("details = ").strip('"') for line in lines if line.startswith('details = "')]
    return (causes or details[:1] or lines or ["no reason given"])[-1 if causes else 0][:500]


def log_to_stderr() -> None:
    """Write progress lines where spark-submit writes its own, so that they appear in the task's log."""
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(name)s %(message)s", level=logging.WARNING)
    logging.getLogger("airflow_cdc").setLevel(logging.INFO)
