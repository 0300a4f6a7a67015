"""An archive of Spark's classes, with which a driver starts sooner.

Much of what a short driver costs is the JVM reading and verifying the classes of Spark. With class data sharing
(https://openjdk.org/jeps/350) one driver writes its classes to an archive when it ends, and later ones map that. The JVM
checks that the archive was made of the same jars, and goes on without it if not.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from airflow_cdc.java import java_command
from airflow_cdc.spark_apps.driver.session import JAVA_OPTIONS

log = logging.getLogger("airflow_cdc.class_archive")

CLASS_PATH = "spark.driver.extraClassPath"
# of the JVM itself, each in a word of its own
_OWN = ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xshare", "-XX:+AutoCreateSharedArchive")


@contextmanager
def class_archive(
    folder: Path | None, conf: Mapping[str, str], spark_submit: str, whole: Callable[[], bool] = lambda: True
) -> Iterator[dict[str, str]]:
    """The driver's settings `conf` with an archive of its classes in `folder`; as they are without a folder.

    A driver that finds none writes one, which is kept if the block ends without an error and it is `whole`: a driver that
    made no session has few of Spark's classes, and no later one would add the others. A folder that can't be written to is
    logged: the archive only saves time.
    """
    options = conf.get(JAVA_OPTIONS, "")
    if folder is None or any(word.startswith(_OWN) for word in options.split()) or not _made(folder):
        yield dict(conf)
        return
    archive = folder / f"{_name(conf, spark_submit)}.jsa"
    fresh = archive.with_suffix(f".{os.getpid()}.new")
    own = f"-XX:SharedArchiveFile={archive}" if archive.exists() else f"-XX:ArchiveClassesAtExit={fresh}"
    try:
        # without the last option, the JVM prints a line for each class that it can't keep
        yield {**conf, JAVA_OPTIONS: f"{options} {own} -Xlog:cds=off -Xlog:cds+dynamic=off".strip()}
        if fresh.exists() and whole():
            fresh.replace(archive)
    finally:
        fresh.unlink(missing_ok=True)


def _made(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        log.warning("there is no class archive: %s", error)
        return False
    return True


def _name(conf: Mapping[str, str], spark_submit: str) -> str:
    """A name for what the JVM checks: Java, Spark, and the class path. Another installation makes another archive."""
    files = [Path(java_command() or "java"), Path(shutil.which(spark_submit) or spark_submit)]
    versions = [f"{file.resolve()} {file.stat().st_mtime_ns if file.exists() else 0}" for file in files]
    return hashlib.sha256("\n".join([*versions, version("pyspark"), conf.get(CLASS_PATH, "")]).encode()).hexdigest()[
        :16
    ]
