"""Run one of this package's Spark applications for a pipeline.

The driver's settings, credentials included, are in a file of mode 0600 that exists only while the task runs. They are
never an argument (shown by ps), a Spark setting (shown by the Spark UI and stored in its event log) or a template
field (shown by Airflow's UI). The launcher deletes the file once it has read it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event, Timer
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from airflow_cdc import lineage, metrics, spark_main
from airflow_cdc.airflow_version import not_durable
from airflow_cdc.config import settings
from airflow_cdc.core import errors
from airflow_cdc.core.errors import CdcError, ConfigError, DeadlineError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.secrets import SPARK_REDACTION
from airflow_cdc.fail_fast import FailFast
from airflow_cdc.java import pyspark_folder
from airflow_cdc.kinds import SINKS
from airflow_cdc.links import DataDocsLink, ReportLink
from airflow_cdc.operators.base import asked_for, find_pipeline, open_run_of, spark_connection
from airflow_cdc.operators.class_archive import class_archive
from airflow_cdc.operators.driver_settings import private_settings
from airflow_cdc.operators.other_spark import OtherSpark, ask, check_ours
from airflow_cdc.operators.python_first import below, end, python_first
from airflow_cdc.spark_apps.driver.task import this_process

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run
    from airflow_cdc.operators.beside import Beside
    from airflow_cdc.spark_apps.driver.connect import Remote

CLUSTER = "cluster"
# the application, and the task, that reads the source, for which policy.max_duration is meant
READS = "recover"
# the application that waits for tasks beside it
WAITS = "verify"
# how spark-submit says that a package is in no repository that it reached: group, artifact, version
_NOT_FETCHED = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+): ")
# applications that read no rows
SHORT = ("publish", "reset_offset")
# applications that need the pipeline's lease, and cannot ask Airflow whether its holder has ended
WRITERS = ("apply_changes", "repair", "backfill")
LINKS = {
    "verify": (DataDocsLink(),),
    "nightly": (ReportLink(), DataDocsLink()),
    "repair": (ReportLink(),),
    "backfill": (ReportLink(),),
}
# how often a run of a continuous pipeline checks whether it must start its driver
LOOK_S = 5.0
# how long it keeps checking while the source or the connector does not answer, for example during a restart
PATIENCE_S = 60.0


class CdcSparkOperator(FailFast, SparkSubmitOperator):  # type: ignore[misc]
    """Submit the application `app` for `pipeline` and return its plain dict.

    A driver that outlives its killed task writes to a stage of its own that no later try publishes, so a new try simply
    starts a new driver.

    :param app: one of `spark_main.APPS`; a subclass names its own as `app`.
    :param pipeline: the pipeline's name in the registry (templated).
    :param registry: path of pipelines.yaml; default `[cdc] registry` (templated).
    :param report_dir: folder or object-storage URL of the reports; default `[cdc] report_dir` (templated).
    :param conn_id: the Spark connection; default the pipeline's `spark.conn_id`.

    All other arguments are SparkSubmitOperator's; `jars`, `packages` and `conf` add to `[cdc] spark_jars`,
    `spark_packages` and `spark_conf`.
    """

    app: str = ""
    # attributes of the untyped base class
    _conn_id: str
    conf: dict[str, str] | None
    jars: str | None
    packages: str | None
    env_vars: dict[str, str] | None
    _spark_binary: str | None
    _hook: SparkSubmitHook | None
    # not before the master is known
    _starts_python = False
    _remote: Remote | None = None

    template_fields: Sequence[str] = ("pipeline", "registry", "report_dir", *SparkSubmitOperator.template_fields)
    ui_color = "#fdf0e0"

    def __init__(
        self,
        *,
        pipeline: str,
        app: str | None = None,
        registry: str | None = None,
        report_dir: str | None = None,
        conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        app = app or type(self).app
        if not app:
            raise TypeError("missing keyword argument 'app'")
        kwargs.setdefault("name", f"cdc_{app}")
        super().__init__(conn_id=conn_id or "", **{**not_durable(), **kwargs})
        self.app = app
        self.pipeline = pipeline
        self.registry = registry
        self.report_dir = report_dir
        self.operator_extra_links = LINKS.get(app, ())
        self.facts: Facts = {}

    def execute(self, context: Context) -> Facts:
        from airflow_cdc.flows.lease import free_dead

        pipeline = find_pipeline(self.pipeline, self.registry)
        pipeline.check_sink(f"the task {self.task_id}")
        self._conn_id = self._conn_id or pipeline.spark.conn_id
        self._check_app()
        self._remote = self._server(pipeline) if pipeline.spark.mode == "connect" else None
        master = "" if self._remote else self._preflight()
        if self.app in WRITERS:
            free_dead(open_run_of(context, pipeline, self.report_dir))
        other, given = None if self._remote else self._other_spark(pipeline, master), self.conf
        with private_settings(self._payload(pipeline, context)) as path:
            self._aim(path, other)
            if not self._remote:
                self._name_settings(master, other, self.rows_ahead(context))
                self._name_jars(pipeline)
            archives = None if other or self._remote else settings.class_archive()
            try:
                self._drive(context, pipeline, path, archives)
            finally:
                self.conf = given
            self.facts = spark_main.read_result(path)
        return self.facts

    def _drive(self, context: Context, pipeline: Pipeline, path: Path, archives: Path | None) -> None:
        """Start the driver and wait for its end. Raises what it ended with."""
        deadline = Deadline(pipeline.policy.max_duration if self.app == READS else None, self.on_kill)
        try:
            with metrics.timed_step(self.pipeline, self.task_id), deadline, self._beside(context) as beside:
                self._submit(context, path, archives)
        except AirflowException as error:
            if beside is not None and beside.failed:
                raise beside.error() from None
            raise self._too_long(pipeline) if deadline.passed else self._cause(path, error) from None

    def _submit(self, context: Context, path: Path, archives: Path | None) -> None:
        binary, whole = self._spark_binary or "spark-submit", partial(spark_main.needed_session, path)
        with class_archive(archives, self.conf or {}, binary, whole) as self.conf:
            super().execute(context)

    def _beside(self, context: Context) -> AbstractContextManager[Beside | None]:
        """Ends the driver of `verify` if a task that it waits for fails. Raises CdcError if one has failed already."""
        if self.app != WAITS:
            return nullcontext()
        from airflow_cdc.operators.beside import Beside

        beside = Beside(context, self.on_kill)
        beside.check()
        return beside

    def _too_long(self, pipeline: Pipeline) -> DeadlineError:
        seconds, limits = pipeline.policy.max_duration, pipeline.policy.throttle
        waits = ", its waits for policy.throttle included" if limits.waits else ""
        return DeadlineError(
            f"reading the source took longer than policy.max_duration ({seconds} s){waits}, so Spark was ended",
            where=f"pipeline {self.pipeline}, task {self.task_id}",
            todo="Nothing was published. Raise it in pipelines.yaml, or give Spark more cores, and trigger cdc_recovery again.",
            timeout=float(seconds),
        )

    def _payload(self, pipeline: Pipeline, context: Context) -> dict[str, object]:
        """The driver's settings. They hold credentials, so only `private_settings` may write them."""
        from airflow_cdc.hooks.endpoints import resolve_endpoints
        from airflow_cdc.hooks.report_folder import for_driver

        reports = settings.report_dir(self.report_dir)
        return {
            "pipeline": pipeline.to_json(),
            "endpoints": resolve_endpoints(pipeline).to_json(pipeline),
            "run_id": self.run_id(context),
            "dag_id": context["ti"].dag_id,
            "try_number": context["ti"].try_number,
            "report_dir": reports,
            "report_env": for_driver(reports),
            "options": self.driver_options(context, pipeline),
            "launched": time.time(),
            **({"connect": self._remote.to_json()} if self._remote else {}),
        }

    def rows_ahead(self, context: Context) -> int | None:
        """How many rows or events the driver has to read or compare; None if nobody knows."""
        if self.app in SHORT:
            return 0
        read = context["ti"].xcom_pull(task_ids=READS) if self.app == WAITS else None
        return int(read["rows"]) if isinstance(read, Mapping) and "rows" in read else None

    def run_id(self, context: Context) -> str:
        """The run's name in the pipeline's lease and ledger."""
        return str(context["run_id"])

    def driver_options(self, context: Context, pipeline: Pipeline) -> dict[str, object]:
        """The run's options, as they appear in the driver's `Run.options`."""
        return asked_for(context, pipeline)

    def get_openlineage_facets_on_complete(self, _task_instance: object) -> object:
        """For OpenLineage: the tables that the application read and wrote."""
        from airflow_cdc.hooks.endpoints import resolve_endpoints

        pipeline = find_pipeline(self.pipeline, self.registry)
        return lineage.facets(self.app, pipeline, resolve_endpoints(pipeline))

    def on_kill(self) -> None:
        """End the driver, and the JVM that it may have started; of one that has ended, the pid may be another process's."""
        driver = None if self._hook is None else self._hook._submit_sp  # noqa: SLF001 - it has no public name
        children = [] if driver is None or driver.poll() is not None else below(driver.pid)
        super().on_kill()
        end(children)

    def _server(self, pipeline: Pipeline) -> Remote:
        from airflow_cdc.operators.spark_connect import check_app, remote_of

        check_app(self.app, self.pipeline)
        return remote_of(pipeline, self._conn_id)

    def _get_hook(self) -> SparkSubmitHook:
        if self._remote:
            from airflow_cdc.operators.spark_connect import ConnectDriver

            return ConnectDriver(application_args=self.application_args, env_vars=self.env_vars)
        hook = super()._get_hook()
        return python_first(hook) if self._starts_python else hook

    def _preflight(self) -> str:
        """Fail with one clear error if spark-submit would fall back to YARN, or could not read the settings file.

        Returns the connection's master.
        """
        conn = spark_connection(self._conn_id, self.pipeline)
        asked = {**settings.spark_conf(), **(self.conf or {})}.get("spark.submit.deployMode")
        if CLUSTER in (self._deploy_mode, conn.extra_dejson.get("deploy-mode"), asked):
            raise ConfigError(
                "the driver would run on the cluster, where it can't read this machine's settings file",
                where=f"connection {self._conn_id}",
                todo="Set deploy-mode to client.",
            )
        return self._master()

    def _check_app(self) -> None:
        if self.app not in spark_main.APPS:
            raise ConfigError(
                f"there is no Spark application {self.app!r}", todo=f"Write one of: {', '.join(spark_main.APPS)}."
            )

    def _master(self) -> str:
        """The master as spark-submit will get it. Raises ConfigError if it is Kubernetes and its provider is missing."""
        try:
            return str(SparkSubmitHook(conn_id=self._conn_id)._connection["master"])  # noqa: SLF001 - it has no public name
        except (RuntimeError, NameError) as error:  # the latter where the module could not even be imported
            raise ConfigError(
                "the Spark master is Kubernetes, and Airflow's provider for it is not installed",
                where=f"connection {self._conn_id}",
                todo="Install apache-airflow-providers-cncf-kubernetes on the workers.",
            ) from error

    def _other_spark(self, pipeline: Pipeline, master: str) -> OtherSpark | None:
        """What `spark.python` leads to; None without it. Raises ConfigError if no driver can run there."""
        from airflow_cdc.spark_apps.driver.session import is_local

        where, sink = f"pipeline {self.pipeline}", SINKS[pipeline.sink.kind]
        if not pipeline.spark.python:
            check_ours(sink.title, sink.spark, where)
            return None
        if not is_local(master):
            raise ConfigError(
                f"spark.python works with a local master only, not with {master}",
                where=where,
                todo="Remove spark.python, or name a Spark connection whose host is local[N].",
            )
        return ask(pipeline.spark.python, where, sink.spark)

    def _aim(self, path: Path, other: OtherSpark | None) -> None:
        """Point the driver's Python at the launcher and the file; nothing here is secret."""
        self.application = other.launcher if other else str(Path(spark_main.__file__).resolve())
        self.application_args = [self.app, "--settings", str(path)]
        self._hook = None

    def _name_settings(self, master: str, other: OtherSpark | None, rows: int | None) -> None:
        """What spark-submit is told of Spark; nothing here is secret."""
        from airflow_cdc.spark_apps.driver.session import is_local, python_of

        self.conf = {
            "spark.redaction.regex": SPARK_REDACTION,
            "spark.log.level": "WARN",
            **_tuning(master, rows),
            **settings.spark_conf(),
            **(self.conf or {}),
        }
        if _is_passed_on(master):
            self._spark_binary = self._spark_binary or self._own_binary()
        else:
            # with another interpreter, a driver would lack this environment's packages
            python = {**python_of(local=is_local(master)), "PATH": _path_with_spark()}
            self.env_vars = {**(other.environment() if other else python), **(self.env_vars or {})}
        self._starts_python = other is None and is_local(master)

    def _name_jars(self, pipeline: Pipeline) -> None:
        """The pipeline's own jars for another Spark, else those of [cdc]; each with the task's."""
        another = bool(pipeline.spark.python)
        jars = ",".join(pipeline.spark.jars) if another else settings.spark_jars()
        packages = None if another else settings.spark_packages()
        self.jars = ",".join(filter(None, (jars, self.jars))) or None
        self.packages = ",".join(filter(None, (packages, self.packages))) or None

    def _own_binary(self) -> str | None:
        """The installed pyspark's spark-submit, which finds its jars by itself; None if the user's is to be taken."""
        asked = BaseHook.get_connection(self._conn_id).extra_dejson.get("spark-binary")
        folder = pyspark_folder()
        if asked or shutil.which("spark-submit") or folder is None:
            return None
        return str(folder / "bin" / "spark-submit")

    def _cause(self, path: Path, error: AirflowException) -> Exception:
        """The driver's own error if it could store one, else spark-submit's."""
        cause = spark_main.read_result(path).get("error")
        if not isinstance(cause, Mapping):
            return not_fetched(str(error)) or error
        facts = dict(cause)
        kind = getattr(errors, str(facts.pop("error", "")), CdcError)
        try:
            return cast("Exception", kind(str(facts.pop("what")), **facts))
        except (TypeError, KeyError):  # an error class that only the application has
            return CdcError(str(cause.get("what")), where=str(cause.get("where", "")), todo=str(cause.get("todo", "")))


