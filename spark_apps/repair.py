"""The application `repair` (strategy diff_repair): read the rows that differ from the source again, and no others.

Main is never wrong in between: the rows go to a separate stage, whose base is fixed before the source is read (INV 20).
A row read now may be newer than the stage's offsets, so the stage catches up past the read before it is compared once
more, and only that exact snapshot is published, by compare-and-set. If a data change moved main meanwhile, everything
is repeated on the new head, including the read. The final offsets are those of the changes that were applied.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.epochs import Epochs
from airflow_cdc.core.errors import (
    CdcError,
    ConfigError,
    RecoveryOpenError,
    SinkError,
    StaleHeadError,
    UnknownStateError,
    UsageError,
    VerificationError,
)
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.ports import Stage
from airflow_cdc.core.report import TableReport, Verdict, overall
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.core.xa import XaState
from airflow_cdc.decisions.apply.schema_change import DEFINITION, dump_definition
from airflow_cdc.decisions.compare.expectations import Judged
from airflow_cdc.decisions.compare.part import WHOLE, Part
from airflow_cdc.decisions.compare.repair import RepairPlan, needs_approval, refusal
from airflow_cdc.flows.appliable import Asked, asked_of, refusals
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.checks import report_check, store_json
from airflow_cdc.flows.publish import mirror
from airflow_cdc.flows.recovery import open_error
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.flows.stages import letters_of, staging_of
from airflow_cdc.reports.stored import CHECK, REPAIR
from airflow_cdc.spark_apps.apply.context import start_of
from airflow_cdc.spark_apps.compare.behind import Main
from airflow_cdc.spark_apps.compare.differing_rows import keep_rows
from airflow_cdc.spark_apps.compare.in_place import compare_in_place
from airflow_cdc.spark_apps.compare.letters import CaveatsOf
from airflow_cdc.spark_apps.compare.open_xa import xa_open
from airflow_cdc.spark_apps.compare.results import make_report, unproven
from airflow_cdc.spark_apps.compare.scan import VISIBLE_SECONDS, Outcome
from airflow_cdc.spark_apps.driver.app import explained, open_app
from airflow_cdc.spark_apps.driver.lease import leased
from airflow_cdc.spark_apps.driver.lost import begun_again
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.driver.systems import Systems, open_systems, row_reader
from airflow_cdc.spark_apps.snapshot.differences import Wanted, rewrite_keys
from airflow_cdc.spark_apps.snapshot.read import Reading, Tools, read_table
from airflow_cdc.spark_apps.verify import Task, apply_context, compare_passes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_cdc.repair")

LABEL = "repair_"
OPTIONS = ("passes", "reach_seconds")
TRIES = 5
LEASE_WAIT_SECONDS = 600.0
# A stage without a write for this long belongs to a run that was killed.
ORPHAN_SECONDS = 86_400.0


def main(settings: Mapping[str, Any]) -> Facts:
    """Repair tables, or report what a repair would do (option `dry_run`). `settings` was written by the operator."""
    with open_app(settings, "repair") as (run, spark):
        return repair(run, spark, settings)


@dataclass(frozen=True, slots=True)
class Job:
    """What all tables of a run share.

    Attributes:
        options: `reach_seconds` and `passes`, as of the application verify.
        approved: table → how many deletes a person has agreed to.
        asked: what the tables are asked about before their events are applied.
        xa: the source's XA transactions before anything is compared.
    """

    run: Run
    spark: SparkSession
    systems: Systems
    epochs: Epochs
    options: Mapping[str, Any]
    approved: Mapping[str, int]
    asked: Asked
    xa: XaState | None = None

    def place(self, table: Table) -> tuple[str, str]:
        """The sink table: namespace and name."""
        return self.run.pipeline.sink.namespace, self.run.pipeline.sink_table(table.full_name)

    @property
    def xa_open(self) -> bool:
        """Whether an XA transaction was open before anything was compared, or may have been."""
        return self.xa is not None and bool(self.xa.open)

    def main(self, table: Table, stage: Stage) -> Main:
        """Main, of which `stage` is a copy that has not caught up yet."""
        mirror = self.run.clients.control.mirrored_stamp(table.full_name)
        stamp = staging_of(self.run).stamp_or_mirror(*stage.identifier, mirror)
        refused = tuple(refusals(self.asked, table))
        return Main(self.run, self.spark, self.systems, table, stage, stamp, refused)

    def task(self, stage: Stage, table: Table, part: Part) -> Task:
        """The comparison of one stage with the server we are connected to now."""
        here, name = self.run.clients.source.position(), table.full_name
        return Task(self.epochs.of(name), here, {name: stage}, {name: table}, self.systems, {name: part})


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """The result for one table: the initial `plan`, the last comparison's `report`, `snapshot_id` if published."""

    table: Table
    plan: RepairPlan
    report: TableReport
    snapshot_id: int | None = None
    tries: int = 0

    def said(self, *, dry: bool) -> str:
        """One line for the report."""
        plan, verb = self.plan, "would be" if dry or self.snapshot_id is None else "were"
        first = ", ".join(plan.shown)
        how = "all rows replaced, because the table has no key; " if plan.replaces else ""
        return f"{how}{plan.writes} rows {verb} read again, {plan.deletes} {verb} deleted: {first}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON of a bounded size."""
        done = {"verdict": str(self.report.verdict), "published": self.snapshot_id, "tries": self.tries}
        return {**self.plan.to_json(), **done}


