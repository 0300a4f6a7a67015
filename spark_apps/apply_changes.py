"""The application `apply_changes`: every table from its stamp to the topics' ends now, published table by table.

All its state is in the tables themselves. A run that dies at any point has either published a table's batch with its
stamp or has not; the next run starts from the stamps and applies the rest.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.dead_letter import MAX_ATTEMPTS, DeadLetter
from airflow_cdc.core.errors import (
    CdcError,
    ConfigError,
    MissingPrivilegeError,
    RereadNeededError,
    SchemaError,
    SinkError,
    StaleHeadError,
    UnreadableEventsError,
    UnreportedChangeError,
)
from airflow_cdc.core.ports import Stage
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicState
from airflow_cdc.decisions.apply.schema_change import DEFINITION, dump_definition
from airflow_cdc.decisions.apply.start import Start
from airflow_cdc.flows.appliable import Asked, asked_of, refuse
from airflow_cdc.flows.backlog import applicable
from airflow_cdc.flows.capture import captured, carried, missing_error, present
from airflow_cdc.flows.capture import settings as capture_of
from airflow_cdc.flows.carried import Changed
from airflow_cdc.flows.reached import wait_past
from airflow_cdc.flows.refused import failed_tries, note_refused
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.flows.stages import staging_of
from airflow_cdc.kinds import config_rules_of
from airflow_cdc.spark_apps.apply.batch import apply_table
from airflow_cdc.spark_apps.apply.context import ApplyContext, ApplyTarget, Result, start_from, start_of
from airflow_cdc.spark_apps.apply.continuous import Loop
from airflow_cdc.spark_apps.apply.few import apply_few, offsets_of
from airflow_cdc.spark_apps.apply.replay import replay
from airflow_cdc.spark_apps.apply.reread import reread
from airflow_cdc.spark_apps.driver.app import explained, open_app
from airflow_cdc.spark_apps.driver.lease import leased
from airflow_cdc.spark_apps.driver.lost import begun_again
from airflow_cdc.spark_apps.driver.systems import ddl_reader, open_systems
from airflow_cdc.spark_apps.driver.task import is_waited_for
from airflow_cdc.spark_apps.ports import RowReader
from airflow_cdc.spark_apps.ports_few import CommitsFew, SmallCommit
from airflow_cdc.spark_apps.tidied import Tidied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_cdc.apply_changes")

LABEL = "apply_"
# How long, in seconds, a definition may be ahead of the DDL that the connector has reported.
REPORT_SECONDS = 60.0
IS_REREAD = "%s is re-read: %s"  # what the log says of such a table, and why
# and of one that is applied but for letters; if another table stops, the task ends with its error, which has no room for this
UNRESOLVED = "%s: %d dead letters are unresolved: rows may differ from the source's (`airflow cdc dead-letters list`)"
RUN_AGAIN = "Nothing was published; run the job again."
Ends = Mapping[str, Mapping[int, int]]


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
        outcomes = _apply_all(run, spark)
    # the lease is free meanwhile and is taken again to publish
    return outcomes | {
        name: _read_again(run, spark, name, error) for name, error in outcomes.items() if needs_reread(error)
    }


def _results(run: Run, outcomes: Mapping[str, Result | CdcError]) -> dict[str, Result]:
    """The tables' results. Raises if a table has an error."""
    errors = {table: outcome for table, outcome in outcomes.items() if isinstance(outcome, CdcError)}
    if errors:
        raise _summed(run, errors)
    return {table: outcome for table, outcome in outcomes.items() if not isinstance(outcome, CdcError)}


