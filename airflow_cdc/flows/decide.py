"""Steps 1 and 2: what is wrong, and the cheapest safe way to mend it, as one plain dict."""

from __future__ import annotations

from airflow_cdc.core.diagnosis import diagnose
from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.observation import Observation, SinkFacts
from airflow_cdc.core.strategy import AUTO, STRATEGIES, make_plan
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.remember import remember
from airflow_cdc.flows.run import Facts, Run, step

COUNT_SECONDS = 30.0
UNCHANGED = "unchanged"


@step("diagnose")
def decide(run: Run, asked: str | None = None) -> Facts:
    """Observe, diagnose and plan.

    Returns `{"pipeline", "pipeline_hash", "tables", "taken_at", "note", "diagnosis": {...}, "plan": {...}}`, all plain JSON.
    `asked` names a strategy a person chose; the planner refuses one that does not fit, with its reason.
    """
    seen = observe(run)
    diagnosis = diagnose(seen)
    remember(run, seen, diagnosis)
    plan = make_plan(diagnosis, run.pipeline.policy, seen, asked=asked)
    if not plan.refused and STRATEGIES[plan.strategy].changes:
        plan = make_plan(diagnosis, run.pipeline.policy, seen, asked=asked, deletes=fewer_rows(run, seen))
    decision = {
        "pipeline": run.pipeline.name,
        "pipeline_hash": run.pipeline.hash,
        "tables": list(run.options.get("tables") or run.pipeline.source.tables),
        "taken_at": seen.taken_at,
        "note": str(run.options.get("note") or ""),
        "diagnosis": diagnosis.to_json(),
        "plan": plan.to_json(),
    }
    run.clients.control.ledger_set(run.run_id, "decision", decision)
    return decision


def asked_strategy(run: Run) -> str | None:
    """The strategy that a person chose when this run was triggered."""
    asked = run.options.get("strategy")
    return None if asked in (None, "", AUTO) else str(asked)


def note_unchanged(run: Run, why: str) -> None:
    """Keep for the report why this run changed nothing, though a plan was made."""
    run.clients.control.ledger_set(run.run_id, UNCHANGED, f"{why}: nothing was changed")


def fewer_rows(run: Run, seen: Observation) -> dict[str, int]:
    """Table → by how many rows the source has fewer than the sink: at least so many will go from the sink.

    Rows that came in the gap hide others that went, so this is a lower bound; what was really removed is known once
    both are compared. A table that cannot be counted (in time, or at all: it is gone, or may not be read) is left out.
    """
    tables = seen.sink.tables if isinstance(seen.sink, SinkFacts) else {}
    fewer = {}
    for name, facts in tables.items():
        if not facts.rows:
            continue
        count = _count(run, name)
        if count is not None and count < facts.rows:
            fewer[name] = facts.rows - count
    return fewer


def _count(run: Run, table: str) -> int | None:
    try:
        return run.clients.source.count_rows(table, COUNT_SECONDS)
    except SourceError:
        return None