def open_job(run: Run, spark: SparkSession, options: Mapping[str, Any] | None = None) -> Job:
    """A job over the pipeline in its current state. Raises RecoveryOpenError while a recovery is open."""
    facts = run.clients.control.facts()
    drop_orphans(run)
    if facts.recovery is not None:
        raise open_error(run, facts.recovery.run_id)
    # the settings hold credentials too: only the comparison's options are passed on
    known = {key: value for key, value in (options or {}).items() if key in OPTIONS}
    xa, asked = run.clients.source.xa(), asked_of(run, run.tables)
    return Job(run, spark, open_systems(run), facts.required, known, run.options.deletes, asked, xa)


def drop_orphans(run: Run) -> None:
    """Delete stages of repairs and checks that were killed long ago; none of them will ever be published."""
    lake, ours = staging_of(run), {run.pipeline.sink_table(table) for table in run.pipeline.source.tables}
    try:
        for stage in lake.stages(run.pipeline.sink.namespace):
            mine = stage.label.startswith(LABEL) and stage.table in ours
            if mine and time.time() - lake.touched_at(stage) > ORPHAN_SECONDS:
                lake.drop_stage(stage)
    except CdcError as error:  # another run may drop one of its own meanwhile; the rest is deleted next time
        log.info("not all stages of killed repairs could be dropped: %s", error)


@step("repair")
def repair(run: Run, spark: SparkSession, settings: Mapping[str, Any] | None = None) -> Facts:
    """Compare the tables of the run (option `tables`; default: all), and repair them unless `dry_run` is asked for.

    Raises VerificationError for a table that is not MATCH at the end, once all were tried.
    """
    dry, names = run.options.dry_run, list(run.tables)
    if run.pipeline.corrected is Corrected.BEFORE_START:
        return compare_only(run, spark, settings)
    try:
        job, tables = open_job(run, spark, settings), captured(run, names)
    except (ConfigError, UsageError, RecoveryOpenError):
        raise  # said once: it is no finding about each of the tables
    except CdcError as error:
        facts = report_check(run, {name: unproven(name, str(error)) for name in names}, evidence={})
        if not dry:
            raise
        return {**facts, "dry_run": True, **asked(run, [])}
    done = [try_repair(job, table, dry=dry) for table in tables.values()]
    run.clients.control.compared(job.xa, {one.table.full_name: one.report.verdict for one in done})
    verdict = overall(one.report.verdict for one in done)
    facts = tell(run, done, CHECK if dry else REPAIR)
    if verdict is not Verdict.MATCH and not dry:
        raise not_matching(run, done)
    return {**facts, "verdict": str(verdict), "dry_run": dry, **asked(run, [one.plan for one in done])}


