"""The application `verify`: catch the stages up, compare every row, run the expectations, decide what may be published.

Airflow sees only the exit status of a Spark driver, so every number goes into the control table and into
`verify.json` beside the report.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.dead_letter import DeadLetter, Place, is_before
from airflow_cdc.core.epochs import Epochs
from airflow_cdc.core.errors import DeadlineError, SinkError, VerificationError
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.poll import NotYet, poll_while_moving
from airflow_cdc.core.ports import Stage, Staging
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.report import Verdict, overall
from airflow_cdc.core.table import Table
from airflow_cdc.core.timeline import timed
from airflow_cdc.core.topics import Fence, TopicState
from airflow_cdc.decisions.compare.expectations import judged
from airflow_cdc.decisions.compare.part import WHOLE, Part
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.carried import odd_values_named
from airflow_cdc.flows.close import report_folder
from airflow_cdc.flows.reached import wait_past
from airflow_cdc.flows.recovery import current, own_way_on, watermark_of
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.flows.side_by_side import for_each
from airflow_cdc.flows.stages import letters_of, staging_of
from airflow_cdc.reports.data_docs import keep_facts
from airflow_cdc.spark_apps.apply.batch import apply_batch
from airflow_cdc.spark_apps.apply.context import ApplyContext, ApplyTarget, start_of
from airflow_cdc.spark_apps.apply.replay import replay
from airflow_cdc.spark_apps.compare.differing_rows import keep_rows
from airflow_cdc.spark_apps.compare.expectations import counted
from airflow_cdc.spark_apps.compare.few import most_rows
from airflow_cdc.spark_apps.compare.in_place import compare_in_place
from airflow_cdc.spark_apps.compare.judge import judge
from airflow_cdc.spark_apps.compare.letters import CaveatsOf, letter_caveats
from airflow_cdc.spark_apps.compare.open_xa import wait_for_xa, xa_open
from airflow_cdc.spark_apps.compare.results import keep, make_report, refuse, summary
from airflow_cdc.spark_apps.compare.scan import (
    Outcome,
    Reached,
    Subject,
    compare_tables,
    compare_views,
    decided,
    few_in_memory,
    groups,
    open_views,
)
from airflow_cdc.spark_apps.compare.tail import Topic
from airflow_cdc.spark_apps.compare.views import pinned
from airflow_cdc.spark_apps.driver.app import explained, open_app
from airflow_cdc.spark_apps.driver.lost import begun_again
from airflow_cdc.spark_apps.driver.session import begin
from airflow_cdc.spark_apps.driver.systems import Systems, ddl_reader, open_systems, row_reader
from airflow_cdc.spark_apps.ports import connection_limit
from airflow_cdc.spark_apps.snapshot.read import staged_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_cdc.verify")

# Reads rows into the stages of some tables that events could not bring; returns the tables that had such rows.
PutRight = Callable[[Collection[str]], Collection[str]]

AGAIN = "Main is as it was; clear the task verify to verify again."
RESUME_SECONDS = 1800.0
CATCH_UPS = 5
KEEP_COMING = (
    "{count} of them came after the others' rows had been read again: such rows change faster than they are read, so"
    " clear the task verify while they change less"
)
# A difference is reported only if a second comparison, of a newer snapshot, finds one too.
PASSES = 2


def main(settings: Mapping[str, Any]) -> Facts:
    """Verify the stages of the run's open recovery. `settings` is what the operator wrote for the driver."""
    with open_app(settings, "verify") as (run, spark):
        return begun_again(lambda: verify(run, spark, settings), "verify")


