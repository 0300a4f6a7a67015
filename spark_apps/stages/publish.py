"""A stage of one table's main: made, compared, and published by compare-and-set."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from airflow_cdc.core.errors import SinkError
from airflow_cdc.core.ports import Stage
from airflow_cdc.core.report import TableReport
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.schema_change import DEFINITION, dump_definition
from airflow_cdc.decisions.compare.expectations import Judged
from airflow_cdc.decisions.compare.part import Part
from airflow_cdc.flows.publish import mirror
from airflow_cdc.flows.stages import letters_of
from airflow_cdc.spark_apps.compare.caveats import CaveatsOf
from airflow_cdc.spark_apps.compare.results import make_report
from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.driver.app import explained
from airflow_cdc.spark_apps.stages.passes import compare_passes
from airflow_cdc.spark_apps.stages.work import LABEL, Work

# How long a process waits for the pipeline's lease before it publishes.
LEASE_WAIT_SECONDS = 600.0


@contextmanager
def staged(work: Work, table: Table) -> Iterator[Stage]:
    """A stage of the table's current head; deleted at the end of the block."""
    lake = work.staging
    stage = lake.stage(*work.place(table), f"{LABEL}{uuid.uuid4().hex[:12]}")
    try:
        yield stage
    finally:
        lake.drop_stage(stage)


def compared(work: Work, caveats: CaveatsOf = lambda _outcome: ()) -> Outcome:
    """Catch the work's one stage up and compare it. Dead letters raise no doubt here: their rows are compared like all others."""
    with explained(SinkError, "compare the table", where=work.run.where, todo="Main was not changed; run it again."):
        (outcome,) = compare_passes(work, lambda: caveats)
    return outcome


def report_of(outcome: Outcome, why: str = "") -> TableReport:
    """The table's report; `why` something was not done is listed among its samples."""
    name = outcome.subject.table.full_name
    report = make_report(outcome, Judged(name, checks=0))
    return replace(report, samples=(*([why] if why else []), *report.samples))


def publish_stage(work: Work, stage: Stage, table: Table, snapshot_id: int, *, over_compaction: bool = True) -> None:
    """Move main to the stage's snapshot, if nothing (but compactions, if they may) moved it since the stage was made."""
    lake = work.staging
    definition = dump_definition(table)
    text = lake.definition_text(stage.namespace, stage.table)
    properties = {} if text == definition else {DEFINITION: definition}
    lake.publish(stage, snapshot_id, stage.base_head, properties, over_compaction=over_compaction)


def note_published(work: Work, table: Table, part: Part) -> None:
    """Mirror the new stamp; mark dead letters as resolved if every row of the table was found equal."""
    run, name = work.run, table.full_name
    mirror(run, [name])
    stamp = work.staging.stamp(*work.place(table))
    if part.whole and stamp is not None:
        letters_of(run).resolve_letters_before(run.pipeline.name, {name: stamp.offsets})