def compare_only(run: Run, spark: SparkSession, settings: Mapping[str, Any] | None = None) -> Facts:
    """Compare tables that the connector writes itself; rows that differ are put right by a recovery, never from here."""
    if not run.options.dry_run:
        run.pipeline.check_applied("a repair")
    options, names = {key: value for key, value in (settings or {}).items() if key in OPTIONS}, run.tables
    try:
        xa = run.clients.source.xa()
        with explained(SinkError, "compare the tables", where=run.where, todo="Nothing was changed; run it again."):
            outcomes = compare_in_place(run, spark, options, names, run.clients.source.position())
    except CdcError as error:
        facts = report_check(run, {name: unproven(name, str(error)) for name in names}, evidence={})
        return {**facts, "dry_run": True, **asked(run, [])}
    for outcome in outcomes:
        keep_rows(run, row_reader(run), spark, outcome)
    done = [_left_as_it_is(outcome) for outcome in outcomes]
    run.clients.control.compared(xa, {one.table.full_name: one.report.verdict for one in done})
    verdict = overall(one.report.verdict for one in done)
    return {**tell(run, done, CHECK), "verdict": str(verdict), "dry_run": True, **asked(run, [])}


def _left_as_it_is(outcome: Outcome) -> RepairOutcome:
    table = outcome.subject.table
    return RepairOutcome(table, RepairPlan.of(table, outcome.tally, outcome.sink_rows), report_of(outcome))


def asked(run: Run, plans: Sequence[RepairPlan]) -> Facts:
    """The question for a person, for XCom: `{"plans": {table: summary}, "needs_approval"}`."""
    differing = [plan for plan in plans if plan.keys]
    asks = needs_approval(run.pipeline.policy, [plan.deletions for plan in differing])
    return {"plans": {plan.table: plan.to_json() for plan in differing}, "needs_approval": asks}


def tell(run: Run, done: Sequence[RepairOutcome], kind: str) -> Facts:
    """Write the report, and every key with its action (repair.json); returns their locations. `kind`: of the run."""
    keys = store_json(run, "repair.json", {one.table.full_name: one.plan.actions_to_json(one.table) for one in done})
    evidence = {one.table.full_name: one.said(dry=kind == CHECK) for one in done if one.plan.keys}
    run.clients.control.ledger_set(run.run_id, "repair", {one.table.full_name: one.to_json() for one in done})
    facts = report_check(run, {one.table.full_name: one.report for one in done}, evidence=evidence, kind=kind)
    return {**facts, "keys": keys}


def not_matching(run: Run, done: Sequence[RepairOutcome]) -> VerificationError:
    """The error that names the tables that are still not equal."""
    bad = [one for one in done if one.report.verdict is not Verdict.MATCH]
    text = "; ".join(
        f"{one.table.full_name} is {one.report.verdict}: {', '.join(one.report.samples[:3])}" for one in bad
    )
    return VerificationError(
        text,
        where=run.where,
        todo="Its main was not changed. Fix the cause named above, then run the repair again.",
        verdict=str(overall(one.report.verdict for one in bad)),
    )


def try_repair(job: Job, table: Table, part: Part = WHOLE, *, dry: bool = False) -> RepairOutcome:
    """`repair_table`, but an error makes this table INCONCLUSIVE and does not stop the others."""
    try:
        return begun_again(lambda: repair_table(job, table, part, dry=dry), f"the repair of {table.full_name}")
    except CdcError as error:
        log.warning("%s: %s", table.full_name, error)
        return RepairOutcome(table, RepairPlan(table.full_name), unproven(table.full_name, str(error)))