@dataclass(frozen=True, slots=True)
class Task:
    """What is compared: stages, with the source's current definitions.

    Attributes:
        watermark: every connection to the source proves that it reaches the watermark's server (INV 9).
        parts: table → the part of it that is compared; a table that is absent is compared whole.
    """

    epoch: int
    watermark: Watermark
    stages: Mapping[str, Stage]
    definitions: Mapping[str, Table]
    systems: Systems
    parts: Mapping[str, Part] = field(default_factory=dict)

    def of(self, tables: Collection[str]) -> Task:
        """The task for these tables only."""
        definitions = {name: table for name, table in self.definitions.items() if name in tables}
        return replace(self, definitions=definitions)

    def topic(self, table: str) -> str:
        """The topic of a table."""
        return self.systems.events.routing.topic_of(table)


@step("verify", leased=True)
def verify(run: Run, spark: SparkSession, settings: Mapping[str, Any] | None = None) -> Facts:
    """Catch up, compare, check expectations; store the result for `publish` and the report.

    Tables that the connector writes itself are compared as readers see them. Raises VerificationError (MISMATCH or
    INCONCLUSIVE) where the pipeline's policy allows nothing to be published.
    """
    in_place = run.pipeline.corrected is Corrected.BEFORE_START
    if not in_place and (done := _nothing_left(run)) is not None:
        return done
    options, began = dict(settings or {}), time.monotonic()
    rows = [stage.rows for stage in current(run).stages.values()]
    if max(rows, default=0) > most_rows(rows):
        begin(spark)
    longest = max(RESUME_SECONDS, run.pipeline.policy.standstill)
    wait_resumed(run, float(options.get("resume_seconds", longest)))
    labels, xa = dict[str, str](), run.clients.source.xa()
    try:
        named = odd_values_named(run, current(run).unpublished, "verify")
        with named, explained(SinkError, "compare the tables", where=run.where, todo=AGAIN):
            if in_place:
                recovery = current(run)
                outcomes = compare_in_place(run, spark, options, recovery.tables, watermark_of(recovery, run))
            else:
                task = load_task(run)
                labels = {table: stage.label for table, stage in task.stages.items()}
                again = LettersAgain(run, spark, task, current(run).fence or {})
                with own_way_on(run):
                    outcomes = compare_passes(run, spark, task, options, again.caveats, put_right=again.put_right)
    except DeadlineError as error:
        raise VerificationError(
            f"the comparison could not be finished: {error.what}",
            where=run.where,
            todo="See why the connector does not move, then clear the task verify.",
            verdict=str(Verdict.INCONCLUSIVE),
        ) from error
    for outcome in outcomes:
        keep_rows(run, row_reader(run), spark, outcome)
    counting = explained(SinkError, "count the rows that were compared", where=run.where, todo=AGAIN)
    with counting, timed("facts for the expectations"):
        facts_of = counted(outcomes)
    keep_facts(report_folder(run), facts_of)
    suites = {one.expected.name: judged(one) for one in facts_of}
    reports = [make_report(outcome, suites[outcome.subject.table.full_name]) for outcome in outcomes]
    facts = keep(run, reports, list(suites.values()), labels, round(time.monotonic() - began, 3), xa=xa)
    refuse(run, reports)
    return facts


def _nothing_left(run: Run) -> Facts | None:
    """The stored result if all tables are published already; None if a table is left to compare."""
    recovery = current(run)
    if recovery.unpublished:
        return None
    verdicts = {name: done.verdict for name, done in recovery.verified.items()}
    return {"verdict": str(overall(Verdict(verdict) for verdict in verdicts.values())), "tables": verdicts}


def wait_resumed(run: Run, standstill: float) -> None:
    """Wait until the connector streams past W, as long as the steps that bring it there make progress.

    Raises NoRecoveryError if the recovery disappears meanwhile.
    """

    def probe() -> object:
        recovery = current(run)
        if recovery.resumed_at:
            return recovery.resumed_at
        raise NotYet(recovery.resuming or f"offset written at {recovery.written_at or None}")

    poll_while_moving(probe, standstill=standstill, interval=0.5, what="the connector to be resumed by this recovery")


