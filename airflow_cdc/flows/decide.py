"""Steps 1 and 2: what is wrong, and the cheapest safe way to repair it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from airflow_cdc.core.codec import plain
from airflow_cdc.core.errors import ConfigError, SchemaError, SourceError, TransportError
from airflow_cdc.core.observation import Observation, SinkFacts, SinkTableFacts
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis, diagnose
from airflow_cdc.decisions.diagnosis.problems import tables_behind, tables_stopped, tables_without_stamp
from airflow_cdc.decisions.diagnosis.strategy import AUTO, POSITION_ONLY, STRATEGIES, Plan, make_plan, refused_plan
from airflow_cdc.flows.observe import observe, store_observation
from airflow_cdc.flows.recoverable import refuse_unrecoverable
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.kinds import rules_for

COUNT_SECONDS = 30.0
UNCHANGED = "unchanged"


@step("diagnose")
def decide(run: Run, strategy: str | None = None) -> Facts:
    """Observe, diagnose and plan.

    Returns `{"pipeline", "pipeline_hash", "tables", "deletes", "taken_at", "note", "diagnosis": {...}, "plan": {...}}`,
    all plain JSON. `strategy` is one that a person chose; the planner refuses an unsuitable one with its reason.
    """
    observation, rules = observe(run), rules_for(run.pipeline)
    diagnosis = diagnose(observation, rules)
    store_observation(run, observation, diagnosis)
    tables = _concerned(run, observation, diagnosis)
    plan = make_plan(diagnosis, run.pipeline.policy, observation, rules, asked=strategy)
    deletes: dict[str, int | None] = {}
    if not plan.refused and STRATEGIES[plan.strategy].changes:
        deletes = fewer_rows(run, observation)
        plan = make_plan(diagnosis, run.pipeline.policy, observation, rules, asked=strategy, deletes=deletes)
        plan = looked_through(run, plan, tables)
    decision = {
        "pipeline": run.pipeline.name,
        "pipeline_hash": run.pipeline.hash,
        "tables": tables,
        "deletes": deletes,
        "taken_at": observation.taken_at,
        "note": run.options.note,
        "diagnosis": plain(diagnosis),
        "plan": plain(plan),
    }
    run.clients.control.ledger_set(run.run_id, "decision", decision)
    return decision


def looked_through(run: Run, plan: Plan, tables: Sequence[str]) -> Plan:
    """The plan, refused if it reads rows and their columns, settings or events are not carried or readable (INV 21, 31, 41).

    What is not known yet is added to its reason.
    """
    if plan.refused or plan.strategy in POSITION_ONLY or not STRATEGIES[plan.strategy].changes:
        return plan
    try:
        unknown = refuse_unrecoverable(run, tables)
    except (SchemaError, ConfigError) as error:
        return refused_plan(str(error))
    except (SourceError, TransportError):
        return plan  # open_recovery looks again and reports what can't be read now
    return replace(plan, reason=f"{plan.reason} Not known: {'; '.join(unknown)}.") if unknown else plan


# Problems of single tables, which leave the other tables alone (INV 39).
CONCERNED: Mapping[str, Callable[[Observation], tuple[str, ...]]] = {
    "EPOCH_BEHIND": tables_behind,
    "STAMP_LOST": tables_without_stamp,
    "TABLE_ADDED": tables_without_stamp,
    "TABLE_NEEDS_REREAD": tables_stopped,
}


def _concerned(run: Run, observation: Observation, diagnosis: Diagnosis) -> list[str]:
    """The tables that were asked for; else those that the problem is about, or all."""
    about = CONCERNED.get(diagnosis.code)
    return list(run.tables) if run.options.tables or about is None else list(about(observation))


def asked_strategy(run: Run) -> str | None:
    """The strategy that a person chose when this run was triggered."""
    return None if run.options.strategy in ("", AUTO) else run.options.strategy


def note_unchanged(run: Run, why: str) -> None:
    """Store for the report why this run changed nothing although it had a plan."""
    run.clients.control.ledger_set(run.run_id, UNCHANGED, f"{why}: nothing was changed")


def fewer_rows(run: Run, observation: Observation) -> dict[str, int | None]:
    """Table → how many rows the sink has more than the source: at least that many will be removed from the sink.

    This is a lower bound, because rows inserted in the gap offset deleted ones; `publish` checks again with the
    verification's counts. None if either side can't be counted in time, which may mean any number (INV 36). A table
    from which nothing is removed is absent.
    """
    tables = observation.sink.tables if isinstance(observation.sink, SinkFacts) else {}
    known = {name: _fewer(run, name, facts) for name, facts in tables.items() if name in run.tables}
    return {name: rows for name, rows in known.items() if rows != 0}


def _fewer(run: Run, table: str, sink: SinkTableFacts) -> int | None:
    if not sink.exists or sink.rows == 0:
        return 0
    count = None if sink.rows is None else _count(run, table)
    return None if sink.rows is None or count is None else max(0, sink.rows - count)


def _count(run: Run, table: str) -> int | None:
    try:
        return run.clients.source.count_rows(table, COUNT_SECONDS)
    except SourceError:
        return None