def repair_table(job: Job, table: Table, part: Part = WHOLE, *, dry: bool = False) -> RepairOutcome:
    """Compare a table (or a part of it) with the source, and rewrite the rows that differ.

    A repair that deletes too much is not started, and one whose rows are not equal afterwards is not published; the
    report says so. Raises StaleHeadError if main moved during each of TRIES tries.
    """
    with staged(job, table) as stage:
        main = job.main(table, stage)
        if (report := main.stands_still()) is not None:
            return RepairOutcome(table, RepairPlan(table.full_name), report)
        outcome = compared(job, stage, table, part, main.caveats)
        keep_rows(job.run, job.systems.reader, job.spark, outcome)
        plan = RepairPlan.of(table, outcome.tally, outcome.sink_rows)
        why = "" if dry or not plan.keys else refusal(job.run.pipeline.policy, plan, job.approved)
        if dry or not plan.keys or why:
            return RepairOutcome(table, plan, main.reported(outcome, report_of(outcome, why), xa_open=job.xa_open))
        with leased(job.run, LEASE_WAIT_SECONDS):
            if _base_stands(job, stage):
                done = _attempt(job, stage, table, part, plan)
                if done is not None:
                    return replace(done, tries=1)
    return _again(job, table, part, plan)


def _again(job: Job, table: Table, part: Part, plan: RepairPlan) -> RepairOutcome:
    """Main moved since: stage its new head and read the source again (INV 20). Our other writers wait meanwhile."""
    with leased(job.run, LEASE_WAIT_SECONDS):
        for number in range(2, TRIES + 1):
            with staged(job, table) as stage:
                if (done := _attempt(job, stage, table, part, plan)) is not None:
                    return replace(done, tries=number)
    raise StaleHeadError(
        f"main moved during each of {TRIES} tries, although this run held the pipeline's lease",
        where=f"table {table.full_name}",
        todo="Find who else writes to the table, then run the repair again.",
    )


@contextmanager
def staged(job: Job, table: Table) -> Iterator[Stage]:
    """A stage of the table's current head; deleted at the end of the block."""
    lake = staging_of(job.run)
    stage = lake.stage(*job.place(table), f"{LABEL}{uuid.uuid4().hex[:12]}")
    try:
        yield stage
    finally:
        lake.drop_stage(stage)


def _base_stands(job: Job, stage: Stage) -> bool:
    """Whether main is still what the stage was made from, apart from compactions."""
    return staging_of(job.run).publishable(stage)


def compared(job: Job, stage: Stage, table: Table, part: Part, caveats: CaveatsOf = lambda _outcome: ()) -> Outcome:
    """Catch the stage up and compare it. Dead letters raise no doubt here: their rows are compared like all others."""
    task = job.task(stage, table, part)
    with explained(SinkError, "compare the table", where=job.run.where, todo="Main was not changed; run it again."):
        (outcome,) = compare_passes(job.run, job.spark, task, job.options, lambda _run: caveats)
    return outcome


def _attempt(job: Job, stage: Stage, table: Table, part: Part, plan: RepairPlan) -> RepairOutcome | None:
    """Read the plan's rows into the stage, compare again, publish. None if main moved meanwhile."""
    main = job.main(table, stage)
    with explained(SinkError, "write the rows", where=job.run.where, todo="Main was not changed; run it again."):
        read_again(job, stage, table, plan)
    outcome = compared(job, stage, table, part, main.caveats)
    report = report_of(outcome)
    if report.verdict is not Verdict.MATCH:
        keep_rows(job.run, job.systems.reader, job.spark, outcome)
        return RepairOutcome(table, plan, main.reported(outcome, report, xa_open=job.xa_open))
    snapshot_id = outcome.subject.sink.version
    try:
        publish_stage(job, stage, table, snapshot_id)
    except StaleHeadError as error:
        log.warning("%s is repeated: %s", table.full_name, error)
        return None
    note_published(job, table, part)
    log.info("%s: %d rows read again, %d deleted", table.full_name, plan.writes, plan.deletes)
    return RepairOutcome(table, plan, report, snapshot_id)