def load_task(run: Run) -> Task:
    """Make a stage for this try from the one that `recover` filled, for each table (INV 38).

    A driver that outlived its task keeps writing to the stage of its own try: in a shared stage, the rows it appends
    would be ghosts. Raises VerificationError if a table was not read.
    """
    recovery = current(run)
    tables, stages = recovery.unpublished, recovery.stages
    if missing := [table for table in tables if table not in stages]:
        raise VerificationError(
            f"{', '.join(missing)} was not read yet", where=run.where, todo="Clear the task recover and all after it."
        )
    lake, namespace = staging_of(run), run.pipeline.sink.namespace
    names = {table: run.pipeline.sink_table(table) for table in tables}
    known = defaultdict[str, dict[str, Stage]](dict)
    for stage in lake.stages(namespace, *names.values()) if names else ():
        known[stage.table][stage.label] = stage

    def own(table: str) -> Stage:
        return _own_stage(lake, namespace, names[table], stages[table].label, known[names[table]])

    opened = dict(zip(names, for_each(own, tuple(names)), strict=True))
    taken = watermark_of(recovery, run)
    return Task(recovery.epoch, taken, opened, captured(run, tables), open_systems(run))


def _own_stage(lake: Staging, namespace: str, table: str, filled: str, known: Mapping[str, Stage]) -> Stage:
    """The stage `<filled>_v<try>`, with a try number that none of the table's stages (`known`, by label) has."""
    tries = (re.fullmatch(rf"{re.escape(filled)}_v(\d+)", label) for label in known)
    number = 1 + max((int(match[1]) for match in tries if match), default=0)
    source = known.get(filled) or lake.open_stage(namespace, table, filled)
    return lake.stage(namespace, table, f"{filled}_v{number}", from_stage=source)


def compare_passes(
    run: Run,
    spark: SparkSession,
    task: Task,
    options: Mapping[str, Any],
    caveats: Callable[[Run], CaveatsOf],
    *,
    put_right: PutRight = lambda _tables: (),
) -> list[Outcome]:
    """Compare; the tables that are not MATCH catch up and are compared once more before that is reported.

    `caveats`, called after each pass, returns the reasons why a table cannot be MATCH whatever its rows are. Options: `passes`, and
    `reach_seconds`: how long the connector may stand still while we wait for it (default: the policy's `standstill`).
    """
    timeout = float(options.get("reach_seconds", run.pipeline.policy.standstill))
    outcomes, left = dict[str, Outcome](), list(task.definitions)
    for number in range(1, int(options.get("passes", PASSES)) + 1):
        compared = _compared(run, spark, task.of(left), timeout, put_right)
        for outcome in compared:
            wait_for_xa(run, outcome)
        caveats_of = caveats(run)
        for outcome in compared:
            outcome.add_caveats(*caveats_of(outcome))
            log.info("pass %d: %s", number, summary(outcome))
            outcomes[outcome.subject.table.full_name] = outcome
        left = [name for name in left if outcomes[name].verdict is not Verdict.MATCH]
        if not left:
            break
    return [outcomes[name] for name in task.definitions]


def _compared(run: Run, spark: SparkSession, task: Task, timeout: float, put_right: PutRight) -> list[Outcome]:
    """Catch the stages up, and compare some tables at a time."""
    reached, subjects = _caught_up(run, spark, task, timeout, put_right)
    most = most_rows(subject.rows for subject in subjects)
    outcomes: list[Outcome] = []
    reader = task.systems.reader
    for some in groups(subjects, sharing=not reader.exact_views, connections=connection_limit(reader)):
        part = task.of([subject.table.full_name for subject in some])
        if reader.exact_views:
            outcomes += _compared_in_old_views(run, spark, part, timeout, put_right, most=most)
        else:
            outcomes += _compared_by_the_log(run, part, few_in_memory(some, most), timeout, start=reached)
    return outcomes


