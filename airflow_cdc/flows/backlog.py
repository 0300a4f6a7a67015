"""Whether an apply has anything to do, asked without a Spark session: a cold one costs seconds, this costs milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.observation import ControlFacts
from airflow_cdc.core.poll import NotYet
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.decisions.apply.applied import Applied
from airflow_cdc.flows.capture import settings
from airflow_cdc.flows.partial import Looks
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.flows.stages import letters_of, staging_of


def pending(run: Run, looks: Looks | None = None) -> Facts:
    """What waits: `{"recovery": run id if it leaves no table to apply, "tables": [behind…], "events": how many wait in their
    topics, "dead_letters": to retry}`.

    A table counts as behind unless its stamp proves that it is not: the apply itself judges anything odd. Changes without an
    event are looked for where no event waits; `looks`: those before, see Looks.
    """
    control = run.clients.control.facts()
    tables = applicable(control, run.pipeline.source.tables)
    capture = settings(run)  # read once: it is a request
    topics, ddl = {table: capture.topic_of(table) for table in tables}, capture.ddl_topic
    states = run.clients.transport.gathered(capture.topics_about(tables))
    table_ids = run.clients.source.table_ids(topics)
    stamps = {table: _stamp(run, table) for table in tables}
    of_ddl = [ddl] if ddl is not None and ddl in states else []  # one that does not exist holds none
    behind = [
        table
        for table, topic in topics.items()
        if not all(caught_up(stamps[table], control.required.of(table), t, states.get(t)) for t in (topic, *of_ddl))
        or _made_anew(run, table, table_ids.get(table))
    ]
    behind = behind or (looks or Looks()).tables(run, tables)
    recovery = control.recovery.run_id if control.recovery is not None and not tables else None
    events = sum(events_left(stamps[table], states.get(topics[table])) for table in behind)
    letters = letters_of(run).waiting_letters(run.pipeline.name)
    return {"recovery": recovery, "tables": behind, "events": events, "dead_letters": letters}


@dataclass(slots=True)
class Waiting:
    """Looks repeatedly at what waits: see pending().

    A failed look counts as nothing waiting. After `patience` seconds of failed looks the error is raised (0: at once).
    """

    run: Run
    patience: float = 0.0
    clock: Callable[[], float] = time.monotonic
    failing_since: float | None = None
    looks: Looks = field(default_factory=Looks)

    def look(self) -> Facts:
        """What waits. Raises NotYet, with the reason, if there is nothing to apply."""
        try:
            waiting = pending(self.run, self.looks)
        except CdcError as error:
            self.failing_since = self.clock() if self.failing_since is None else self.failing_since
            if self.clock() - self.failing_since >= self.patience:
                raise
            raise NotYet(str(error)) from error
        self.failing_since = None
        if waiting["recovery"]:
            raise NotYet(f"the recovery of run {waiting['recovery']} is open: it catches up by itself")
        if not waiting["tables"] and not waiting["dead_letters"]:
            raise NotYet("every table is at the end of its topic: there is nothing to apply")
        return waiting


def applicable(control: ControlFacts, tables: Sequence[str]) -> list[str]:
    """The tables that may be applied now: all except abandoned tables and those of an open recovery.

    None while the open recovery moves the connector's offset, which gives all tables a new epoch (INV 39).
    """
    recovery = control.recovery
    if recovery is not None and not recovery.offset_kept:
        return []
    refused = {*control.abandoned, *(recovery.tables if recovery is not None else ())}
    return [table for table in tables if table not in refused]


def caught_up(stamp: Stamp | None, epoch: int, topic: str, state: TopicState | None) -> bool:
    """True if the stamp has this epoch, belongs to exactly this topic, and is at the end of every partition.

    A topic that does not exist holds nothing: Debezium creates one with its first record. One that was applied and is gone
    is left to apply, which judges it.
    """
    if stamp is None or stamp.epoch != epoch:
        return False
    return stamp.offsets.get(topic) == (TopicOffsets.end_of(state) if state is not None else None)


def events_left(stamp: Stamp | None, state: TopicState | None) -> int:
    """How many events of the topic the stamp is not past; all of them without a stamp of a topic of this name."""
    if state is None:
        return 0
    applied = stamp.offsets.get(state.name) if stamp else None
    done = applied.next if applied is not None else {}
    return state.ahead + sum(max(0, end - done.get(part, begin)) for part, (begin, end) in state.partitions.items())


def _made_anew(run: Run, table: str, table_id: str | None) -> bool:
    """Whether the source recreated the table (TRUNCATE) since the last apply, which sends no event (INV 13)."""
    namespace, name = run.pipeline.sink.namespace, run.pipeline.sink_table(table)
    there = run.clients.sink.exists(namespace, name)
    summary = staging_of(run).stamped_summary(namespace, name) if there else {}
    applied = Applied.from_summary(summary)
    return applied is not None and table_id not in {None, applied.table_id}


def _stamp(run: Run, table: str) -> Stamp | None:
    namespace, name = run.pipeline.sink.namespace, run.pipeline.sink_table(table)
    return staging_of(run).stamp(namespace, name) if run.clients.sink.exists(namespace, name) else None
