"""Ask a person as the pipeline's policy requires. A module of its own, because the strategies import the whole diagnosis."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseNotifier, Context

from airflow_cdc.config import settings
from airflow_cdc.fail_fast import FailFast
from airflow_cdc.operators.base import find_pipeline, open_run_of

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run


def answered_by(answer: Mapping[str, object]) -> str:
    """The user who answered a question."""
    user = answer.get("responded_by_user") or {}
    name = user.get("name") if isinstance(user, Mapping) else getattr(user, "name", None)
    return str(name or "nobody in time")


class PolicyApprovalOperator(FailFast, ApprovalOperator):  # type: ignore[misc]
    """Approve or Reject, with the policy's time to answer and its connections to notify.

    Every connection in `policy.notify` is notified as soon as the question can be answered. No answer within
    `policy.approval_timeout` is Reject, and Reject skips everything after this task. No lease is held meanwhile.

    :param pipeline: the pipeline's name in the registry (templated).
    :param registry: path of pipelines.yaml; default `[cdc] registry` (templated).
    """

    template_fields: Collection[str] = ("subject", "body", "pipeline", "registry")
    notifiers: Sequence[BaseNotifier]

    def __init__(self, *, pipeline: str, registry: str | None = None, **kwargs: Any) -> None:
        super().__init__(defaults=self.REJECT, ignore_downstream_trigger_rules=True, **kwargs)
        self.pipeline = pipeline
        self.registry = registry

    def ask(self, context: Context, body: str, news: str) -> Facts:
        """Ask the question `body` (Markdown) and wait; `news` is the line for the notification."""
        from airflow_cdc.notifications.channels import Message, PolicyNotifier

        policy = find_pipeline(self.pipeline, self.registry).policy
        self.response_timeout = timedelta(seconds=policy.approval_timeout)
        self.body = body
        text = f"{news} Without an answer within {self.response_timeout} nothing is done. {self._link(context)}".strip()
        message = Message(text, title=f"{self.pipeline}: a recovery waits for an answer")
        self.notifiers = [*self.notifiers, PolicyNotifier(conn_ids=policy.notify, message=message)]
        answer: Facts = super().execute(context)
        return answer

    def note_approved(self, context: Context, who: str) -> None:
        """Store for the report who approved this run's plan."""
        from airflow_cdc.flows.close import APPROVED

        self.run_of(context).clients.control.ledger_set(context["run_id"], APPROVED, who)

    def run_of(self, context: Context) -> Run:
        """This DAG run over the task's pipeline. Raises ConfigError or UsageError."""
        return open_run_of(context, find_pipeline(self.pipeline, self.registry))

    def _link(self, context: Context) -> str:
        return str(self.generate_link_to_ui(task_instance=context["ti"], base_url=settings.airflow_url()))
