"""Changes that wait in the topics: applied to one table, and published."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_cdc.core.dead_letter import MAX_ATTEMPTS, DeadLetter
from airflow_cdc.core.errors import (
    CdcError,
    ConfigError,
    MissingPrivilegeError,
    SinkError,
    StaleHeadError,
    UnreadableEventsError,
    UnreportedChangeError,
)
from airflow_cdc.core.ports import Stage
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicState
from airflow_cdc.decisions.apply.start import Start
from airflow_cdc.flows.appliable import Asked, asked_of, refuse
from airflow_cdc.flows.backlog import applicable
from airflow_cdc.flows.capture import captured, carried, present
from airflow_cdc.flows.capture import settings as capture_of
from airflow_cdc.flows.carried import Changed
from airflow_cdc.flows.partial import InPart, in_part
from airflow_cdc.flows.reached import wait_past
from airflow_cdc.flows.refused import note_refused
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import config_rules_of
from airflow_cdc.spark_apps.apply.batch import apply_table
from airflow_cdc.spark_apps.apply.context import ApplyContext, ApplyTarget, Result, start_from, start_of
from airflow_cdc.spark_apps.apply.few import apply_few
from airflow_cdc.spark_apps.apply.replay import replay
from airflow_cdc.spark_apps.driver.app import explained
from airflow_cdc.spark_apps.driver.lost import begun_again
from airflow_cdc.spark_apps.driver.systems import open_systems
from airflow_cdc.spark_apps.events import offsets_in
from airflow_cdc.spark_apps.ports_few import CommitsFew, SmallCommit
from airflow_cdc.spark_apps.stages.publish import publish_stage
from airflow_cdc.spark_apps.stages.work import Patience, Work
from airflow_cdc.spark_apps.tidied import Tidied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_cdc.apply_changes")

LABEL = "apply_"
# How long, in seconds, a definition may be ahead of the DDL that the connector has reported.
REPORT_SECONDS = 60.0
# What the log says of a table that is applied but for letters; if another table stops, the task ends with its error, which has
# no room for this
UNRESOLVED = "%s: %d dead letters are unresolved: rows may differ from the source's (`airflow cdc dead-letters list`)"
RUN_AGAIN = "Nothing was published; run the job again."
Ends = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The changes of one batch: `ends` are fixed and older than the definitions; `missing` tables are not at the source.

    `asked`: what its tables are asked about first. `mirrored`: table → its stamp in the control table. `logged`:
    what a look at the source's log found.
    """

    work: Work
    ctx: ApplyContext
    ends: Ends
    defaults: Mapping[str, Mapping[str, str | None]]
    asked: Asked
    letters: Mapping[str, Sequence[DeadLetter]]
    label: str
    mirrored: Callable[[str], Stamp | None]
    logged: InPart
    missing: tuple[str, ...] = ()

    @property
    def tables(self) -> list[Table]:
        """The tables whose changes are applied."""
        return list(self.work.definitions.values())


def waiting_changes(run: Run, spark: SparkSession) -> Waiting:
    """Fix the ends first and read the definitions after, so that no definition is older than an event of the batch."""
    clients, facts = run.clients, run.clients.control.facts()
    names = list(run.tables)
    tables = applicable(facts, names)
    if left_out := sorted(set(names) - set(tables)):
        log.warning("left out, as tables of an open or an abandoned recovery: %s", ", ".join(left_out))
    systems = open_systems(run)
    topics = clients.transport.gathered(systems.events.routing.topics_about(tables))
    definitions = carried(run, present(run, tables))
    work = Work(run, spark, systems, facts.required, Patience.of(run, None), definitions)
    ctx = work.context(topics, write_behind=False, carried=Changed(run, capture_of(run)))
    letters, table_ids = systems.letters.unresolved(), clients.source.table_ids(list(definitions))
    return Waiting(
        work,
        ctx,
        ends_of(topics),
        systems.reader.defaults(list(definitions.values())),
        asked_of(run, list(definitions), table_ids),
        {name: [one for one in letters if one.table == name] for name in definitions},
        f"{LABEL}{uuid.uuid4().hex[:12]}",
        clients.control.mirrored_stamps(),
        in_part(run, definitions.values()),
        tuple(name for name in tables if name not in definitions),
    )


