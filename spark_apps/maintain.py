"""The application `maintain`: keep the pipeline's sink tables small, according to its policy. No row is changed.

It needs no lease and blocks nobody: a writer that publishes meanwhile wins, and the work that this prevented is left to
the next run (INV 20). A table that a recovery is replacing is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import CdcError, SinkError
from airflow_cdc.flows.capture import settings as connector_settings
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.flows.stages import staging_of
from airflow_cdc.spark_apps.driver.app import explained, open_app
from airflow_cdc.spark_apps.driver.systems import table_keeper
from airflow_cdc.spark_apps.ports import Unread
from airflow_cdc.spark_apps.tidied import Tidied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.spark_apps.ports import TableKeeper

log = logging.getLogger("airflow_cdc.maintain")
AGAIN = "No row was changed; the next run tries again."


def main(settings: Mapping[str, object]) -> Facts:
    """Maintain the tables. `settings`: the operator's file for the driver."""
    with open_app(settings, "maintain") as (run, spark):
        return maintain(run, spark)


@step("maintain")
def maintain(run: Run, spark: SparkSession, now: datetime | None = None) -> Facts:
    """Maintain every table. Returns {"tables": {table: counts}, "left_out": tables of an open recovery}.

    Raises SinkError, once all tables were tried, for those that failed.
    """
    keeper, moment = table_keeper(run), now or datetime.now(UTC)
    recovery = run.clients.control.facts().recovery
    busy = frozenset(recovery.tables if recovery is not None else ())
    outcomes = {
        name: _tidied(run, spark, keeper, name, moment) for name in run.pipeline.source.tables if name not in busy
    }
    errors = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, CdcError)}
    if errors:
        first = next(iter(errors.values()))
        raise SinkError(f"maintenance failed for {', '.join(errors)}; the first: {first}", where=run.where, todo=AGAIN)
    counts = {name: outcome.to_json() for name, outcome in outcomes.items() if isinstance(outcome, Tidied)}
    return {"tables": counts, "left_out": sorted(busy)}


def _tidied(run: Run, spark: SparkSession, keeper: TableKeeper, name: str, now: datetime) -> Tidied | CdcError:
    """Maintain one table; its error does not stop the others."""
    place = (run.pipeline.sink.namespace, run.pipeline.sink_table(name))
    try:
        with explained(SinkError, "tidy up", where=f"table {name}", todo=AGAIN):
            unread = partial(first_unread, run, name)
            counts = keeper.tidy(spark, place, run.pipeline.policy.maintenance, now, unread)
    except CdcError as error:
        log.warning("%s: %s", name, error)
        return error
    log.info("%s: %s", name, counts)
    return counts


def first_unread(run: Run, name: str) -> Unread | None:
    """Where the table's unread events begin, by its stamp; a topic that the stamp does not name is read from 0 (INV 16).

    Raises SinkError, or ConnectorError if the connector's settings cannot be read.
    """
    stamp = staging_of(run).stamp(run.pipeline.sink.namespace, run.pipeline.sink_table(name))
    if stamp is None:
        return None
    offsets = stamp.offsets.get(connector_settings(run).topic_of(name))
    return Unread(stamp.epoch, min(offsets.next.values(), default=0) if offsets else 0)
