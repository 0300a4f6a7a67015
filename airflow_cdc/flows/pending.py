"""Whether an apply has anything to do, asked without a Spark session: a cold one costs seconds, this costs milliseconds."""

from __future__ import annotations

from airflow_cdc.core.observation import TopicState
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.flows.captured import topic_names
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.systems.letters import waiting


def pending(run: Run) -> Facts:
    """What waits: `{"recovery": run id or None, "tables": [behind…], "dead_letters": to be tried again}`.

    A table counts as behind unless its stamp proves that it is not: whatever is odd is for the apply itself to judge.
    """
    control = run.clients.control.facts()
    topics = topic_names(run, run.pipeline.source.tables)
    states = run.clients.transport.topic_states(list(topics.values()))
    behind = [
        table
        for table, topic in topics.items()
        if not caught_up(_stamp(run, table), control.epoch, topic, states.get(topic))
    ]
    recovery = (control.recovery or {}).get("run_id")
    return {"recovery": recovery, "tables": behind, "dead_letters": waiting(run.clients.lake, run.pipeline.name)}


def caught_up(stamp: Stamp | None, epoch: int, topic: str, state: TopicState | None) -> bool:
    """True if the stamp is of this epoch and of this very topic, and stands at the end of every partition."""
    if stamp is None or state is None or stamp.epoch != epoch:
        return False
    applied = stamp.offsets.get(topic) or {}
    ends = {str(number): end for number, (_, end) in state.partitions.items()}
    return applied.get("id") == state.id and dict(applied.get("partitions") or {}) == ends


def _stamp(run: Run, table: str) -> Stamp | None:
    lake, namespace, name = run.clients.lake, run.pipeline.sink.namespace, run.pipeline.sink_table(table)
    return lake.stamp(namespace, name) if lake.exists(namespace, name) else None