def _compared_by_the_log(
    run: Run, task: Task, subjects: Sequence[Subject], timeout: float, *, start: Reached
) -> list[Outcome]:
    """Compare with views that are opened after the stages caught up, which was at `start`."""

    def reach_now() -> Reached:
        # the ends of these tables' topics only: all of 2,000 for every group is the square of the tables
        return reach(run, task, timeout)[0]

    with timed("comparing"):
        return compare_tables(task.systems.reader, subjects, judge, reach_now, watermark=task.watermark, start=start)


def _compared_in_old_views(
    run: Run, spark: SparkSession, task: Task, timeout: float, put_right: PutRight, *, most: int
) -> list[Outcome]:
    """Compare with views that are opened before the stages catch up once more. `most`: see few_in_memory.

    Any row that changes meanwhile is then known from the view and from the changes' after images, so no before images
    are needed, which not every log holds.
    """
    reader, tables = task.systems.reader, list(task.definitions.values())

    def reach_now() -> Reached:
        return reach(run, task, timeout)[0]

    before = reach_now()
    # taken after the ends, so that a view that shows it shows everything before the ends
    lots = [[table] for table in tables]
    with open_views(reader, lots, task.watermark, run.clients.source.position()) as opened:
        views = [opened[table.full_name] for table in tables]
        _, subjects = _caught_up(run, spark, task, timeout, put_right)
        old = [replace(subject, before=before) for subject in few_in_memory(subjects, most)]
        with timed("comparing"):
            judgements, now = compare_views(reader, old, views, judge, reach_now, watermark=task.watermark)
    return decided(reader, judgements, reach_now, watermark=task.watermark, now=now)


def _caught_up(
    run: Run, spark: SparkSession, task: Task, timeout: float, put_right: PutRight
) -> tuple[Reached, list[Subject]]:
    """Catch up; tables with rows that were re-read meanwhile once more, so that no row is newer than the compared ends.

    After CATCH_UPS rounds nothing is re-read any more: the last dead letters remain as a caveat. Returns what was
    reached last, which no subject is beyond.
    """
    subjects, left = dict[str, Subject](), list(task.definitions)
    for round_ in reversed(range(CATCH_UPS)):
        reached, caught = catch_up(run, spark, task.of(left), timeout=timeout)
        subjects |= {subject.table.full_name: subject for subject in caught}
        again = put_right(left) if round_ else ()
        left = [name for name in left if name in again]
        if not left:
            break
    return reached, [subjects[name] for name in task.definitions]


def reach(run: Run, task: Task, timeout: float) -> tuple[Reached, Mapping[str, TopicState]]:
    """The source's current position, once the connector has committed an offset past it, and the topics' ends then."""
    position = run.clients.source.position()
    wait_past(run, position, timeout)
    states = run.clients.transport.gathered(task.systems.events.routing.topics_about(task.definitions))
    ends = {name: {p: end for p, (_, end) in state.partitions.items()} for name, state in states.items()}
    return Reached(position, ends), states


def catch_up(run: Run, spark: SparkSession, task: Task, *, timeout: float) -> tuple[Reached, list[Subject]]:
    """Apply everything up to a position taken now to the stages; the resulting snapshots are compared.

    A batch that ends inside a range that the connector repeats must not be compared: its table continues past it
    (INV 18). Returns what was reached last.
    """
    left, subjects = _targets(run, task), dict[str, Subject]()
    for _ in range(1 + CATCH_UPS):
        reached, states = reach(run, task.of([target.table.full_name for target in left]), timeout)
        context = apply_context(run, spark, task, states)
        with timed("applying the events"):
            results = apply_batch(context, left, reached.ends)
        for target in left:
            name, result = target.table.full_name, results[target.table.full_name]
            subjects[name] = _subject(context, task, target, result=result, reached=reached)
            log.info("%s: caught up by %d records in %.1f s", name, result["records"], result["seconds"])
        left = [target for target in left if results[target.table.full_name]["behind"]]
        if not left:
            break
    return reached, [subjects[name] for name in task.definitions]


