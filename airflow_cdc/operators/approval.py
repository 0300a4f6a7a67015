"""Ask a person before a plan is carried out, and carry out nothing but what the person was asked about."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, Param
from airflow.sdk.definitions.param import ParamsDict

from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.strategy import STRATEGIES
from airflow_cdc.operators.base import (
    DIAGNOSE_TASK,
    asked_for,
    decision_of,
    find_pipeline,
    gist,
    open_run,
    plain,
)

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run

AS_PLANNED = "as planned"
STRATEGY = "another_strategy"
# in the run's ledger: what the person was asked about
ASKED = "asked_about"


class PlanChangedError(UsageError):
    """The plan is not the one that was asked about: nothing was changed, and a new run asks about the new one."""


class ApproveRecoveryOperator(ApprovalOperator):  # type: ignore[misc]
    """Waits for Approve or Reject if the plan says that a person is to be asked; otherwise passes at once.

    The time to answer is the pipeline's `policy.approval_timeout`; no answer is Reject, and Reject leaves everything as it
    is. No lease is held meanwhile. With the answer another strategy can be chosen. After Approve the pipeline is observed
    and planned again: if problem, strategy or loss changed, this task fails with nothing changed, and the next run asks
    about the new plan. Returns `{"approved", "decision"}`; a run triggered with `approved` has its answer already.

    :param pipeline: the pipeline's name in the registry (templated).
    :param registry: path of pipelines.yaml; default `[cdc] registry` (templated).
    :param report_dir: folder or object-storage URL of the reports; default `[cdc] report_dir` (templated).
    :param decision_task: the task whose decision is asked about.
    """

    template_fields: Collection[str] = ("subject", "body", "pipeline", "registry", "report_dir")

    def __init__(
        self,
        *,
        pipeline: str,
        registry: str | None = None,
        report_dir: str | None = None,
        decision_task: str = DIAGNOSE_TASK,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("subject", f"Recover pipeline {pipeline}?")
        # the DAG's own fields come along under `params`; this task's is told apart by its source
        form = ParamsDict(kwargs.pop("params", None))
        form[STRATEGY] = _choice()
        super().__init__(
            defaults=self.REJECT,
            ignore_downstream_trigger_rules=True,
            params=form,
            **kwargs,
        )
        self.pipeline = pipeline
        self.registry = registry
        self.report_dir = report_dir
        self.decision_task = decision_task

    def execute(self, context: Context) -> Any:
        decision = self._decision(context)
        if not decision["plan"]["needs_approval"]:
            return {"approved": "not needed", "decision": decision}
        if (context.get("params") or {}).get("approved"):
            return {"approved": "in advance, by who triggered the run", "decision": decision}
        policy = find_pipeline(self.pipeline, self.registry).policy
        self.response_timeout = timedelta(seconds=policy.approval_timeout)
        self._asked_once(self._run(context), decision)
        self.body = describe(decision)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        from airflow_cdc.flows.decide import choose_strategy, note_rejection

        run = self._run(context)
        if event.get("chosen_options") == [self.REJECT]:
            note_rejection(run, _who(event))  # first: what follows is skipped by an exception that ends the task
        answer = super().execute_complete(context, event)
        if answer["chosen_options"] != [self.APPROVE]:
            return plain(answer)
        chosen = (answer["params_input"] or {}).get(STRATEGY, AS_PLANNED)
        if chosen != AS_PLANNED:
            choose_strategy(run, chosen)
        return {"approved": f"by {_who(answer)}", "decision": self._unchanged(context, run)}

    def _decision(self, context: Context) -> Facts:
        decision = decision_of(context, self.decision_task)
        if not decision:
            raise UsageError("there is no decision to approve", todo=f"Clear the task {self.decision_task}.")
        return decision

    def _asked_once(self, run: Run, decision: Facts) -> None:
        """Airflow shows a task's question as it was first asked, also after a retry or when the task was cleared: about
        another plan this run can't ask. Raises PlanChangedError.
        """
        asked, now = run.clients.control.ledger_get(run.run_id).get(ASKED), list(gist(decision))
        if asked not in (None, now):
            raise _changed(run, asked, now)
        run.clients.control.ledger_set(run.run_id, ASKED, now)

    def _unchanged(self, context: Context, run: Run) -> Facts:
        """The decision now, if it is what the person saw. Raises PlanChangedError."""
        asked, now = self._decision(context), _decided_now(run)
        if gist(now) != gist(asked):
            raise _changed(run, gist(asked), gist(now))
        return now

    def _run(self, context: Context) -> Run:
        pipeline = find_pipeline(self.pipeline, self.registry)
        return open_run(pipeline, context["run_id"], asked_for(context, pipeline), self.report_dir)


def _decided_now(run: Run) -> Facts:
    from airflow_cdc.flows.decide import asked_strategy, decide

    return plain(decide(run, asked_strategy(run)))


def _changed(run: Run, asked: Sequence[str], now: Sequence[str]) -> PlanChangedError:
    return PlanChangedError(
        f"the plan is no longer what was asked about: {', '.join(asked)} became {', '.join(now)}; nothing was changed",
        where=run.where,
        todo=f"Trigger the run again, with the strategy {now[1]} if that is wanted: it asks about the new plan.",
    )


def _choice() -> Param:
    lines = "\n".join(f"- **{row.code}**: {row.when} Loses: {row.data_loss}." for row in STRATEGIES.values())
    return Param(
        AS_PLANNED,
        title="Another strategy",
        type="string",
        source="task",
        enum=[AS_PLANNED, *STRATEGIES],
        description_md=f"Another one than planned is asked about in the next run; this one ends.\n{lines}",
    )


def _who(answer: Mapping[str, Any]) -> str:
    user = answer.get("responded_by_user") or {}
    name = user.get("name") if isinstance(user, Mapping) else getattr(user, "name", None)
    return str(name or "nobody in time")


def describe(decision: Mapping[str, Any]) -> str:
    """The question in Markdown: what is wrong, what would be done, what it loses, and what each answer does."""
    plan, diagnosis = decision["plan"], decision["diagnosis"]
    evidence = "\n".join(f"- {key}: `{value}`" for key, value in diagnosis["evidence"].items())
    steps = "\n".join(f"1. {name}" for name in plan["steps"])
    return (
        f"**{diagnosis['code']}**: {diagnosis['description']} (observed {decision['taken_at']})\n\n{evidence}\n\n"
        f"Strategy **{plan['strategy']}** for {', '.join(decision['tables'])}. Loses: **{plan['data_loss']}**. "
        f"{plan['reason']}\n\n{steps}\n\n"
        "**Approve**: the pipeline is observed and planned again; if the plan has changed, nothing is done. "
        "**Reject**, or no answer in time: everything stays as it is."
    )
