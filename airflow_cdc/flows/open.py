"""Step 3, first half: take the lease and write the open recovery, before anything is changed (INV 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_cdc.core.diagnosis.strategy import POSITION_ONLY
from airflow_cdc.core.epochs import EVERY, SOUND_POSITION
from airflow_cdc.core.errors import ConfigError, LeaseHeldError, RecoveryOpenError
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.flows import recovery as document
from airflow_cdc.flows.capture import followed
from airflow_cdc.flows.carried import refuse_uncarried
from airflow_cdc.flows.lease import ended_by
from airflow_cdc.flows.null_defaults import require_nulls
from airflow_cdc.flows.replica import put_back
from airflow_cdc.flows.run import LEASE_SECONDS, Facts, Run, step

APPLY_ENDS_SECONDS = 300.0


@step("open_recovery")
def open_recovery(run: Run, decision: Mapping[str, Any]) -> Facts:
    """Take the lease and open (or take over) the recovery that `decision` planned.

    Safe to run again: the epoch of a recovery rises once. A recovery left open by a dead run is taken over
    with its epoch, watermark and backups. Waits for an apply under way; raises LeaseHeldError
    while another live recovery has the pipeline, SchemaError for a table that the connector filters or masks (INV 21)
    or whose values its events don't carry (INV 31), ConfigError where NULLs would arrive as defaults and the policy does
    not let the recovery set the converter.
    """
    run.pipeline.check_sink("a recovery")
    control, strategy = run.clients.control, decision["plan"]["strategy"]
    if strategy not in POSITION_ONLY:
        definitions = followed(run, list(decision["tables"]))
        require_nulls(run, definitions)
        refuse_uncarried(run, definitions.values())
    poll_until(lambda: _leased(run), timeout=APPLY_ENDS_SECONDS, interval=2.0, what="the pipeline's lease to be free")
    _frozen(run, decision)
    try:
        control.open_recovery(
            run.run_id,
            tables=list(decision["tables"]),
            problem=decision["diagnosis"]["code"],
            strategy=strategy,
            pipeline_hash=run.pipeline.hash,
            agreed=_agreed(decision),
            raises=strategy not in POSITION_ONLY,
            moves=decision["diagnosis"]["code"] not in SOUND_POSITION,
        )
    except RecoveryOpenError:
        control.update(lambda state: _taken_over(state, run.run_id), f"takeover by {run.run_id}")
    if document.recovery(run)["strategy"] in POSITION_ONLY and strategy not in POSITION_ONLY:
        put_back(run)
        control.update(lambda state: _superseded(state, decision), f"{strategy} in place of a detour")
    opened = document.recovery(run)
    return {"epoch": opened["epoch"], "tables": opened["tables"], "taken_over_from": opened.get("taken_over_from")}


def _agreed(decision: Mapping[str, Any]) -> dict[str, int]:
    """Table → how many rows a person agreed to remove. To agree to an unknown number is to agree to none (INV 36)."""
    known = decision.get("deletes") or {} if decision["plan"].get("needs_approval") else {}
    return {table: int(rows) for table, rows in known.items() if rows is not None}


def _leased(run: Run) -> bool | None:
    """The lease, or a wait for its holder: an apply under way lets it go in a moment."""
    try:
        run.clients.control.acquire(run.run_id, LEASE_SECONDS, dag_id=run.dag_id, ended=ended_by(run.lives))
    except LeaseHeldError as held:
        if run.clients.control.state()["recovery"] is not None:
            raise  # another recovery, and that one lives
        raise NotYet(str(held)) from held
    return True


def _taken_over(state: dict[str, Any], run_id: str) -> dict[str, Any] | None:
    """The open recovery under this run's name: same epoch, W, fence and backups; its old run has lost the lease."""
    found = state["recovery"]
    if found is None or found["run_id"] == run_id:
        return None
    mine = {**state["ledger"].get(run_id, {}), "epoch": found["epoch"]}
    taken = {**found, "run_id": run_id, "taken_over_from": found["run_id"]}
    return {**state, "recovery": taken, "ledger": {**state["ledger"], run_id: mine}}


def _superseded(state: dict[str, Any], decision: Mapping[str, Any]) -> dict[str, Any] | None:
    """The undone detour as a recovery that reads: a new epoch, and nothing of the detour but its backup of the offset."""
    found = state["recovery"]
    if found["strategy"] not in POSITION_ONLY:
        return None
    kept = (
        "run_id",
        "opened_at",
        "pipeline_hash",
        "taken_over_from",
        "offset_partition",
        "offset_before",
        "history_doubted",
    )
    epoch = state["epoch"] + 1
    opened = {
        **{key: found[key] for key in kept if key in found},
        "epoch": epoch,
        "tables": list(decision["tables"]),
        "problem": decision["diagnosis"]["code"],
        "strategy": decision["plan"]["strategy"],
        "agreed": _agreed(decision),
    }
    run_id = found["run_id"]
    mine = {**state["ledger"].get(run_id, {}), "epoch": epoch}
    return {
        **state,
        "epoch": epoch,
        "epochs": {EVERY: epoch},
        "recovery": opened,
        "ledger": {**state["ledger"], run_id: mine},
    }


def _frozen(run: Run, decision: Mapping[str, Any]) -> None:
    """The definition that was diagnosed is the one that is recovered."""
    if decision["pipeline_hash"] != run.pipeline.hash:
        raise ConfigError(
            "pipelines.yaml changed since the diagnosis of this run",
            where=run.where,
            todo="Clear the task diagnose, so that the plan is made for the new definition.",
        )
