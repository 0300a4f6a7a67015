"""Read and change the open recovery (core/recovery.py) in the control document, by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable

from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import read_position


class NoRecoveryError(CdcError):
    """A step needs a recovery that is not open or belongs to another run."""


def current(run: Run) -> OpenRecovery:
    """The open recovery of this run. Raises NoRecoveryError when there is none or another run has it."""
    recovery = run.clients.control.recovery(read_position)
    if recovery is None or recovery.run_id != run.run_id:
        holder = "none is open" if recovery is None else f"the open one belongs to run {recovery.run_id}"
        raise NoRecoveryError(
            f"this run has no open recovery: {holder}", where=run.where, todo="Trigger cdc_recovery again."
        )
    return recovery


def change(run: Run, transition: Callable[[OpenRecovery], OpenRecovery]) -> OpenRecovery:
    """Apply `transition` to the current open recovery and return the result; it may be called several times."""
    return run.clients.control.change_recovery(run.run_id, transition, read_position)


def watermark_of(recovery: OpenRecovery, run: Run) -> Watermark:
    """W of the open recovery. Raises NoRecoveryError when it has not been taken yet."""
    if recovery.watermark is None:
        raise NoRecoveryError(
            "the recovery has no watermark yet", where=run.where, todo="Clear the task fence_and_watermark."
        )
    return recovery.watermark
