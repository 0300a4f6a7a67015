"""The application `apply_changes`: every table from its stamp to the topics' ends now, published table by table.

All its state is in the tables themselves. A run that dies at any point has either published a table's batch with its
stamp or has not; the next run starts from the stamps and applies the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.errors import (
    CdcError,
    RereadNeededError,
    SchemaError,
    SinkError,
    UnreportedChangeError,
)
from airflow_cdc.flows.capture import missing_error
from airflow_cdc.flows.partial import InPart
from airflow_cdc.flows.publish import mirror
from airflow_cdc.flows.refused import failed_tries, note_refused
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.spark_apps.apply.context import Result
from airflow_cdc.spark_apps.apply.continuous import Loop
from airflow_cdc.spark_apps.driver.app import open_app
from airflow_cdc.spark_apps.driver.lease import leased
from airflow_cdc.spark_apps.driver.lost import begun_again
from airflow_cdc.spark_apps.driver.task import is_waited_for
from airflow_cdc.spark_apps.stages.reread import reread
from airflow_cdc.spark_apps.stages.waiting import drop_orphans, try_table, waiting_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_cdc.apply_changes")

IS_REREAD = "%s is re-read: %s"  # what the log says of such a table, and why


def main(settings: Mapping[str, Any]) -> Facts:
    """Apply the waiting events. `settings`: the operator's file for the driver; option `replay`: try all letters again.

    The run of a continuous pipeline lasts as long as the task `settings["task"]` waits for it.
    """
    with open_app(settings, "apply_changes") as (run, spark):
        task = settings.get("task")
        return apply_changes(run, spark) if task is None else keep_applying(run, spark, partial(is_waited_for, task))


@step("apply_changes")
def apply_changes(run: Run, spark: SparkSession) -> Facts:
    """Apply and publish every table that has new events, under the pipeline's lease.

    Tables whose recovery was abandoned are left out. Returns {"tables": {table: result}}. When all tables have been
    tried, raises the error of the table that stopped (or one error that names all of them). Raises LeaseHeldError while
    another run writes, and SinkError while a recovery is open.
    """
    return {"tables": _results(run, _batch(run, spark))}


@step("apply_changes")
def keep_applying(run: Run, spark: SparkSession, waited_for: Callable[[], bool]) -> Facts:
    """Apply and publish batch after batch, until the pipeline's `apply.lasts` has passed or the task is gone.

    A table that stops is tried again and does not stop the others. Returns {"tables": {table: result of all its
    batches}, "batches"}. Raises as apply_changes does if a table is still stopped at the end.
    """
    loop = Loop(run, lambda one: _batch(one, spark), waited_for)
    loop.go_on()
    return {"tables": _results(run, loop.outcomes), "batches": loop.batches}


def _batch(run: Run, spark: SparkSession) -> dict[str, Result | CdcError]:
    """One batch of the run's tables: table → its result, or the error that stopped it."""
    with leased(run, beside=True):
        outcomes, logged = _apply_all(run, spark)
    # the lease is free meanwhile and is taken again to publish
    done = outcomes | {
        name: _read_again(run, spark, name, error) for name, error in outcomes.items() if needs_reread(error)
    }
    logged.settle(run, [name for name, outcome in done.items() if isinstance(outcome, CdcError)])
    return done


def _results(run: Run, outcomes: Mapping[str, Result | CdcError]) -> dict[str, Result]:
    """The tables' results. Raises if a table has an error."""
    errors = {table: outcome for table, outcome in outcomes.items() if isinstance(outcome, CdcError)}
    if errors:
        raise _summed(run, errors)
    return {table: outcome for table, outcome in outcomes.items() if not isinstance(outcome, CdcError)}


def _apply_all(run: Run, spark: SparkSession) -> tuple[dict[str, Result | CdcError], InPart]:
    batch = waiting_changes(run, spark)
    drop_orphans(batch)
    tables = batch.work.definitions
    with ThreadPoolExecutor(max(1, min(batch.ctx.threads, len(tables))), thread_name_prefix="apply") as pool:
        outcomes = dict(zip(tables, pool.map(partial(try_table, batch), tables.values()), strict=True))
    # expiry may remove every stamped snapshot of a table
    if published := [name for name, outcome in outcomes.items() if _published(outcome)]:
        mirror(run, published)
    return outcomes | {name: missing_error(run, name) for name in batch.missing}, batch.logged


def _published(outcome: Result | CdcError) -> bool:
    return not isinstance(outcome, CdcError) and bool(outcome.get("published"))


def needs_reread(outcome: Result | CdcError) -> bool:
    """Whether a table stopped because its rows changed without events."""
    return isinstance(outcome, RereadNeededError | UnreportedChangeError)


def _read_again(run: Run, spark: SparkSession, name: str, why: Result | CdcError) -> Result | CdcError:
    """Read the table again, if the policy allows it. What stops the re-read is stored for the diagnosis."""
    log.warning(IS_REREAD, name, why)
    try:
        done = begun_again(lambda: reread(run, spark, name, failed_tries(run, name)), f"the re-read of {name}")
    except CdcError as error:
        log.warning("%s was not re-read: %s", name, error)
        note_refused(run, name, f"{why} {error}", tried=not isinstance(error, RereadNeededError))
        return error if isinstance(why, dict) else _both(why, error)
    return {"table": name, "reread": True, "records": 0, "rows": done.rows, "published": True}


def _both(why: CdcError, error: CdcError) -> CdcError:
    return SchemaError(f"{why.what}; {error.what}", where=why.where, todo=error.todo)


def _summed(run: Run, errors: Mapping[str, CdcError]) -> CdcError:
    first, *others = errors.values()
    if not others:
        return first
    names = ", ".join(f"{table} ({type(error).__name__})" for table, error in errors.items())
    return SinkError(
        f"{len(errors)} tables stopped: {names}; the first: {first}",
        where=run.where,
        todo="The log has the error of each.",
    )
