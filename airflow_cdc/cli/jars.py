"""Whether Spark will find the jars that it needs: what spark-submit will be given, looked at before a recovery needs it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_cdc.config import settings
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.spark_jars import GivenJars, Need, SparkVersion, misfits, missing
from airflow_cdc.java import pyspark_folder
from airflow_cdc.operators.other_spark import ask


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """A Spark, and the jars and packages that drivers on it are given, comma-separated."""

    version: str
    home: str
    jars: str | None
    packages: str | None


def our_spark() -> SparkPlace:
    """The Spark of this environment, with what [cdc] names."""
    version = importlib.metadata.version("pyspark")
    return SparkPlace(version, _spark_home(), settings.spark_jars(), settings.spark_packages())


def other_spark(python: str, jars: Sequence[str], where: str, release: str = "") -> SparkPlace:
    """The Spark that a pipeline's `spark.python` leads to. Raises ConfigError if no driver can run there."""
    other = ask(python, where, release)
    return SparkPlace(other.version, other.home, ",".join(jars) or None, None)


def jar_checks(subject: str, needs: Sequence[Need], place: SparkPlace | None = None) -> list[Check]:
    """Whether what spark-submit will be given, with Spark's own jars, holds `needs`. `place` None: our Spark."""
    place = place or our_spark()
    try:
        jars = given_jars(settings.spark_conf(), needs, place)
    except ConfigError as error:
        return [Check(subject, "jars", "bad", str(error), error.todo)]
    spark = SparkVersion(place.version)
    absent = [f"{jar} does not exist here" for jar in jars.jars if "://" not in jar and not Path(jar).exists()]
    if wrong := [*absent, *misfits(jars, spark, needs)]:
        here = f"Spark {spark.minor}, Scala {spark.scala}"
        todo = f"Use jars for {here}: see [cdc] spark_jars, and spark.jars of a pipeline with spark.python."
        return [Check(subject, "jars", "bad", fault, todo) for fault in wrong]
    lacking = missing(jars, needs)
    if not lacking:
        return [Check(subject, "jars", "ok", ", ".join(need.artifact for need in needs))]
    return [_lacking(subject, need, spark) for need in lacking]


def packages_with(needs: Sequence[Need]) -> str:
    """What [cdc] spark_packages has to be for drivers to find `needs`, with what it is now; "" if nothing is missing."""
    place = our_spark()
    try:
        lacking = missing(given_jars(settings.spark_conf(), needs, place), needs)
    except ConfigError:
        return ""  # the doctor says it
    spark = SparkVersion(place.version)
    return ",".join((*_listed(place.packages), *map(spark.package, lacking))) if lacking else ""


def _lacking(subject: str, need: Need, spark: SparkVersion) -> Check:
    todo = f"Add the jar to [cdc] spark_jars, or {spark.package(need)} to [cdc] spark_packages."
    return Check(subject, "jars", "bad", f"no {need.artifact}, which {need.why}", todo)


def given_jars(conf: Mapping[str, str], needs: Iterable[Need], place: SparkPlace) -> GivenJars:
    """All that the place, spark-defaults.conf and Spark's own folder of jars put on the class path."""
    conf = {**_spark_defaults(place.home), **conf}
    named = _listed(place.jars, conf.get("spark.jars"))
    on_path = [
        jar for part in conf.get("spark.driver.extraClassPath", "").split(":") if part for jar in _expanded(part)
    ]
    own = _jars_in(Path(place.home) / "jars")
    packages = _listed(place.packages, conf.get("spark.jars.packages"))
    jars = tuple(jar.removeprefix("file://") for jar in (*named, *on_path))
    return GivenJars((*jars, *own), packages, _classes(jars, {need.entry for need in needs}))


def _listed(*values: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for value in values if value for part in value.split(",") if part.strip())


def _expanded(part: str) -> list[str]:
    return _jars_in(Path(part).parent) if part.endswith("/*") else [part]


def _jars_in(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("*.jar")))


def _spark_home() -> str:
    """Where the Spark that spark-submit starts is: SPARK_HOME, else the installed pyspark."""
    return os.environ.get("SPARK_HOME") or str(pyspark_folder() or "")


def _spark_defaults(home: str) -> dict[str, str]:
    """The settings of spark-defaults.conf, which spark-submit reads by itself."""
    path = Path(os.environ.get("SPARK_CONF_DIR") or f"{home}/conf") / "spark-defaults.conf"
    lines = path.read_text().splitlines() if path.is_file() else []
    pairs = [
        line.replace("=", " ", 1).split(None, 1) for line in lines if line.strip() and not line.lstrip().startswith("#")
    ]
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) > 1}


def _classes(jars: Iterable[str], entries: set[str]) -> frozenset[str]:
    """Those of `entries` that a local jar holds, whatever its name."""
    return frozenset(entry for jar in jars if jar.endswith(".jar") for entry in entries & _names(jar))


def _names(jar: str) -> set[str]:
    try:
        with zipfile.ZipFile(jar) as opened:
            return set(opened.namelist())
    except (OSError, zipfile.BadZipFile):
        return set()
