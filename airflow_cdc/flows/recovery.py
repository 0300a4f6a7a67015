"""Read and change the open recovery (core/recovery.py) in the control document, by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import read_position


class NoRecoveryError(CdcError):
    """A step was asked to act for a recovery that is not open, or belongs to another run."""


def current(run: Run) -> OpenRecovery:
    """The open recovery of this run. Raises NoRecoveryError when there is none or another run has it."""
    kept = run.clients.control.state()["recovery"]
    if kept is None or kept.get("run_id") != run.run_id:
        holder = "none is open" if kept is None else f"the open one belongs to run {kept.get('run_id')}"
        raise NoRecoveryError(
            f"this run has no open recovery: {holder}", where=run.where, todo="Trigger cdc_recovery again."
        )
    return OpenRecovery.from_json(kept, read_position)


def change(run: Run, transition: Callable[[OpenRecovery], OpenRecovery]) -> OpenRecovery:
    """Change the open recovery as it stands by then, and return it; `transition` may be called several times."""

    def by(kept: Mapping[str, Any]) -> dict[str, Any]:
        return transition(OpenRecovery.from_json(kept, read_position)).to_json()

    return OpenRecovery.from_json(run.clients.control.change_recovery(run.run_id, by), read_position)


def watermark_of(recovery: OpenRecovery, run: Run) -> Watermark:
    """W of the open recovery. Raises NoRecoveryError when it has not been taken yet."""
    if recovery.watermark is None:
        raise NoRecoveryError(
            "the recovery has no watermark yet", where=run.where, todo="Clear the task fence_and_watermark."
        )
    return recovery.watermark
