"""Bring stages up to a position of the source that is taken now, so that they can be compared with it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from airflow_cdc.core.dead_letter import DeadLetter, Place, is_before
from airflow_cdc.core.ports import Stage
from airflow_cdc.core.timeline import timed
from airflow_cdc.core.topics import Fence, TopicState
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.fields import Fields
from airflow_cdc.flows.reached import wait_sent
from airflow_cdc.flows.stages import letters_of
from airflow_cdc.spark_apps.apply.batch import apply_batch
from airflow_cdc.spark_apps.apply.context import ApplyContext, ApplyTarget, start_of
from airflow_cdc.spark_apps.apply.replay import replay
from airflow_cdc.spark_apps.compare.caveats import CaveatsOf, letter_caveats, xa_open
from airflow_cdc.spark_apps.compare.scan import Outcome, Reached, Subject
from airflow_cdc.spark_apps.compare.tail import Topic
from airflow_cdc.spark_apps.compare.views import pinned
from airflow_cdc.spark_apps.snapshot.read import staged_rows
from airflow_cdc.spark_apps.stages.work import Work

log = logging.getLogger("airflow_cdc.verify")

CATCH_UPS = 5
KEEP_COMING = (
    "{count} of them came after the others' rows had been read again: such rows change faster than they are read, so"
    " clear the task verify while they change less"
)


def reach(work: Work) -> tuple[Reached, Mapping[str, TopicState]]:
    """The source's current position, once all up to it is in the topics or in the stages' rows, and the topics' ends then."""
    position = work.run.clients.source.position()
    wait_sent(work.run, position, work.patience.seconds, work.read_at)
    states = work.run.clients.transport.gathered(work.systems.events.routing.topics_about(work.definitions))
    ends = {name: {p: end for p, (_, end) in state.partitions.items()} for name, state in states.items()}
    return Reached(position, ends), states


def catch_up(work: Work) -> tuple[Reached, list[Subject]]:
    """Apply everything up to a position taken now to the stages; the resulting snapshots are compared.

    A batch that ends inside a range that the connector repeats must not be compared: its table continues past it
    (INV 18). Returns what was reached last.
    """
    left, subjects = work.targets(), dict[str, Subject]()
    for _ in range(1 + CATCH_UPS):
        reached, states = reach(work.of([target.table.full_name for target in left]))
        context = work.context(states)
        with timed("applying the events"):
            results = apply_batch(context, left, reached.ends)
        for target in left:
            name, result = target.table.full_name, results[target.table.full_name]
            subjects[name] = _subject(context, work, target, result=result, reached=reached)
            log.info("%s: caught up by %d records in %.1f s", name, result["records"], result["seconds"])
        left = [target for target in left if results[target.table.full_name]["behind"]]
        if not left:
            break
    return reached, [subjects[name] for name in work.definitions]


def _subject(
    context: ApplyContext,
    work: Work,
    target: ApplyTarget[Stage],
    *,
    result: Mapping[str, object],
    reached: Reached,
) -> Subject:
    offsets = Fields.of(result["offsets"])
    name, version = work.systems.events.routing.topic_of(target.table.full_name), Fields(result).number("snapshot_id")
    state = context.topics.get(name)
    begins = {} if state is None else {p: begin for p, (begin, _) in state.partitions.items()}
    return Subject(
        target.table,
        pinned(context.spark, context.writer, target.stage, version),
        Topic(target.table, name, begins, context.log, context.events, context.read, context.few),
        {int(partition): offsets.number(partition) for partition in offsets},
        reached.position,
        staged_rows(context.writer, target.stage, version),
        work.parts.get(target.table.full_name, WHOLE),
    )


@dataclass(slots=True)
class LettersAgain:
    """Dead letters of a recovery's own catch-up. Those before `since` (a fence) were read again with their table.

    `right`: the places of the later letters whose keys were read again into the stages of this try.
    """

    work: Work
    since: Fence
    tried: set[Place] = field(default_factory=set)
    right: set[Place] = field(default_factory=set)

    def put_right(self, tables: Collection[str]) -> Collection[str]:
        """Read the keys of these tables' letters that arrived since the last call; returns the tables of such letters.

        Not while a prepared XA transaction is open: no later event would correct the rows read now.
        """
        fresh = [letter for letter in self._letters() if letter.table in tables and letter.place not in self.tried]
        if not fresh or xa_open(self.work.run):
            return ()
        self.tried |= {letter.place for letter in fresh}
        work = self.work.of({letter.table for letter in fresh})
        states = work.run.clients.transport.topic_states(work.systems.events.routing.topics_about(work.definitions))
        context = work.context(states)
        for target in work.targets():
            mine = [letter for letter in fresh if letter.table == target.table.full_name]
            start = start_of(context, target.table, target.stage.identifier, {})
            self.right |= {letter.place for letter in replay(context, target, start, mine, work.systems.reader)}
        return work.definitions.keys()

    def caveats(self) -> CaveatsOf:
        """Events of a table that were never applied and whose rows were not read again since."""
        of_letters, came = letter_caveats(self.work.run, self.since, self.right), Counter[str]()
        if self.tried:
            came.update(letter.table for letter in self._letters() if letter.place not in self.tried)

        def caveats_of(outcome: Outcome) -> tuple[str, ...]:
            count = came[outcome.subject.table.full_name]
            return (*of_letters(outcome), *((KEEP_COMING.format(count=count),) if count else ()))

        return caveats_of

    def _letters(self) -> list[DeadLetter]:
        names = {name for name, table in self.work.definitions.items() if not table.keyless}
        letters = letters_of(self.work.run).unresolved_letters(self.work.run.pipeline.name)
        return [letter for letter in letters if letter.table in names and not is_before(letter.place, self.since)]