def not_fetched(text: str) -> CdcError | None:
    """What spark-submit's text means if a package of Spark's could not be fetched: the package would be lost in its command."""
    missing = list(dict.fromkeys(":".join(parts) for parts in _NOT_FETCHED.findall(text)))
    if not missing:
        return None
    return CdcError(
        f"spark-submit could not fetch {', '.join(missing)}",
        where="[cdc] spark_packages",
        todo="Let this worker reach Maven Central or a mirror of it, or put the jars on its disk and list them in [cdc] spark_jars.",
    )


class ApplyChangesOperator(CdcSparkOperator):
    """Apply the change events of `pipeline` to its sink: `apply_changes`, started only if there is something to apply.

    Skipped while a recovery is open, which catches up by itself, and while all tables are at the end of their topics. A
    run of a continuous pipeline instead waits, as long as the run lasts, until there is something to apply, and then
    applies batch after batch. A run for single tables or with a replay applies once.
    """

    app = "apply_changes"

    def execute(self, context: Context) -> Facts:
        pipeline = find_pipeline(self.pipeline, self.registry)
        pipeline.check_sink(f"the task {self.task_id}")
        options = asked_for(context, pipeline)
        self.waiting: Facts = {}  # nothing is known of a replay, and a driver that stays meets more than what waits now
        if not options.get("replay"):
            stays = _stays(pipeline, options)
            seen = self._wait_for_work(open_run_of(context, pipeline, self.report_dir), stays)
            self.waiting = {} if stays else seen
        return super().execute(context)

    def rows_ahead(self, context: Context) -> int | None:
        del context
        return self.waiting.get("events")

    def run_id(self, context: Context) -> str:
        """Differs from the id of a nightly run in the same minute: Airflow names both `scheduled__<minute>`, and
        one would then seem to hold the other's lease.
        """
        return f"apply__{context['run_id']}"

    def _payload(self, pipeline: Pipeline, context: Context) -> dict[str, object]:
        stays = _stays(pipeline, asked_for(context, pipeline))
        return {**super()._payload(pipeline, context), **({"task": this_process()} if stays else {})}

    def _wait_for_work(self, run: Run, stays: bool) -> Facts:
        """What there is to apply, once there is something; skip the task if there is not, at once or when the run's time is up."""
        from airflow_cdc.flows.backlog import Waiting

        waiting = Waiting(run, PATIENCE_S if stays else 0.0)
        try:
            seen = poll_until(
                waiting.look,
                timeout=run.pipeline.apply.lasts if stays else 0.0,
                interval=LOOK_S,
                what="something to apply",
            )
        except DeadlineError as late:
            raise AirflowSkipException(late.last) from None
        self.log.info("to apply: %s", seen)
        return dict(seen)


