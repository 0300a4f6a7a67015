"""Carries out the plans of the diagnosis, in one Spark session: a request a line, answered by a line.

A request is {"settings": what a driver is given, "do": "recover" | "apply", "strategy": …}, the answer {"verdict": …} or
{"error": …}. The steps are the product's own, called one after the other as the DAG does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import close, connector, decide, hold, publish, watermark
from airflow_cdc.flows import reset_offset as offset
from airflow_cdc.flows.checks import conclude
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.replica import return_to_source
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.driver.app import log_to_stderr, read_run
from airflow_cdc.spark_apps.driver.session import build_session
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.repair import repair
from airflow_cdc.spark_apps.verify import verify
from stack import fetch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Facts = dict[str, Any]
SAYS_NOTHING = "-"  # a restart compares nothing


def snapshot(run: Run, spark: SparkSession, decision: Facts) -> str:
    """All ten steps; the verdict of `verify`."""
    open_recovery(run, Decision.from_json(decision))
    connector.stop(run)
    with _held(run):
        watermark.fence_and_watermark(run)
        recover(run, spark)
        offset.reset_offset(run)
        connector.resume(run)
    verdict = str(verify(run, spark)["verdict"])
    publish.publish(run)
    close.close(run)
    close.report(run)
    return verdict


@contextmanager
def _held(run: Run) -> Iterator[None]:
    over = Event()
    with ThreadPoolExecutor(1) as beside:
        holding = beside.submit(hold.hold, run, over.is_set)
        try:
            yield
        finally:
            over.set()
        holding.result()


def go_on_there(run: Run, spark: SparkSession, decision: Facts) -> str:
    """The connector goes on at the server that took over; then every row is compared."""
    open_recovery(run, Decision.from_json(decision))
    return_to_source(run)
    repair(Run(run.pipeline, run.clients, run.run_id, run.report_dir, RunOptions(dry_run=True)), spark)
    return str(conclude(run)["verdict"])


def start_again(run: Run, _spark: SparkSession, _decision: Facts) -> str:
    """The connector alone."""
    connector.restart(run)
    return SAYS_NOTHING


WAYS: Mapping[str, Callable[[Run, SparkSession, Facts], str]] = {
    "restart": start_again,
    "translate_gtid": go_on_there,
    **dict.fromkeys(("finish", "diff_repair", "full_snapshot", "resume_next_file"), snapshot),
}


def done(spark: SparkSession, asked: Facts) -> Facts:
    """Answer one request."""
    run = read_run(asked["settings"])
    if asked["do"] == "apply":
        return {"applied": apply_changes(run, spark)}
    decision = decide.decide(run, asked["strategy"])
    if decision["plan"]["refused"]:
        return {"error": decision["plan"]["reason"]}
    return {"verdict": WAYS[asked["strategy"]](run, spark, decision)}


def main() -> None:
    """Answer until the input ends."""
    log_to_stderr()
    spark = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            lake = read_run(asked["settings"]).clients.sink
            spark = spark or build_session("faults", lake, [str(jar) for jar in fetch.set_jars("spark")])
            answer = done(spark, asked)
        except CdcError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer, default=str), flush=True)
    if spark:
        spark.stop()


if __name__ == "__main__":
    main()
