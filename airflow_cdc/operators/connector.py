"""Stop the connector, start it from the written offset, move it to a replica and back, or only restart it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc.decisions.diagnosis.strategy import DETOUR, POSITION_ONLY
from airflow_cdc.operators.base import DIAGNOSE_TASK, CdcOperator, decision_of, standing_decision

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run

RESTART = "restart"


class StopConnectorOperator(CdcOperator):
    """Stop the connector and wait until it is STOPPED with zero tasks; it stays so until its offset is proven.

    Skipped, together with the snapshot's tasks, if the plan moves only the position.
    """

    def __init__(self, *, decision_task: str = DIAGNOSE_TASK, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decision_task = decision_task

    def execute(self, context: Context) -> Facts:
        # in a custom DAG there may be no decision: then it stops the connector
        if decision_of(context, self.decision_task) and not self.planned(_strategy(context, self.decision_task)):
            raise AirflowSkipException("the plan reads no table")
        return super().execute(context)

    def planned(self, strategy: str) -> bool:
        return strategy not in POSITION_ONLY

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows import connector

        return connector.stop(run)


class ResumeConnectorOperator(CdcOperator):
    """Start the connector from the written offset; done when it streams past the watermark."""

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows import connector

        return connector.resume(run)


class PlannedOperator(CdcOperator):
    """A step of some strategies: skipped with the reason `otherwise` unless the plan's is in `strategies`."""

    strategies: ClassVar[frozenset[str]]
    otherwise: ClassVar[str]

    def __init__(self, *, decision_task: str = DIAGNOSE_TASK, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decision_task = decision_task

    def execute(self, context: Context) -> Facts:
        if not self.planned(_strategy(context, self.decision_task)):
            raise AirflowSkipException(self.otherwise)
        return super().execute(context)

    def planned(self, strategy: str) -> bool:
        return strategy in self.strategies


class RestartConnectorOperator(PlannedOperator):
    """Restart a connector that failed for a passing reason; skipped unless the plan says `restart`."""

    strategies = frozenset({RESTART})
    otherwise = "the plan is not a restart"

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows import connector

        return connector.restart(run)


class DetourConnectorOperator(PlannedOperator):
    """Let the connector read from a replica what the source has purged; skipped unless the plan says `replica_detour`."""

    strategies = frozenset({DETOUR})
    otherwise = "the plan is not a detour"

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows import replica as detour

        return detour.detour(run)


class ReturnConnectorOperator(PlannedOperator):
    """Let the connector continue at the source, from where it has read; skipped unless the plan moves only the position.

    Use with `trigger_rule="none_failed"`: after a failover there is no detour before it.
    """

    strategies = POSITION_ONLY
    otherwise = "the plan moves more than the position"

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows import replica as detour

        return detour.return_to_source(run)


def _strategy(context: Context, decision_task: str) -> str:
    """The strategy of this run. Raises UsageError if no decision was made."""
    return str(standing_decision(context, decision_task)["plan"]["strategy"])
