"""Ask a person before a plan that loses or removes rows is carried out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

from airflow_cdc.core.errors import UsageError
from airflow_cdc.operators.base import DIAGNOSE_TASK, decision_of, find_pipeline


class ApproveRecoveryOperator(ApprovalOperator):  # type: ignore[misc]
    """Waits for Approve or Reject if the plan says that a person is to be asked; otherwise passes at once.

    The time to answer is the pipeline's `policy.approval_timeout`; no answer is Reject. No lease is held meanwhile.
    A run triggered with `approved` has its answer already.

    :param pipeline: the pipeline's name in the registry (templated).
    :param decision_task: the task whose decision is asked about.
    """

    template_fields: Collection[str] = ("subject", "body", "pipeline", "registry")

    def __init__(
        self, *, pipeline: str, registry: str | None = None, decision_task: str = DIAGNOSE_TASK, **kwargs: Any
    ) -> None:
        kwargs.setdefault("subject", f"Recover pipeline {pipeline}?")
        super().__init__(defaults=self.REJECT, ignore_downstream_trigger_rules=True, **kwargs)
        self.pipeline = pipeline
        self.registry = registry
        self.decision_task = decision_task

    def execute(self, context: Context) -> Any:
        decision = decision_of(context, self.decision_task)
        if not decision:
            raise UsageError("there is no decision to approve", todo=f"Clear the task {self.decision_task}.")
        if not decision["plan"]["needs_approval"]:
            return {"approved": "not needed"}
        if (context.get("params") or {}).get("approved"):
            return {"approved": "in advance, by who triggered the run"}
        policy = find_pipeline(self.pipeline, self.registry).policy
        self.response_timeout = timedelta(seconds=policy.approval_timeout)
        self.body = describe(decision)
        return super().execute(context)


def describe(decision: Mapping[str, Any]) -> str:
    """The question in Markdown: what is wrong, what would be done, what it loses."""
    plan, diagnosis = decision["plan"], decision["diagnosis"]
    evidence = "\n".join(f"- {key}: `{value}`" for key, value in diagnosis["evidence"].items())
    return (
        f"**{diagnosis['code']}**: {diagnosis['description']}\n\n{evidence}\n\n"
        f"Strategy **{plan['strategy']}**. Loses: **{plan['data_loss']}**. {plan['reason']}\n\n"
        "After the answer the pipeline is observed again; if the plan has changed by then, the run stops."
    )
