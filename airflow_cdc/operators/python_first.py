"""A driver that is its own only executor starts as Python; Spark's JVM starts when the driver asks for a session.

What has few rows and few events needs no session, and spark-submit, which starts its JVM all the same, was half of what such a
driver cost (docs/adr/0022-cold-drivers.md). pyspark starts that JVM by the same spark-submit, with the options in
PYSPARK_SUBMIT_ARGS, and it ends when its Python does: it reads a pipe from there.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from airflow_cdc.java import pyspark_folder
from airflow_cdc.spark_apps.driver.session import LATE_JVM

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

OPTIONS = "PYSPARK_SUBMIT_ARGS"


def python_first(hook: SparkSubmitHook) -> SparkSubmitHook:
    """The same hook, which starts our Python, and leaves its options for spark-submit to the JVM that may follow.

    Another spark-submit than this environment's has a pyspark of its own, and is started as ever.
    """
    command_of = hook._build_spark_submit_command  # noqa: SLF001 - what it does is asked for by no public name

    def command(application: str) -> list[str]:
        whole: list[str] = command_of(application)
        environment: Mapping[str, str] = hook._env or {}  # noqa: SLF001
        if not is_own(whole[0], environment):
            return whole
        at = whole.index(application)
        hook._env = {**environment, **with_late_jvm(whole[1:at])}  # noqa: SLF001
        return [sys.executable, *whole[at:]]

    hook._build_spark_submit_command = command  # noqa: SLF001
    return hook


def with_late_jvm(options: Sequence[str]) -> dict[str, str]:
    """The environment of a driver that starts as Python, and whose JVM gets these options of spark-submit."""
    # spark-submit, too, has Python write what it says at once
    return {OPTIONS: shlex.join([*options, "pyspark-shell"]), LATE_JVM: "1", "PYTHONUNBUFFERED": "1"}


def is_own(binary: str, environment: Mapping[str, str]) -> bool:
    """Whether this is the spark-submit of the pyspark that our Python imports."""
    path, folder = shutil.which(binary, path=environment.get("PATH")), pyspark_folder()
    elsewhere = environment.get("SPARK_HOME") or os.environ.get("SPARK_HOME")
    if path is None or folder is None or elsewhere:
        return False
    places = (Path(sys.executable).parent, folder / "bin")
    return Path(path).name == "spark-submit" and Path(path).parent.resolve() in {one.resolve() for one in places}


def below(pid: int) -> list[psutil.Process]:
    """The processes that a driver has started: Spark's JVM, and that JVM's Python workers."""
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def end(processes: list[psutil.Process]) -> None:
    """End them at once. A JVM that only sees its Python gone ends in order, and may still commit what it has begun."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
