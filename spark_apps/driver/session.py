"""The Spark session of a driver: this package's catalog, UTC, few partitions, nothing resolved over the network."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow_cdc.core.secrets import SPARK_REDACTION
from airflow_cdc.core.timeline import timed
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.driver.shipped import ship
from airflow_cdc.spark_apps.ports import InCatalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.ports import Sink

log = logging.getLogger("airflow_cdc.driver")

# Settings that every driver needs to decode and encode exactly, wherever it runs. ANSI mode is Spark's default but is
# set explicitly, because a cluster's own defaults may differ and values would then silently turn into NULL. Spark replaces
# ${env:NAME} in all SQL texts by default, so a column's default of that text would bring the driver's environment into the
# sink.
EXACT = {
    "spark.sql.variable.substitute": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# in the environment of a driver whose JVM starts with its session, by the options in PYSPARK_SUBMIT_ARGS
LATE_JVM = "AIRFLOW_CDC_LATE_JVM"
_UTC = "-Duser.timezone=UTC"
# The quick compiler alone: half the processor time of a driver with little to do, twice that of digesting millions of rows.
# With it, the JVM would keep 48 MB for compiled code, and stop compiling for good once Spark has filled them.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# up to so many rows or events, the work is over before the second compiler has paid
QUICK_ROWS = 500_000
# Java's second compiler makes digests of millions of rows quick, but compiling Spark's planner with it costs a short driver
# half of its processor time. So it begins forty times later than by default.
LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=200000 -XX:Tier4MinInvocationThreshold=24000"
    " -XX:Tier4CompileThreshold=600000 -XX:Tier4BackEdgeThreshold=1600000"
)
SMALL = {"spark.sql.shuffle.partitions": "4"}
# For a driver with its own executors: batches are small, so scheduling costs more than the work.
LOCAL = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    JAVA_OPTIONS: f"{_UTC} {LATE_COMPILER}",
    **SMALL,
    "spark.scheduler.mode": "FAIR",
    "spark.locality.wait": "0s",
    "spark.python.daemon.module": "airflow_cdc.spark_apps.driver.python_daemon",
}


# A batch of changes is small and its plan is known: re-planning after each Spark stage costs more than it saves.
SMALL_BATCH = {"spark.sql.adaptive.enabled": "false"}
# Compiling code for a plan costs more than interpreting it for few rows.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class SessionOnDemand:
    """A driver's session, made when something is first asked of it: what has few rows and few events needs none.

    A SparkSession in all but its type, so that what may need one is not written twice. `needed`: whether one was made in this
    process.
    """

    needed: ClassVar[bool] = False

    def __init__(self, make: Callable[[], SparkSession]) -> None:
        self._make, self._making = make, Lock()
        self._made: SparkSession | None = None

    @classmethod
    def of(cls, make: Callable[[], SparkSession]) -> SparkSession:
        """The session that `make` will make."""
        return cast("SparkSession", cls(make))

    def __getattr__(self, name: str) -> Any:
        with self._making:
            if self._made is None:
                with timed("a session of Spark starts"):
                    self._made = self._make()
                SessionOnDemand.needed = True
        return getattr(self._made, name)

    @property
    def existing(self) -> SparkSession | None:
        """The session, if it was made; asking for it makes none."""
        return self._made

    def begin(self) -> None:
        """Make it beside whatever else is to be done first."""
        Thread(target=self._began, name="session", daemon=True).start()

    def _began(self) -> None:
        with suppress(Exception):  # raised again when it is needed
            self.conf  # noqa: B018 - makes it

    def stop(self) -> None:
        """Stop it, if it was made."""
        with self._making:
            if self._made is None:
                log.info("no session of Spark was needed")
            else:
                stop(self._made)


def begin(spark: SparkSession) -> None:
    """Make a session that is on demand now, beside other work: some of its seconds are then over when it is needed."""
    if isinstance(spark, SessionOnDemand):
        spark.begin()


def made(spark: SparkSession) -> SparkSession:
    """The same session; one on demand is made first.

    Before pyspark's own functions and its parser of types are called: they ask the process for a session, and raise without one.
    """
    spark.conf  # noqa: B018 - makes it
    return spark


def build_session(
    app_name: str, sink: Sink, jars: Sequence[str] = (), extra: Mapping[str, str] | None = None
) -> SparkSession:
    """The session of this driver, with the sink's catalog in it and the session functions registered.

    Under spark-submit, or with its options (LATE_JVM), its master and jars are used; otherwise the session is local, if `extra` names no master, and
    `jars` are paths, so that Ivy is never used. The catalog's credentials are set here, inside the driver, and never
    appear on a command line. `extra` overrides everything but EXACT. Executors elsewhere get this package's files.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    submitted = bool({"PYSPARK_GATEWAY_PORT", LATE_JVM} & set(os.environ))
    if LATE_JVM in os.environ:
        # by itself it would start the JVM with the builder's settings, credentials included, on its command line
        SparkContext._ensure_initialized()  # noqa: SLF001
    local = is_local((extra or {}).get("spark.master", LOCAL["spark.master"]))
    if not submitted:
        os.environ |= {name: os.environ.get(name, value) for name, value in python_of(local=local).items()}
    own = {**(LOCAL if local else {}), **({"spark.jars": ",".join(jars)} if jars else {})} if not submitted else {}
    builder = SparkSession.builder.appName(app_name)
    ours = {"spark.redaction.regex": SPARK_REDACTION, **EXACT}
    for key, value in {**own, **_catalog(sink), **(extra or {}), **ours}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register_functions(session)
    if not is_local(session.sparkContext.master):
        ship(session)
    return session