@dataclass(frozen=True, slots=True)
class _Job:
    """One run's work: `ends` are fixed and older than the definitions; the tables in `missing` are not at the source."""

    run: Run
    ctx: ApplyContext
    ends: Ends
    defaults: Mapping[str, Mapping[str, str | None]]
    table_ids: Mapping[str, str]
    asked: Asked
    letters: Mapping[str, Sequence[DeadLetter]]
    label: str
    reader: RowReader
    every_letter: bool
    mirrored: Callable[[str], Stamp | None]
    missing: tuple[str, ...] = ()

    def place(self, table: Table) -> tuple[str, str]:
        """The sink table: namespace and name."""
        return self.run.pipeline.sink.namespace, self.run.pipeline.sink_table(table.full_name)


def _apply_all(run: Run, spark: SparkSession) -> dict[str, Result | CdcError]:
    job, tables = _job(run, spark)
    _drop_orphans(job, tables)
    with ThreadPoolExecutor(max(1, min(job.ctx.threads, len(tables))), thread_name_prefix="apply") as pool:
        outcomes = dict(zip((t.full_name for t in tables), pool.map(partial(_try_table, job), tables), strict=True))
    outcomes |= {name: missing_error(run, name) for name in job.missing}
    _mirror(job, [t for t in tables if _published(outcomes[t.full_name])])
    return outcomes


def _job(run: Run, spark: SparkSession) -> tuple[_Job, list[Table]]:
    """Fix the ends first and read the definitions after, so that no definition is older than an event of the batch."""
    clients, facts = run.clients, run.clients.control.facts()
    chosen = list(run.tables)
    wanted = applicable(facts, chosen)
    if left_out := sorted(set(chosen) - set(wanted)):
        log.warning("left out, as tables of an open or an abandoned recovery: %s", ", ".join(left_out))
    systems = open_systems(run)
    topics = clients.transport.gathered(systems.events.routing.topics_about(wanted))
    definitions = carried(run, present(run, wanted))
    tables = list(definitions.values())
    ctx = ApplyContext(
        spark,
        systems.writer,
        systems.letters,
        facts.required,
        systems.reader,
        systems.events,
        topics,
        systems.topics.read,
        ddl_reader(run, systems.events),
        systems.few,
        write_behind=False,
        carried=Changed(run, capture_of(run)),
    )
    letters = systems.letters.unresolved()
    table_ids = clients.source.table_ids(list(definitions))
    job = _Job(
        run,
        ctx,
        ends_of(topics),
        systems.reader.defaults(tables),
        table_ids,
        asked_of(run, list(definitions), table_ids),
        {table.full_name: [one for one in letters if one.table == table.full_name] for table in tables},
        f"{LABEL}{uuid.uuid4().hex[:12]}",
        systems.reader,
        run.options.replay,
        clients.control.mirrored_stamps(),
        tuple(name for name in wanted if name not in definitions),
    )
    return job, tables


def _try_table(job: _Job, table: Table) -> Result | CdcError:
    """One table: nothing to do, or a stage, a batch and a publish. Its error does not stop the other tables."""
    try:
        with explained(SinkError, "apply the changes", where=f"table {table.full_name}", todo=RUN_AGAIN):
            result = _waited_and_applied(job, table)
    except CdcError as error:
        log.warning("%s stopped: %s", table.full_name, error)
        if isinstance(error, UnreadableEventsError):
            note_refused(job.run, table.full_name, str(error), tried=False)
        return error
    if count := int(result.get("unresolved", 0)):
        log.warning(UNRESOLVED, table.full_name, count)
    return result


def _waited_and_applied(job: _Job, table: Table) -> Result:
    try:
        return begun_again(lambda: _applied(job, table), f"the batch of {table.full_name}")
    except UnreportedChangeError as error:
        log.info("%s waits for the connector: %s", table.full_name, error)
        later = _later(job, table)
        return begun_again(lambda: _applied(*later), f"the batch of {table.full_name}")


def _later(job: _Job, table: Table) -> tuple[_Job, Table]:
    """The job with the table's topics at the time when the connector has read past the table's current definition."""
    clients = job.run.clients
    wait_past(job.run, clients.source.position(), REPORT_SECONDS)
    topics = clients.transport.gathered(job.ctx.events.routing.topics_about([table.full_name]))
    (fresh,) = captured(job.run, [table.full_name]).values()
    return replace(job, ctx=replace(job.ctx, topics=topics), ends=ends_of(topics)), fresh


