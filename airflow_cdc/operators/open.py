"""Take the lease and open the recovery, if the decision still holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc.core.errors import UsageError
from airflow_cdc.operators.base import DIAGNOSE_TASK, CdcOperator, gist, standing_decision
from airflow_cdc.operators.connector import RESTART

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run

REOPENED = "RECOVERY_OPEN"


class OpenRecoveryOperator(CdcOperator):
    """Open the recovery that was decided, as a person approved it. Running it again does not raise the epoch again.

    If a person was asked, the pipeline is observed again first: if problem, strategy or loss changed, the run stops.
    """

    def __init__(self, *, decision_task: str = DIAGNOSE_TASK, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decision_task = decision_task
        self._decision: Facts = {}

    def execute(self, context: Context) -> Facts:
        self._decision = standing_decision(context, self.decision_task)
        if not self.planned(self._decision["plan"]["strategy"]):
            raise AirflowSkipException("a restart of the connector is enough: no recovery is opened")
        return super().execute(context)

    def planned(self, strategy: str) -> bool:
        return strategy != RESTART

    def step(self, run: Run) -> Facts:
        from airflow_cdc.core.recovery import Decision
        from airflow_cdc.flows.open import open_recovery

        if self._decision["plan"]["needs_approval"]:
            self._still_true(run, self._decision)
        return open_recovery(run, Decision.from_json(self._decision))

    def _still_true(self, run: Run, decision: Facts) -> None:
        from airflow_cdc.flows.decide import decide

        now = decide(run, decision["plan"]["strategy"])
        if now["diagnosis"]["code"] == REOPENED or gist(now) == gist(decision):
            return
        raise UsageError(
            f"since the approval the plan changed: from {gist(decision)} to {gist(now)}",
            where=run.where,
            todo=f"Clear the task {self.decision_task}, to ask about the new plan.",
        )
