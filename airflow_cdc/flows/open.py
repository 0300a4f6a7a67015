"""Step 3, first half: take the lease and write the open recovery, before anything is changed (INV 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.flows.run import Facts, Run, now_iso, step

LEASE_SECONDS = 900  # renewed by every step; a dead run frees the pipeline after this long


@step("open_recovery")
def open_recovery(run: Run, decision: Mapping[str, Any]) -> Facts:
    """Take the lease and open (or take over) the recovery that `decision` planned.

    Safe to run again: the epoch of a recovery rises once. A recovery left open by a dead run is taken over
    with its epoch, watermark and backups. Raises LeaseHeldError while another live run has the pipeline.
    """
    control = run.clients.control
    control.acquire(run.run_id, LEASE_SECONDS)
    _frozen(run, decision)
    epoch = control.open_recovery(
        run.run_id,
        tables=list(decision["tables"]),
        problem=decision["diagnosis"]["code"],
        strategy=decision["plan"]["strategy"],
        pipeline_hash=run.pipeline.hash,
        opened_at=now_iso(),
    )
    return {"epoch": epoch, "tables": list(decision["tables"])}


def _frozen(run: Run, decision: Mapping[str, Any]) -> None:
    """The definition that was diagnosed is the one that is recovered."""
    if decision["pipeline_hash"] != run.pipeline.hash:
        raise ConfigError(
            "pipelines.yaml changed since the diagnosis of this run",
            where=run.where,
            todo="Clear the task diagnose, so that the plan is made for the new definition.",
        )
