"""Keep the watermark from being purged while the chain runs, in a task of its own beside it.

A database lock lives as long as its connection, and every Airflow task is a process, so the hold is a task that keeps
running until its teardown ends it. The two communicate through the run's ledger: the teardown writes the mark of the
stop it belongs to, so a release of an earlier try never ends the hold of a later one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc.core.errors import CdcError
from airflow_cdc.operators.base import CdcOperator, decision_of

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run

STOP_TASK = "stop_connector"
RELEASED = "hold_released"
STOP_STEP = "step:stop_connector"


class HoldBinlogOperator(CdcOperator):
    """Hold the source's backup lock until the connector streams past W, `ReleaseHold` ran, or the policy's limit."""

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.hold import hold

        return hold(run, lambda: released(run))


class ReleaseHold(CdcOperator):
    """The hold's teardown: runs after the chain whether it worked or not. Use with `.as_teardown()`.

    :param stop_task: if this task did not finish in the run, there is nothing to release.
    """

    def __init__(self, *, stop_task: str = STOP_TASK, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stop_task = stop_task

    def execute(self, context: Context) -> Facts:
        if not decision_of(context, self.stop_task):
            raise AirflowSkipException("the connector was not stopped in this run, so nothing is held")
        return super().execute(context)

    def step(self, run: Run) -> Facts:
        mark = stop_mark(run)
        run.clients.control.ledger_set(run.run_id, RELEASED, mark)
        return {"released": bool(mark)}


def stop_mark(run: Run) -> str:
    """The mark that identifies this try's stop of the connector; "" before the first stop."""
    entry = run.clients.control.ledger_get(run.run_id).get(STOP_STEP) or {}
    return str(entry.get("started", ""))


def released(run: Run) -> bool:
    """True once this try's hold was released. A ledger that cannot be read does not end a hold."""
    try:
        ledger = run.clients.control.ledger_get(run.run_id)
    except CdcError:
        return False
    mark = (ledger.get(STOP_STEP) or {}).get("started")
    return bool(mark) and ledger.get(RELEASED) == mark
