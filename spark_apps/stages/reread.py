"""Read one whole table again because DDL changed its rows in a way that no event carries (ADR 0010).

Readers see the old state until the new one is proven: the rows go to a separate stage, whose base is fixed before the
source is read (INV 20). The stage catches up past the read and is compared row by row, and only that exact snapshot is
published, under the lease, if neither main nor the epoch moved meanwhile. Other tables have been applied before.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import RereadNeededError, SinkError, UnknownStateError, VerificationError
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.compare.caveats import xa_open
from airflow_cdc.spark_apps.compare.scan import VISIBLE_SECONDS
from airflow_cdc.spark_apps.driver.app import explained
from airflow_cdc.spark_apps.driver.lease import leased
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.driver.systems import row_reader
from airflow_cdc.spark_apps.snapshot.read import Reading, Tools, read_table
from airflow_cdc.spark_apps.stages.publish import (
    LEASE_WAIT_SECONDS,
    compared,
    note_published,
    publish_stage,
    report_of,
    staged,
)
from airflow_cdc.spark_apps.stages.work import Work, open_work
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.core.ports import Stage
    from airflow_cdc.core.table import Table

log = logging.getLogger("airflow_cdc.reread")

# After this many failed re-reads within an hour we wait until the hour is over, or for a person.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Reread:
    """A table that was read again: its row count, and the published snapshot."""

    rows: int
    snapshot_id: int


def refusal(policy: Policy, tries: int, rows: int) -> str:
    """Why a table of about `rows` rows is not read again automatically; "" if it is."""
    if policy.schema_change == "stop":
        return "the pipeline's policy says schema_change: stop"
    if tries >= TRIES:
        return f"it was re-read {tries} times without success; the next try is in an hour"
    if rows > policy.reread_limit:
        return f"it has about {rows} rows, more than reread_limit {policy.reread_limit}"
    return ""


def reread(run: Run, spark: SparkSession, name: str, tries: int) -> Reread:
    """Read the table again, prove it equal, and publish it.

    Raises RereadNeededError where the policy does not allow it, VerificationError where source and stage are not equal
    at the end, StaleHeadError if main moved. After an error main is unchanged.
    """
    table = captured(run, [name])[name]
    if why := refusal(run.pipeline.policy, tries, row_reader(run).sizes([table])[name].rows):
        raise RereadNeededError(
            f"it must be re-read, and this is not done automatically: {why}",
            where=f"table {name}",
            todo="Recover the table.",
        )
    work = open_work(run, spark)
    with staged(work, table) as stage, explained(SinkError, "read the table again", where=f"table {name}", todo=AGAIN):
        table, watermark = read_anew(work, stage, name)
        outcome = compared(replace(work.on(stage, table), read_at=watermark))
        report = report_of(outcome)
        if report.verdict is not Verdict.MATCH:
            raise VerificationError(
                f"read again, the table is {report.verdict}: {', '.join(report.samples[:3])}",
                where=f"table {name}",
                todo=AGAIN,
                verdict=str(report.verdict),
            )
        _check_removed(work, stage, table, outcome.sink_rows)
        snapshot_id = outcome.subject.sink.version
        with leased(run, LEASE_WAIT_SECONDS):
            _check_epoch(work, name)
            publish_stage(work, stage, table, snapshot_id)
            note_published(work, table, WHOLE)
            run.clients.control.compared(work.xa, {name: report.verdict})
    log.info("%s: read again, %d rows, published", name, outcome.sink_rows)
    return Reread(outcome.sink_rows, snapshot_id)


AGAIN = "Main is as it was; the next apply tries again."


def read_anew(work: Work, stage: Stage, name: str) -> tuple[Table, Watermark]:
    """Replace the stage's rows with the source's current rows; returns the definition and the position they were read with.

    The topics' ends are taken first. Every change before them is visible to the read, and changes after them that the
    watermark covers count as applied; so nothing is skipped, and nothing old is applied over the rows just read.
    """
    clients = work.run.clients
    if xa_open(work.run):
        raise UnknownStateError(
            "prepared XA transactions are open on the source, so its visible rows do not match its log",
            where=f"table {name}",
            todo="Wait until they end (XA RECOVER shows them).",
        )
    states = clients.transport.topic_states(work.systems.events.routing.topics_about([name]))
    ends = {topic: TopicOffsets.end_of(state) for topic, state in states.items()}
    clients.source.wait_visible(clients.source.position(), VISIBLE_SECONDS)
    watermark = clients.source.watermark()
    clients.source.wait_visible(watermark, VISIBLE_SECONDS)
    table = captured(work.run, [name])[name]
    work.systems.events.routing.check_table(table)
    work.systems.writer.define(stage, table, [(column.name, sink_type(column)) for column in table.mirrored])
    ledger = ChunkLedger(watermark.hash, watermark.server, table.fingerprint)
    reading = Reading(table, stage, ledger, Stamp(work.epochs.of(name), watermark.to_json(), ends), watermark)
    read_table(Tools(work.spark, work.systems.reader, work.systems.writer), reading, Progress({name: 0}))
    return table, watermark


def _check_removed(work: Work, stage: Stage, table: Table, rows: int) -> None:
    """Refuse to publish a table that would lose more rows than the policy allows without asking (INV 36).

    An unknown number counts as too many.
    """
    policy = work.run.pipeline.policy
    before = work.systems.writer.row_count(stage, stage.base_head)
    if policy.approval == "never" or (before is not None and not _too_many(policy, before - rows, before)):
        return
    loss = "an unknown number of rows" if before is None else f"{before - rows} of {before} rows"
    raise SinkError(
        f"re-reading would remove {loss}, more than max_deletes {policy.max_deletes}",
        where=f"table {table.full_name}",
        todo="Recover the table: the recovery asks a person before it removes them.",
    )


def _too_many(policy: Policy, gone: int, before: int) -> bool:
    return gone > 0 and policy.max_deletes.exceeded_by(gone, before)


def _check_epoch(work: Work, name: str) -> None:
    """Check, under the lease, that since the stage was made no recovery was opened, and none of this table closed."""
    facts = work.run.clients.control.facts()
    if facts.recovery is not None or facts.required.of(name) != work.epochs.of(name):
        raise SinkError(
            "a recovery began meanwhile, so the re-read rows are not published", where=work.run.where, todo=AGAIN
        )
