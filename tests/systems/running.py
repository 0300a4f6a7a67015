"""Running one row: a lake with its Spark session, and a system's failure, recovery and comparison in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow_cdc.sinks.iceberg.client import Lake
from tests.spark_session import session_with, spark_conf
from tests.systems.case import SPOILT, Case, Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.flows.run import Run


@contextmanager
def lake_and_spark(
    folder: Path, properties: Mapping[str, str], more_jars: Sequence[Path] = ()
) -> Iterator[tuple[Lake, SparkSession]]:
    """A catalog, and a session that knows it as `lake`."""
    conf = {"spark.master": "local[2]", **spark_conf(folder / "spark", dict(properties))}
    conf["spark.jars"] = ",".join([conf["spark.jars"], *map(str, more_jars)])
    with session_with(conf) as session:
        yield Lake("lake", dict(properties)), session


def run(
    case: Case, folder: Path, spark: SparkSession, lake: Lake, publishing: Callable[[Run], Any] | None = None
) -> Result:
    """One row. `publishing`: how the step of that name is run, if not once and to its end."""
    folder.mkdir()
    with case.opened(folder, spark, lake) as system:
        if publishing is not None:
            cast("Any", system).followed.publishing = publishing
        system.fill()
        text = system.fail()
        began = time.monotonic()
        with system.writing():
            recovered = system.recover()
        seconds = round(time.monotonic() - began, 1)
        system.catch_up()
        differences = system.differences()
        system.spoil()
        if (spoilt := system.differences()) != differences + SPOILT:
            raise AssertionError(f"the comparison is blind: {spoilt} after rows were changed in the source alone")
        return Result(
            case.system, system.version, case.failure, text, recovered.problem, seconds, *differences, recovered.verdict
        )
