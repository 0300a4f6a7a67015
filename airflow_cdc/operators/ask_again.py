"""Triggers a new run when the plan changed after approval. A module of its own, because importing Airflow's models is slow."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc.operators.base import AGAIN, APPROVE_TASK


class AskAgainOperator(TriggerDagRunOperator):  # type: ignore[misc]
    """Trigger a run that asks about the new plan, if it changed after the question (see ApproveRecoveryOperator).

    Put it after the tasks that carry the plan out, with `trigger_rule="all_skipped"`: if a plan is carried out, Airflow
    then skips it without starting it. If cleared, it does not trigger a second run that would ask the same question.

    :param approve_task: the task that asked.
    """

    def __init__(self, *, approve_task: str = APPROVE_TASK, **kwargs: Any) -> None:
        kwargs = {"trigger_dag_id": "{{ dag.dag_id }}", "skip_when_already_exists": True, **kwargs}
        super().__init__(**kwargs)
        self.approve_task = approve_task

    def execute(self, context: Context) -> object:
        again = context["ti"].xcom_pull(task_ids=self.approve_task, key=AGAIN)
        if not again:
            raise AirflowSkipException("the plan did not change while a person was asked")
        self.trigger_run_id, self.conf = again["run_id"], again["conf"]
        return super().execute(context)
