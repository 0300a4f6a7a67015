"""Repair one table: read the rows that differ from the source again, and no others.

Main is never wrong in between: the rows go to a separate stage, whose base is fixed before the source is read (INV 20).
A row read now may be newer than the stage's offsets, so the stage catches up past the read before it is compared once
more, and only that exact snapshot is published, by compare-and-set. If a data change moved main meanwhile, everything
is repeated on the new head, including the read. The final offsets are those of the changes that were applied.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_cdc.core.errors import CdcError, SinkError, StaleHeadError, UnknownStateError, VerificationError
from airflow_cdc.core.ports import Stage
from airflow_cdc.core.report import TableReport, Verdict, overall
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.part import WHOLE, Part
from airflow_cdc.decisions.compare.repair import RepairPlan, refusal
from airflow_cdc.flows.checks import report_check, store_json
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.reports.stored import CHECK
from airflow_cdc.spark_apps.apply.context import start_of
from airflow_cdc.spark_apps.compare.caveats import check_no_xa
from airflow_cdc.spark_apps.compare.differing_rows import keep_rows
from airflow_cdc.spark_apps.compare.results import unproven
from airflow_cdc.spark_apps.compare.scan import VISIBLE_SECONDS
from airflow_cdc.spark_apps.driver.app import explained
from airflow_cdc.spark_apps.driver.lease import leased
from airflow_cdc.spark_apps.driver.lost import begun_again
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.snapshot.differences import Wanted, rewrite_keys
from airflow_cdc.spark_apps.snapshot.read import Reading, Tools, read_table
from airflow_cdc.spark_apps.stages.publish import (
    LEASE_WAIT_SECONDS,
    compared,
    note_published,
    publish_stage,
    report_of,
    staged,
)
from airflow_cdc.spark_apps.stages.work import Work

log = logging.getLogger("airflow_cdc.repair")

TRIES = 5


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """The result for one table: the initial `plan`, the last comparison's `report`, `snapshot_id` if published.

    `rewritten`: by records in the table's topic.
    """

    table: Table
    plan: RepairPlan
    report: TableReport
    snapshot_id: int | None = None
    tries: int = 0
    rewritten: bool = False

    @property
    def wrong(self) -> bool:
        """Whether rows are known to differ; a key that never rested is no such row."""
        return self.report.verdict is Verdict.MISMATCH

    def said(self, *, dry: bool) -> str:
        """One line for the report."""
        plan, verb = self.plan, "were" if not dry and (self.snapshot_id or self.rewritten) else "would be"
        first = ", ".join(plan.shown)
        how = "all rows replaced, because the table has no key; " if plan.replaces else ""
        return f"{how}{plan.writes} rows {verb} read again, {plan.deletes} {verb} deleted: {first}"

    def to_json(self) -> dict[str, object]:
        """Plain JSON of a bounded size."""
        result = {"verdict": str(self.report.verdict), "published": self.snapshot_id, "tries": self.tries}
        return {**self.plan.to_json(), **result}


def tell(run: Run, done: Sequence[RepairOutcome], kind: str) -> Facts:
    """Write the report, and every key with its action (repair.json); returns their locations. `kind`: of the run."""
    keys = store_json(run, "repair.json", {one.table.full_name: one.plan.actions_to_json(one.table) for one in done})
    evidence = {one.table.full_name: one.said(dry=kind == CHECK) for one in done if one.plan.keys}
    run.clients.control.ledger_set(run.run_id, "repair", {one.table.full_name: one.to_json() for one in done})
    facts = report_check(run, {one.table.full_name: one.report for one in done}, evidence=evidence, kind=kind)
    return {**facts, "keys": keys}


UNCHANGED = "Its main was not changed. Fix the cause named above, then run the repair again."


def not_matching(run: Run, done: Sequence[RepairOutcome], todo: str = UNCHANGED) -> VerificationError:
    """The error that names the tables that are still not equal."""
    bad = [one for one in done if one.report.verdict is not Verdict.MATCH]
    text = "; ".join(
        f"{one.table.full_name} is {one.report.verdict}: {', '.join(one.report.samples[:3])}" for one in bad
    )
    return VerificationError(
        text,
        where=run.where,
        todo=todo,
        verdict=str(overall(one.report.verdict for one in bad)),
    )


def try_repair(work: Work, table: Table, part: Part = WHOLE, *, dry: bool = False) -> RepairOutcome:
    """`repair_table`, but an error makes this table INCONCLUSIVE and does not stop the others."""
    try:
        return begun_again(lambda: repair_table(work, table, part, dry=dry), f"the repair of {table.full_name}")
    except CdcError as error:
        log.warning("%s: %s", table.full_name, error)
        return RepairOutcome(table, RepairPlan(table.full_name), unproven(table.full_name, str(error)))


def repair_table(work: Work, table: Table, part: Part = WHOLE, *, dry: bool = False) -> RepairOutcome:
    """Compare a table (or a part of it) with the source, and rewrite the rows that differ.

    A repair that deletes too much is not started, and one whose rows are not equal afterwards is not published; the
    report says so. Raises StaleHeadError if main moved during each of TRIES tries.
    """
    with staged(work, table) as stage:
        main = work.main(table, stage)
        if (report := main.stands_still()) is not None:
            return RepairOutcome(table, RepairPlan(table.full_name), report)
        outcome = compared(work.on(stage, table, part), main.caveats)
        keep_rows(work.run, work.systems.reader, work.spark, outcome)
        plan = RepairPlan.of(table, outcome.tally, outcome.sink_rows)
        why = "" if dry or not plan.keys else refusal(work.run.pipeline.policy, plan, work.run.options.deletes)
        if dry or not plan.keys or why:
            return RepairOutcome(table, plan, main.reported(outcome, report_of(outcome, why), xa_open=work.xa_open))
        with leased(work.run, LEASE_WAIT_SECONDS):
            # main is still what the stage was made from, apart from compactions
            if work.staging.publishable(stage):
                attempt = _attempt(work, stage, table, part, plan)
                if attempt is not None:
                    return replace(attempt, tries=1)
    return _again(work, table, part, plan)


def _again(work: Work, table: Table, part: Part, plan: RepairPlan) -> RepairOutcome:
    """Main moved since: stage its new head and read the source again (INV 20). Our other writers wait meanwhile."""
    with leased(work.run, LEASE_WAIT_SECONDS):
        for number in range(2, TRIES + 1):
            with staged(work, table) as stage:
                if (done := _attempt(work, stage, table, part, plan)) is not None:
                    return replace(done, tries=number)
    raise StaleHeadError(
        f"main moved during each of {TRIES} tries, although this run held the pipeline's lease",
        where=f"table {table.full_name}",
        todo="Find who else writes to the table, then run the repair again.",
    )


def _attempt(work: Work, stage: Stage, table: Table, part: Part, plan: RepairPlan) -> RepairOutcome | None:
    """Read the plan's rows into the stage, compare again, publish. None if main moved meanwhile."""
    main = work.main(table, stage)
    with explained(SinkError, "write the rows", where=work.run.where, todo="Main was not changed; run it again."):
        read_again(work, stage, table, plan)
    outcome = compared(work.on(stage, table, part), main.caveats)
    report = report_of(outcome)
    if report.verdict is not Verdict.MATCH:
        keep_rows(work.run, work.systems.reader, work.spark, outcome)
        return RepairOutcome(table, plan, main.reported(outcome, report, xa_open=work.xa_open))
    snapshot_id = outcome.subject.sink.version
    try:
        publish_stage(work, stage, table, snapshot_id)
    except StaleHeadError as error:
        log.warning("%s is repeated: %s", table.full_name, error)
        return None
    note_published(work, table, part)
    log.info("%s: %d rows read again, %d deleted", table.full_name, plan.writes, plan.deletes)
    return RepairOutcome(table, plan, report, snapshot_id)