def _targets(run: Run, task: Task) -> list[ApplyTarget[Stage]]:
    defaults = task.systems.reader.defaults(list(task.definitions.values()))
    table_ids = run.clients.source.table_ids(list(task.definitions))
    return [
        ApplyTarget(table, task.stages[name], defaults=defaults[name], table_id=table_ids.get(name))
        for name, table in task.definitions.items()
    ]


def apply_context(run: Run, spark: SparkSession, task: Task, states: Mapping[str, TopicState]) -> ApplyContext:
    """The context of an apply to the task's stages, with the topics as in `states`."""
    systems = task.systems
    return ApplyContext(
        spark=spark,
        writer=systems.writer,
        letters=systems.letters,
        epochs=Epochs(task.epoch),
        log=systems.reader,
        events=systems.events,
        topics=states,
        read=systems.topics.read,
        read_ddl=ddl_reader(run, systems.events),
        few=systems.few,
        compared=frozenset(name for name in task.definitions if task.parts.get(name, WHOLE).whole),
    )


def _subject(
    context: ApplyContext,
    task: Task,
    target: ApplyTarget[Stage],
    *,
    result: Mapping[str, Any],
    reached: Reached,
) -> Subject:
    name, version = task.topic(target.table.full_name), int(result["snapshot_id"])
    state = context.topics.get(name)
    begins = {} if state is None else {p: begin for p, (begin, _) in state.partitions.items()}
    return Subject(
        target.table,
        pinned(context.spark, context.writer, target.stage, version),
        Topic(target.table, name, begins, context.log, context.events, context.read, context.few),
        {int(partition): int(offset) for partition, offset in result["offsets"].items()},
        reached.position,
        staged_rows(context.writer, target.stage, version),
        task.parts.get(target.table.full_name, WHOLE),
    )


@dataclass(slots=True)
class LettersAgain:
    """Dead letters of a recovery's own catch-up. Those before `since` (a fence) were read again with their table.

    `right`: the places of the later letters whose keys were read again into the stages of this try.
    """

    run: Run
    spark: SparkSession
    task: Task
    since: Fence
    tried: set[Place] = field(default_factory=set)
    right: set[Place] = field(default_factory=set)

    def put_right(self, tables: Collection[str]) -> Collection[str]:
        """Read the keys of these tables' letters that arrived since the last call; returns the tables of such letters.

        Not while a prepared XA transaction is open: no later event would correct the rows read now.
        """
        fresh = [letter for letter in self._letters() if letter.table in tables and letter.place not in self.tried]
        if not fresh or xa_open(self.run):
            return ()
        self.tried |= {letter.place for letter in fresh}
        task = self.task.of({letter.table for letter in fresh})
        states = self.run.clients.transport.topic_states(task.systems.events.routing.topics_about(task.definitions))
        context = apply_context(self.run, self.spark, task, states)
        for target in _targets(self.run, task):
            mine = [letter for letter in fresh if letter.table == target.table.full_name]
            start = start_of(context, target.table, target.stage.identifier, {})
            self.right |= {letter.place for letter in replay(context, target, start, mine, task.systems.reader)}
        return task.definitions.keys()

    def caveats(self, run: Run) -> CaveatsOf:
        """Events of a table that were never applied and whose rows were not read again since."""
        found, came = letter_caveats(run, self.since, self.right), Counter[str]()
        if self.tried:
            came.update(letter.table for letter in self._letters() if letter.place not in self.tried)

        def caveats_of(outcome: Outcome) -> tuple[str, ...]:
            count = came[outcome.subject.table.full_name]
            return (*found(outcome), *((KEEP_COMING.format(count=count),) if count else ()))

        return caveats_of

    def _letters(self) -> list[DeadLetter]:
        keyed = {name for name, table in self.task.definitions.items() if not table.keyless}
        found = letters_of(self.run).unresolved_letters(self.run.pipeline.name)
        return [letter for letter in found if letter.table in keyed and not is_before(letter.place, self.since)]
