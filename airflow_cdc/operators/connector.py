"""Stop the connector, start it again from the written offset, or merely restart it."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc.flows import connector
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.operators.base import DIAGNOSE_TASK, CdcOperator, standing_decision

RESTART = "restart"


class StopConnectorOperator(CdcOperator):
    """Stop the connector and wait until it is STOPPED with zero tasks; it stays so until its offset is proven."""

    def step(self, run: Run) -> Facts:
        return connector.stop(run)


class ResumeConnectorOperator(CdcOperator):
    """Start the connector from the written offset; done when it streams past the watermark."""

    def step(self, run: Run) -> Facts:
        return connector.resume(run)


class RestartConnectorOperator(CdcOperator):
    """Restart a connector that failed for a passing reason; skipped unless the plan says `restart`."""

    def __init__(self, *, decision_task: str = DIAGNOSE_TASK, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decision_task = decision_task

    def execute(self, context: Context) -> Any:
        if standing_decision(context, self.decision_task)["plan"]["strategy"] != RESTART:
            raise AirflowSkipException("the plan is not a restart")
        return super().execute(context)

    def step(self, run: Run) -> Facts:
        return connector.restart(run)