def ends_of(topics: Mapping[str, TopicState]) -> dict[str, dict[int, int]]:
    """Topic → partition → its end."""
    return {name: {p: end for p, (_, end) in state.partitions.items()} for name, state in topics.items()}


def _applied(job: _Job, table: Table) -> Result:
    check_nulls(job, table)
    mirror = job.mirrored(table.full_name)
    opened = job.ctx.writer.open_table(job.place(table)) if isinstance(job.ctx.writer, CommitsFew) else None
    stamped = opened.stamped(mirror) if opened else job.ctx.writer.stamped(job.place(table), mirror)
    start = start_from(job.ctx, table, *stamped, job.ends)
    table_id = job.table_ids.get(table.full_name)
    refuse(job.asked, table)
    unchanged = start.current and table_id in {None, start.applied.table_id}
    tries = _worth_a_try(job, letters := job.letters[table.full_name])
    if unchanged and not tries:
        return {"table": table.full_name, "records": 0, "published": False, "unresolved": len(letters)}
    if opened and not tries and (result := _applied_at_once(job, opened, start, table_id)) is not None:
        return result
    stage = staging_of(job.run).stage_for_changes(*job.place(table), job.label)
    try:
        target = ApplyTarget(table, stage, start.stamp, job.defaults[table.full_name], table_id)
        return _apply_and_publish(job, target, start)
    finally:
        staging_of(job.run).drop_stage(stage)


def _applied_at_once(job: _Job, opened: SmallCommit, start: Start, table_id: str | None) -> Result | None:
    """A batch of few plain changes in one commit, which readers see at once; None if it takes a stage and Spark."""
    name = start.table.full_name
    left = {"replayed": 0, "unresolved": len(job.letters[name])}
    try:
        result = apply_few(job.ctx, opened, start, table_id, job.defaults[name])
    except StaleHeadError as error:
        log.warning("%s is left for the next run: %s", name, error)
        return {"table": name, "records": offsets_of(start), "published": False, "not_published": str(error), **left}
    if result is None:
        return None
    log.info("%s: %d records, %s", name, result["records"], "behind" if result["behind"] else "in one commit")
    if not result["behind"]:
        _note_hopeless(job, start.table, job.letters[name])  # all were tried too often
        _merge_files(job, opened, name)
    return {**result, "published": not result["behind"], "not_published": "", **left}


def _merge_files(job: _Job, opened: SmallCommit, name: str) -> None:
    """Merge the small files that such batches leave, as the policy has it. The batch is written, whatever becomes of this."""
    policy = job.run.pipeline.policy.maintenance
    if not policy.compact:
        return
    try:
        done = opened.merge_files(policy.small_files)
    except CdcError as error:
        log.warning("%s: its small files are left as they are: %s", name, error)
        return
    if done != Tidied():
        log.info("%s: small files were merged: %s", name, done)


def _apply_and_publish(job: _Job, target: ApplyTarget[Stage], start: Start) -> Result:
    kept, name = job.ctx.letters, target.table.full_name
    # without a stage it was tried before
    result = apply_table(replace(job.ctx, few=None), target, job.ends)
    if result["behind"]:
        log.info("%s: the connector is repeating changes; the batch is written once apply is past them", name)
        return {**result, "published": False}
    letters = kept.unresolved(name) if result["dead_letters"] else job.letters[name]
    tried = _worth_a_try(job, letters) if xa_settled(job.run) else []
    after = start_of(job.ctx, target.table, target.stage.identifier, job.ends, start.stamp) if tried else start
    right = replay(job.ctx, target, after, tried, job.reader)
    published, why = _publish(job, target)
    if published:
        kept.resolve(job.ctx.spark, right)
        kept.count_attempt(job.ctx.spark, [one for one in tried if one not in right])
    log.info("%s: %d records, %s", name, result["records"], "published" if published else why)
    left = [one for one in letters if one not in right] if published else letters
    if published:
        _note_hopeless(job, target.table, [one for one in left if _hopeless(target.table, one, tried)])
    return {**result, "published": published, "not_published": why, "replayed": len(right), "unresolved": len(left)}