def try_table(batch: Waiting, table: Table) -> Result | CdcError:
    """One table: nothing to do, or a stage, a batch and a publish. Its error does not stop the other tables."""
    try:
        with explained(SinkError, "apply the changes", where=f"table {table.full_name}", todo=RUN_AGAIN):
            result = _waited_and_applied(batch, table)
    except CdcError as error:
        log.warning("%s stopped: %s", table.full_name, error)
        if isinstance(error, UnreadableEventsError):
            note_refused(batch.work.run, table.full_name, str(error), tried=False)
        return error
    if count := int(result.get("unresolved", 0)):
        log.warning(UNRESOLVED, table.full_name, count)
    return result


def _waited_and_applied(batch: Waiting, table: Table) -> Result:
    try:
        return begun_again(lambda: _applied(batch, table), f"the batch of {table.full_name}")
    except UnreportedChangeError as error:
        log.info("%s waits for the connector: %s", table.full_name, error)
        later = _later(batch, table)
        return begun_again(lambda: _applied(*later), f"the batch of {table.full_name}")


def _later(batch: Waiting, table: Table) -> tuple[Waiting, Table]:
    """The job with the table's topics at the time when the connector has read past the table's current definition."""
    clients = batch.work.run.clients
    wait_past(batch.work.run, clients.source.position(), REPORT_SECONDS)
    topics = clients.transport.gathered(batch.ctx.events.routing.topics_about([table.full_name]))
    (fresh,) = captured(batch.work.run, [table.full_name]).values()
    return replace(batch, ctx=replace(batch.ctx, topics=topics), ends=ends_of(topics)), fresh


def ends_of(topics: Mapping[str, TopicState]) -> dict[str, dict[int, int]]:
    """Topic → partition → its end."""
    return {name: {p: end for p, (_, end) in state.partitions.items()} for name, state in topics.items()}


def _applied(batch: Waiting, table: Table) -> Result:
    check_nulls(batch, table)
    mirror = batch.mirrored(table.full_name)
    opened = batch.ctx.writer.open_table(batch.work.place(table)) if isinstance(batch.ctx.writer, CommitsFew) else None
    stamped = opened.stamped(mirror) if opened else batch.ctx.writer.stamped(batch.work.place(table), mirror)
    start = start_from(batch.ctx, table, *stamped, batch.ends)
    table_id = batch.asked.table_ids.get(table.full_name)
    refuse(batch.asked, table)
    batch.logged.refuse(table)
    unchanged = start.current and table_id in {None, start.applied.table_id}
    tries = _worth_a_try(batch, letters := batch.letters[table.full_name])
    if unchanged and not tries:
        return {"table": table.full_name, "records": 0, "published": False, "unresolved": len(letters)}
    if opened and not tries and (result := _applied_at_once(batch, opened, start, table_id)) is not None:
        return result
    stage = batch.work.staging.stage_for_changes(*batch.work.place(table), batch.label)
    try:
        target = ApplyTarget(table, stage, start.stamp, batch.defaults[table.full_name], table_id)
        return _apply_and_publish(batch, target, start)
    finally:
        batch.work.staging.drop_stage(stage)


def _applied_at_once(batch: Waiting, opened: SmallCommit, start: Start, table_id: str | None) -> Result | None:
    """A batch of few plain changes in one commit, which readers see at once; None if it takes a stage and Spark."""
    name = start.table.full_name
    left = {"replayed": 0, "unresolved": len(batch.letters[name])}
    try:
        result = apply_few(batch.ctx, opened, start, table_id, batch.defaults[name])
    except StaleHeadError as error:
        log.warning("%s is left for the next run: %s", name, error)
        return {
            "table": name,
            "records": offsets_in(start.ranges),
            "published": False,
            "not_published": str(error),
            **left,
        }
    if result is None:
        return None
    log.info("%s: %d records, %s", name, result["records"], "behind" if result["behind"] else "in one commit")
    if not result["behind"]:
        _note_hopeless(batch, start.table, batch.letters[name])  # all were tried too often
        _merge_files(batch, opened, name)
    return {**result, "published": not result["behind"], "not_published": "", **left}


def _merge_files(batch: Waiting, opened: SmallCommit, name: str) -> None:
    """Merge the small files that such batches leave, as the policy has it. The batch is written, whatever becomes of this."""
    policy = batch.work.run.pipeline.policy.maintenance
    if not policy.compact:
        return
    try:
        counts = opened.merge_files(policy.small_files)
    except CdcError as error:
        log.warning("%s: its small files are left as they are: %s", name, error)
        return
    if counts != Tidied():
        log.info("%s: small files were merged: %s", name, counts)


