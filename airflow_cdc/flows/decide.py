"""Steps 1 and 2: what is wrong, and the cheapest safe way to mend it, as one plain dict."""

from __future__ import annotations

from airflow_cdc.core.diagnosis import diagnose
from airflow_cdc.core.strategy import make_plan
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.run import Facts, Run, step


@step("diagnose")
def decide(run: Run, asked: str | None = None) -> Facts:
    """Observe, diagnose and plan.

    Returns `{"pipeline", "pipeline_hash", "tables", "taken_at", "diagnosis": {...}, "plan": {...}}`, all plain JSON.
    `asked` names a strategy a person chose; the planner refuses one that does not fit, with its reason.
    """
    seen = observe(run)
    diagnosis = diagnose(seen)
    plan = make_plan(diagnosis, run.pipeline.policy, seen, asked=asked)
    decision = {
        "pipeline": run.pipeline.name,
        "pipeline_hash": run.pipeline.hash,
        "tables": list(run.options.get("tables") or run.pipeline.source.tables),
        "taken_at": seen.taken_at,
        "diagnosis": diagnosis.to_json(),
        "plan": plan.to_json(),
    }
    run.clients.control.ledger_set(run.run_id, "decision", decision)
    return decision