def _stays(pipeline: Pipeline, options: Mapping[str, object]) -> bool:
    """Whether the run applies batch after batch."""
    return pipeline.apply.continuous and not options.get("replay") and not options.get("tables")


class MaintainOperator(CdcSparkOperator):
    """Maintain the sink tables of `pipeline`: compaction and expiry, according to its policy. No row changes."""

    app = "maintain"


def _tuning(master: str, rows: int | None) -> dict[str, str]:
    """Settings for a driver that brings its own executors, and has `rows` ahead (None: unknown); a cluster has its own.

    There a `spark.pyspark.python` is meant for the executors, and without the other setting it would move the driver, too.
    """
    from airflow_cdc.spark_apps.driver.session import JAVA_OPTIONS, LOCAL, is_local, java_options

    if is_local(master):
        return {key: value for key, value in LOCAL.items() if key != "spark.master"} | {
            JAVA_OPTIONS: java_options(rows)
        }
    return {"spark.pyspark.driver.python": sys.executable}


def _is_passed_on(master: str) -> bool:
    """Whether Airflow's hook hands environment variables on to the cluster, where this machine's paths lead to nothing."""
    return any(name in master for name in ("yarn", "k8s"))


def _path_with_spark() -> str:
    """PATH, with this environment's bin first, which holds the installed pyspark's spark-submit."""
    path, beside = os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)
    return path if shutil.which("spark-submit") else f"{beside}{os.pathsep}{path}"


class Deadline:
    """Calls `end` once, if the block is still running after `seconds`; `passed` says whether it did.

    Airflow's own `execution_timeout` cannot: one DAG recovers pipelines with limits of their own.
    """

    def __init__(self, seconds: float | None, end: Callable[[], object]) -> None:
        self._end = end
        self._rang = Event()
        self._timer = Timer(seconds, self._ring) if seconds else None

    @property
    def passed(self) -> bool:
        return self._rang.is_set()

    def _ring(self) -> None:
        self._rang.set()
        self._end()

    def __enter__(self) -> Self:
        if self._timer:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer:
            self._timer.cancel()
