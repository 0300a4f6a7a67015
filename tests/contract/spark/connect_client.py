"""A driver on a Spark Connect server, as `test_connect_server.py` starts it: does what it is asked, and says what came of it.

Run as a script, because pyspark decides once for a process which Spark it calls. It ends as any script does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as fn

from airflow_cdc.core.errors import CdcError, SinkError
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.adapters.iceberg_merge import write_images
from airflow_cdc.spark_apps.compare.flight import InParts
from airflow_cdc.spark_apps.driver import connect, connect_answers
from airflow_cdc.spark_apps.driver.app import explained
from airflow_cdc.spark_apps.driver.session import (
    SMALL_BATCH,
    SessionOnDemand,
    kept,
    parallelism,
    remote_session,
    sibling,
)
from tests.apply_support import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = "SELECT count(*) FROM range(0, 4000000000000, 1, 2) WHERE id % 7 = 8"
JSON = """SELECT cdc_json_canonical('{"b": 1, "a": 2.0}') AS j"""


def functions(spark: SparkSession) -> object:
    """What Spark SQL lacks, in the first session and in a sibling."""
    return [one.sql(JSON).collect()[0]["j"] for one in (spark, sibling(spark))]


def isolation(spark: SparkSession) -> object:
    """Settings and views of a sibling are its own; it has the first session's."""
    one, other = sibling(spark, SMALL_BATCH), sibling(spark)
    one.range(3).createOrReplaceTempView("own")
    asked = ("spark.sql.adaptive.enabled", "spark.sql.session.timeZone")
    return {
        "settings": [[session.conf.get(key) for key in asked] for session in (spark, one, other)],
        "views": [session.catalog.tableExists("own") for session in (spark, one, other)],
        "catalog": other.conf.get("spark.sql.catalog.lake"),
    }


def checkpoints(spark: SparkSession) -> object:
    """Rows kept in a sibling are read, joined and written there."""
    own = sibling(spark)
    at_once, when_read = kept(own.range(5)), kept(own.range(3), eager=False)
    return [at_once.count(), at_once.join(when_read, "id").count(), at_once.sparkSession is own]


def images(spark: SparkSession) -> object:
    """The copies that remain are counted in a view that is gone when they are written."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.n")
    spark.sql("CREATE TABLE lake.n.copies (kind STRING, n INT)")
    spark.sql("INSERT INTO lake.n.copies VALUES ('a', 1), ('a', 1), ('b', 2)")
    images = (
        "SELECT struct(kind, n) AS image, copies AS n FROM VALUES ('a', 1, -1L), ('c', 3, 2L) AS t (kind, n, copies)"
    )
    write_images("lake.n.copies", EVENTS, sibling(spark).sql(images), {})
    return sorted(row["n"] for row in spark.table("lake.n.copies").collect())


def parts(spark: SparkSession) -> object:
    """INV 24: the rows of one part are held at a time. The server would send all parts at once to an iterator."""
    frame = sibling(spark).range(1_000).withColumn("part", fn.col("id") % 4).repartition(4, "part").persist()
    read = InParts(frame.withColumn("more", fn.lit("x")), 1)
    type(frame).toLocalIterator = None
    counted = [[len(read.of(number)), {row["part"] for row in read.of(number)} == {number}] for number in (0, 1, 3, 1)]
    return [*counted, len(read.of(7))]


def at_once(spark: SparkSession) -> object:
    """How many tasks run at once, which no context says."""
    return parallelism(spark)


def interrupted(spark: SparkSession) -> object:
    """A query whose driver was ended does not go on."""
    own, error, began = sibling(spark), list[BaseException](), time.monotonic()

    def ask() -> None:
        try:
            own.sql(LONG).collect()
        except Exception as raised:
            error.append(raised)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(1.5)
    connect.interrupt(own)
    thread.join(30)
    return [thread.is_alive(), [isinstance(one, PySparkException) for one in error], time.monotonic() - began < 25]


def stopped(spark: SparkSession) -> object:
    """A session that is stopped beside its work is told, not passed on as it is."""
    own = sibling(spark)

    def close() -> None:
        own.client.release_session()
        own.client.close()

    threading.Timer(1.5, close).start()
    try:
        with explained(SinkError, "compare", where="here", todo="Again."):
            own.sql(LONG).collect()
    except CdcError as error:
        return error.what.startswith("could not compare: ")  # by whichever of the two ends is seen first
    return "nothing was raised"


def answers(spark: SparkSession) -> object:
    """What the doctor asks."""
    entries = ["org/apache/iceberg/spark/SparkCatalog.class", "no/such/Thing.class"]
    return asdict(connect_answers.answers(spark, entries))


CHECKS: tuple[Callable[[SparkSession], object], ...] = (
    functions,
    isolation,
    checkpoints,
    images,
    parts,
    at_once,
    answers,
    interrupted,
    stopped,
)


def main() -> None:
    """Do all of it with one session; each result is a line of JSON."""
    asked: dict[str, Any] = json.loads(sys.stdin.read())
    lake = Lake("lake", asked["catalog"])
    spark = SessionOnDemand.of(lambda: remote_session("contract", lake, asked["remote"]))
    for check in CHECKS:
        try:
            print(json.dumps({check.__name__: check(spark)}), flush=True)
        except Exception as error:
            print(json.dumps({check.__name__: f"{type(error).__name__}: {error}"[:2000]}), flush=True)
    spark.stop()
    print(json.dumps({"siblings left": len(connect._siblings)}), flush=True)


if __name__ == "__main__":
    main()
