"""How far the sink's main tables are behind their topics. Comparisons do not show it, because they catch up first."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_cdc.core.observation import ControlFacts, SinkFacts, SinkTableFacts, TransportFacts
from airflow_cdc.core.problem import AnyCase, Evidence
from airflow_cdc.decisions.diagnosis.evidence import evidence, tables_of, transport_of

# partition → (next offset to apply, end)
Waiting = Mapping[int, tuple[int, int]]


def waiting_of(table: str, facts: SinkTableFacts, transport: TransportFacts) -> Waiting:
    """The part of the table's topic that is not applied; {} if all is, or if no stamp of this very topic exists."""
    state = transport.topics.get(transport.of_table.get(table, ""))
    if facts.stamp is None or state is None:
        return {}
    known = facts.stamp.offsets.get(state.name)
    if known is not None and known.topic_id != state.id:
        return {}
    nexts = {p: facts.stamp.next_offset(state.name, p) or 0 for p in state.partitions}
    return {
        p: (max(nexts[p], begin), end) for p, (begin, end) in state.partitions.items() if max(nexts[p], begin) < end
    }


def late_events(waiting: Waiting, young: Mapping[int, int | None]) -> int:
    """How many waiting events are too old. `young`: partition → first event that is young enough; None: none is."""
    firsts = {p: end if young.get(p) is None else young[p] or 0 for p, (_, end) in waiting.items()}
    return sum(max(0, min(firsts[p], end) - begin) for p, (begin, end) in waiting.items())


def sink_behind(case: AnyCase) -> Evidence | None:
    """Events wait longer than the policy allows, or they wait and the newest apply failed."""
    obs = case.seen
    tables, transport, control = tables_of(obs), transport_of(obs), obs.control
    if tables is None or transport is None or obs.pipeline.sink.writer != "cdc_apply":
        return None
    waiting = {name: waits for name, facts in tables.items() if (waits := waiting_of(name, facts, transport))}
    late = obs.sink.late if isinstance(obs.sink, SinkFacts) else {}
    error = control.apply_error if isinstance(control, ControlFacts) else ""
    if not late and not (waiting and error):
        return None
    limit = obs.pipeline.policy.max_lag
    shown = {f"waiting for {name}": _text(waits, late.get(name, 0), limit) for name, waits in waiting.items()}
    failed = evidence(case, "control table", {"the newest apply failed": error}) if error else {}
    return {**evidence(case, "sink stamps and topics", shown), **failed}


def _text(waits: Waiting, late: int, limit: int) -> str:
    count = sum(end - begin for begin, end in waits.values())
    return f"{count} events, {late} of them for longer than policy.max_lag of {limit} s"