def _apply_and_publish(batch: Waiting, target: ApplyTarget[Stage], start: Start) -> Result:
    store, name = batch.ctx.letters, target.table.full_name
    # without a stage it was tried before
    result = apply_table(replace(batch.ctx, few=None), target, batch.ends)
    if result["behind"]:
        log.info("%s: the connector is repeating changes; the batch is written once apply is past them", name)
        return {**result, "published": False}
    letters = store.unresolved(name) if result["dead_letters"] else batch.letters[name]
    tried = _worth_a_try(batch, letters) if xa_settled(batch.work.run) else []
    after = start_of(batch.ctx, target.table, target.stage.identifier, batch.ends, start.stamp) if tried else start
    right = replay(batch.ctx, target, after, tried, batch.work.systems.reader)
    published, why = _publish(batch, target)
    if published:
        store.resolve(batch.ctx.spark, right)
        store.count_attempt(batch.ctx.spark, [one for one in tried if one not in right])
    log.info("%s: %d records, %s", name, result["records"], "published" if published else why)
    left = [one for one in letters if one not in right] if published else letters
    if published:
        _note_hopeless(batch, target.table, [one for one in left if _hopeless(target.table, one, tried)])
    return {**result, "published": published, "not_published": why, "replayed": len(right), "unresolved": len(left)}


def _hopeless(table: Table, letter: DeadLetter, tried: Sequence[DeadLetter]) -> bool:
    """Whether the row may stay wrong: no key to read again, or a key that could not be read, or no further try."""
    return table.keyless or letter in tried or letter.attempts >= MAX_ATTEMPTS


def _note_hopeless(batch: Waiting, table: Table, letters: Sequence[DeadLetter]) -> None:
    """Tell the diagnosis that the table differs from the source until it is read again (INV 31)."""
    if letters:
        why = f"{len(letters)} records could not be read, the first for {letters[0].reason}: their rows may be wrong"
        note_refused(batch.work.run, table.full_name, why, tried=False)


def _publish(batch: Waiting, target: ApplyTarget[Stage]) -> tuple[bool, str]:
    """Move main to the stage's head if main is still at its base; if not, report it: the next run repeats the work."""
    try:
        head = batch.work.staging.stage_head(target.stage)
        publish_stage(batch.work, target.stage, target.table, head, over_compaction=False)
    except StaleHeadError as error:
        log.warning("%s is left for the next run: %s", target.table.full_name, error)
        return False, str(error)
    return True, ""


def _worth_a_try(batch: Waiting, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """The letters to read again: all if a person requested it, else those not tried too often."""
    return [one for one in letters if batch.work.run.options.replay or one.attempts < MAX_ATTEMPTS]


def xa_settled(run: Run) -> bool:
    """Whether the source's rows match its log: a prepared XA transaction is in the log but in no row (INV 32).

    Letters wait until then: a row read too early would stay as before the XA COMMIT, which sends no event.
    """
    try:
        return not run.clients.source.xa_pending()
    except MissingPrivilegeError:
        return True


def drop_orphans(batch: Waiting) -> None:
    """Delete the stages of dead applies: we hold the lease, so none of them will ever be published."""
    ours = {batch.work.place(table) for table in batch.tables}
    try:
        for stage in batch.work.staging.stages(batch.work.run.pipeline.sink.namespace):
            if stage.label.startswith(LABEL) and (stage.namespace, stage.table) in ours:
                batch.work.staging.drop_stage(stage)
    except CdcError as error:  # another pipeline may drop one of its own meanwhile; the rest is deleted next time
        log.info("not all stages of killed applies could be dropped: %s", error)


def check_nulls(batch: Waiting, table: Table) -> None:
    """Refuse a table while the converter replaces NULL by a column's default, even if no event has arrived yet."""
    events = batch.ctx.events
    if not events.routing.null_becomes_default or not events.nulls_at_risk(table, batch.defaults[table.full_name]):
        return
    config = batch.work.run.clients.connector.raw_config(batch.work.run.pipeline.connector.name)
    fault = config_rules_of(batch.work.run.pipeline).null_fault(config, {table.full_name: table}, batch.defaults)
    if fault is not None:
        raise ConfigError(fault.what, where=f"table {table.full_name}", todo=fault.todo)