def read_again(work: Work, stage: Stage, table: Table, plan: RepairPlan) -> None:
    """Replace the plan's rows in the stage with the source's current rows; the stage keeps its offsets.

    Raises VerificationError while a prepared XA transaction is open: its changes are in the log, and perhaps in the
    stage, but not yet in the source's rows, and no later event would correct the rows read now.
    """
    check_no_xa(work.run)
    if table.keyless:
        replace_rows(work, stage, table)
        return
    tools = Tools(work.spark, work.systems.reader, work.systems.writer)
    position = work.run.clients.source.position()
    tools.reader.wait_visible(position, VISIBLE_SECONDS)
    rewrite_keys(tools, stage, Wanted(table, plan.keys, position), _stamp(work, stage, table))


def _stamp(work: Work, stage: Stage, table: Table) -> dict[str, str]:
    """Repeat the stage's newest stamp: re-reading rows applies no event, so no offset moves."""
    states = work.run.clients.transport.topic_states(work.systems.events.routing.topics_about([table.full_name]))
    ctx = work.on(stage, table).context(states)
    stamp = work.run.clients.control.mirrored_stamp(table.full_name)
    start = start_of(ctx, table, stage.identifier, {}, stamp)
    return start.summary(start.applied)


def replace_rows(work: Work, stage: Stage, table: Table) -> None:
    """Read a table without a key again at one exact position and replace it in one commit (INV 19, ADR 0005)."""
    clients = work.run.clients
    stamp = work.staging.stamp(*stage.identifier) or clients.control.mirrored_stamp(table.full_name)
    if stamp is None:
        raise UnknownStateError(
            "there is no record of how far the table was applied",
            where=f"table {table.full_name}",
            todo="Recover the table.",
        )
    watermark = clients.source.watermark()
    clients.source.wait_visible(watermark, VISIBLE_SECONDS)
    work.systems.writer.note_definition(stage, table)
    ledger = ChunkLedger(watermark.hash, watermark.server, table.fingerprint)
    reading = Reading(table, stage, ledger, Stamp(stamp.epoch, watermark.to_json(), stamp.offsets), watermark)
    read_table(Tools(work.spark, work.systems.reader, work.systems.writer), reading, Progress({table.full_name: 0}))