def _hopeless(table: Table, letter: DeadLetter, tried: Sequence[DeadLetter]) -> bool:
    """Whether the row may stay wrong: no key to read again, or a key that could not be read, or no further try."""
    return table.keyless or letter in tried or letter.attempts >= MAX_ATTEMPTS


def _note_hopeless(job: _Job, table: Table, letters: Sequence[DeadLetter]) -> None:
    """Tell the diagnosis that the table differs from the source until it is read again (INV 31)."""
    if letters:
        why = f"{len(letters)} records could not be read, the first for {letters[0].reason}: their rows may be wrong"
        note_refused(job.run, table.full_name, why, tried=False)


def _publish(job: _Job, target: ApplyTarget[Stage]) -> tuple[bool, str]:
    """Move main to the stage's head if main is still at its base; if not, report it: the next run repeats the work."""
    lake, stage = staging_of(job.run), target.stage
    definition = dump_definition(target.table)
    known = lake.definition_text(stage.namespace, stage.table)
    properties = {} if known == definition else {DEFINITION: definition}
    try:
        lake.publish(stage, lake.stage_head(stage), stage.base_head, properties)
    except StaleHeadError as error:
        log.warning("%s is left for the next run: %s", target.table.full_name, error)
        return False, str(error)
    return True, ""


def _worth_a_try(job: _Job, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """The letters to read again: all if a person requested it, else those not tried too often."""
    return [one for one in letters if job.every_letter or one.attempts < MAX_ATTEMPTS]


def xa_settled(run: Run) -> bool:
    """Whether the source's rows match its log: a prepared XA transaction is in the log but in no row (INV 32).

    Letters wait until then: a row read too early would stay as before the XA COMMIT, which sends no event.
    """
    try:
        return not run.clients.source.xa_pending()
    except MissingPrivilegeError:
        return True


def _drop_orphans(job: _Job, tables: Sequence[Table]) -> None:
    """Delete the stages of dead applies: we hold the lease, so none of them will ever be published."""
    ours = {job.place(table) for table in tables}
    try:
        for stage in staging_of(job.run).stages(job.run.pipeline.sink.namespace):
            if stage.label.startswith(LABEL) and (stage.namespace, stage.table) in ours:
                staging_of(job.run).drop_stage(stage)
    except CdcError as error:  # another pipeline may drop one of its own meanwhile; the rest is deleted next time
        log.info("not all stages of killed applies could be dropped: %s", error)


def _published(outcome: Result | CdcError) -> bool:
    return not isinstance(outcome, CdcError) and bool(outcome.get("published"))


def _mirror(job: _Job, tables: Sequence[Table]) -> None:
    """Copy the new stamps to the control table: expiry may remove every stamped snapshot of a table."""
    stamps = {table.full_name: staging_of(job.run).stamp(*job.place(table)) for table in tables}
    if stamps:
        job.run.clients.control.mirror_stamps({name: stamp for name, stamp in stamps.items() if stamp})


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


def check_nulls(job: _Job, table: Table) -> None:
    """Refuse a table while the converter replaces NULL by a column's default, even if no event has arrived yet."""
    events = job.ctx.events
    if not events.routing.null_becomes_default or not events.nulls_at_risk(table, job.defaults[table.full_name]):
        return
    config = job.run.clients.connector.raw_config(job.run.pipeline.connector.name)
    fault = config_rules_of(job.run.pipeline).null_fault(config, {table.full_name: table}, job.defaults)
    if fault is not None:
        raise ConfigError(fault.what, where=f"table {table.full_name}", todo=fault.todo)


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