def _catalog(sink: Sink) -> Mapping[str, str]:
    tables = sink if sink.staging is None else sink.staging
    return tables.spark_conf() if isinstance(tables, InCatalog) else {}


def remote_session(app_name: str, sink: Sink, remote: Mapping[str, str]) -> SparkSession:
    """As build_session, on a Spark Connect server."""
    from airflow_cdc.spark_apps.driver import connect

    settings = {**_catalog(sink), **SMALL, **EXACT}
    return connect.session_on(connect.Remote.from_json(remote), app_name, settings)


def stop(session: SparkSession) -> None:
    """End a session that was made."""
    if is_remote(session):
        from airflow_cdc.spark_apps.driver import connect

        connect.stop(session)
    else:
        session.stop()


def java_options(rows: int | None) -> str:
    """Java's options for a driver that brings its own executors and has `rows` ahead (None: nobody knows how many)."""
    return f"{_UTC} {LATE_COMPILER if rows is None or rows > QUICK_ROWS else QUICK_COMPILER}"


def is_local(master: str) -> bool:
    """Whether the driver is its own only executor. `spark://localhost:7077` is a cluster."""
    return re.fullmatch(r"local(\[[^\]]*\])?", master) is not None


def python_of(*, local: bool) -> dict[str, str]:
    """The environment by which Spark finds its Python: this one for the driver, and for its own executors.

    Spark hands PYSPARK_PYTHON on to executors elsewhere, where this machine's path leads to nothing.
    """
    driver = {"PYSPARK_DRIVER_PYTHON": sys.executable}
    return {"PYSPARK_PYTHON": sys.executable, **driver} if local else driver


def sibling(spark: SparkSession, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A separate session in the same application, for one table's thread; `settings` apply to it only.

    The first session's own settings are copied, because a new session starts from the application's.
    """
    if is_remote(spark):
        from airflow_cdc.spark_apps.driver import connect

        session = connect.sibling_of(spark)
        for key, value in (settings or {}).items():
            session.conf.set(key, value)
        return session
    session = spark.newSession()
    values = {key: spark.conf.get(key, None) for key in (*EXACT, "spark.sql.shuffle.partitions")}
    for key, value in {**values, **(settings or {})}.items():
        if value is not None:
            session.conf.set(key, value)
    register_functions(session)
    return session


def is_remote(spark: SparkSession) -> bool:
    """Whether it is a session on a Spark Connect server."""
    return _of_connect(spark.conf)


def _of_connect(of_spark: object) -> bool:
    return type(of_spark).__module__.startswith("pyspark.sql.connect.")


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once."""
    if is_remote(spark):
        from airflow_cdc.spark_apps.driver import connect

        return connect.parallelism(spark)
    return int(spark.sparkContext.defaultParallelism)


def kept(frame: DataFrame, *, eager: bool = True) -> DataFrame:
    """The frame's rows, computed once and held until nothing refers to them; `eager`: at once, else when they are read."""
    if _of_connect(frame):
        from airflow_cdc.spark_apps.driver import connect

        return connect.kept(frame, eager=eager)
    return frame.localCheckpoint(eager=eager)


def reads_by_part(frame: DataFrame) -> bool:
    """Whether `toLocalIterator` computes and holds one partition at a time (INV 24). A Spark Connect server sends all at once."""
    return not _of_connect(frame)