def read_again(job: Job, stage: Stage, table: Table, plan: RepairPlan) -> None:
    """Replace the plan's rows in the stage with the source's current rows; the stage keeps its offsets.

    Raises VerificationError while a prepared XA transaction is open: its changes are in the log, and perhaps in the
    stage, but not yet in the source's rows, and no later event would correct the rows read now.
    """
    if xa_open(job.run):
        raise VerificationError(
            "prepared XA transactions are open on the source, so its visible rows do not match its log",
            where=job.run.where,
            todo="Wait until they end (XA RECOVER shows them), then run the repair again.",
            verdict=str(Verdict.INCONCLUSIVE),
        )
    if table.keyless:
        replace_rows(job, stage, table)
        return
    tools = Tools(job.spark, job.systems.reader, job.systems.writer)
    position = job.run.clients.source.position()
    tools.reader.wait_visible(position, VISIBLE_SECONDS)
    rewrite_keys(tools, stage, Wanted(table, plan.keys, position), _stamp(job, stage, table))


def _stamp(job: Job, stage: Stage, table: Table) -> dict[str, str]:
    """Repeat the stage's newest stamp: re-reading rows applies no event, so no offset moves."""
    states = job.run.clients.transport.topic_states(job.systems.events.routing.topics_about([table.full_name]))
    ctx = apply_context(job.run, job.spark, job.task(stage, table, WHOLE), states)
    mirrored = job.run.clients.control.mirrored_stamp(table.full_name)
    start = start_of(ctx, table, stage.identifier, {}, mirrored)
    return start.summary(start.applied)


def replace_rows(job: Job, stage: Stage, table: Table) -> None:
    """Read a table without a key again at one exact position and replace it in one commit (INV 19, ADR 0005)."""
    clients = job.run.clients
    stamp = staging_of(job.run).stamp(*stage.identifier) or clients.control.mirrored_stamp(table.full_name)
    if stamp is None:
        raise UnknownStateError(
            "there is no record of how far the table was applied",
            where=f"table {table.full_name}",
            todo="Recover the table.",
        )
    watermark = clients.source.watermark()
    clients.source.wait_visible(watermark, VISIBLE_SECONDS)
    job.systems.writer.note_definition(stage, table)
    ledger = ChunkLedger(watermark.hash, watermark.server, table.fingerprint)
    reading = Reading(table, stage, ledger, Stamp(stamp.epoch, watermark.to_json(), stamp.offsets), watermark)
    read_table(Tools(job.spark, job.systems.reader, job.systems.writer), reading, Progress({table.full_name: 0}))


def publish_stage(job: Job, stage: Stage, table: Table, snapshot_id: int) -> None:
    """Move main to the stage's snapshot, if only compactions moved it since the stage was made."""
    lake = staging_of(job.run)
    definition = dump_definition(table)
    known = lake.definition_text(stage.namespace, stage.table)
    properties = {} if known == definition else {DEFINITION: definition}
    lake.publish(stage, snapshot_id, stage.base_head, properties, over_compaction=True)


def note_published(job: Job, table: Table, part: Part) -> None:
    """Mirror the new stamp; mark dead letters as resolved if every row of the table was found equal."""
    run, name = job.run, table.full_name
    mirror(run, [name])
    stamp = staging_of(run).stamp(*job.place(table))
    if part.whole and stamp is not None:
        letters_of(run).resolve_letters_before(run.pipeline.name, {name: stamp.offsets})


def report_of(outcome: Outcome, why: str = "") -> TableReport:
    """The table's report; `why` something was not done is listed among its samples."""
    name = outcome.subject.table.full_name
    report = make_report(outcome, Judged(name, checks=0))
    return replace(report, samples=(*([why] if why else []), *report.samples))
