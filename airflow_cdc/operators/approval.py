"""Ask a person before a plan is carried out, and ask again where the plan is no longer what was asked about."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.definitions.retry_policy import ExceptionRetryPolicy, RetryAction, RetryRule

from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.strategy import STRATEGIES
from airflow_cdc.operators.base import (
    DIAGNOSE_TASK,
    NONE,
    asked_for,
    decision_of,
    find_pipeline,
    gist,
    open_run,
    plain,
    refusal,
)

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run

AS_PLANNED = "as planned"
STRATEGY = "another_strategy"
# in the run's ledger: the time of the diagnosis whose plan changed while it was asked about
CHANGED = "plan_changed"
# each time the plan changed while the question was open is one more try of the task
ASKED_AT_MOST = 10
AT_ONCE = timedelta(seconds=1)


class PlanChangedError(UsageError):
    """The plan is not the one that was approved: the task tries again, which asks about the new one."""


class ApproveRecoveryOperator(ApprovalOperator):  # type: ignore[misc]
    """Waits for Approve or Reject if the plan says that a person is to be asked; otherwise passes at once.

    The time to answer is the pipeline's `policy.approval_timeout`; no answer is Reject, and Reject leaves everything as it
    is. No lease is held meanwhile. With the answer another strategy can be chosen. After Approve the pipeline is observed
    and planned again: if problem, strategy or loss changed, the new plan is asked about, in a new try of this task. Returns
    `{"approved", "decision"}`; a run triggered with `approved` has its answer already.

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
        again = RetryRule(PlanChangedError, action=RetryAction.RETRY, retry_delay=AT_ONCE)
        super().__init__(
            defaults=self.REJECT,
            ignore_downstream_trigger_rules=True,
            params=form,
            **{**kwargs, "retries": ASKED_AT_MOST, "retry_delay": AT_ONCE},
            retry_policy=ExceptionRetryPolicy([again], default=RetryAction.FAIL),
        )
        self.pipeline = pipeline
        self.registry = registry
        self.report_dir = report_dir
        self.decision_task = decision_task

    def execute(self, context: Context) -> Any:
        decision, again = self._decision(context)
        if decision["plan"]["strategy"] == NONE:
            self.skip(ti=context["ti"], tasks=[t for t in _after(context) if not t.is_teardown])
            return {"approved": "nothing is left to do", "decision": decision}
        if not decision["plan"]["needs_approval"]:
            return {"approved": "not needed", "decision": decision}
        if (context.get("params") or {}).get("approved"):
            return {"approved": "in advance, by who triggered the run", "decision": decision}
        policy = find_pipeline(self.pipeline, self.registry).policy
        self.response_timeout = timedelta(seconds=policy.approval_timeout)
        self.body = describe(decision, again=again)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        from airflow_cdc.flows.decide import choose_strategy, note_rejection

        answer = super().execute_complete(context, event)
        run = self._run(context)
        if answer["chosen_options"] != [self.APPROVE]:
            note_rejection(run, _who(answer))
            return plain(answer)
        chosen = (answer["params_input"] or {}).get(STRATEGY, AS_PLANNED)
        if chosen != AS_PLANNED:
            choose_strategy(run, chosen)
        return {"approved": f"by {_who(answer)}", "decision": self._unchanged(context, run)}

    def _decision(self, context: Context) -> tuple[Facts, bool]:
        """What is asked about: what was diagnosed; or, asked again because that changed, what is true by now."""
        decision = decision_of(context, self.decision_task)
        if not decision:
            raise UsageError("there is no decision to approve", todo=f"Clear the task {self.decision_task}.")
        if context["ti"].try_number == 1:
            return decision, False
        run = self._run(context)
        if run.clients.control.ledger_get(run.run_id).get(CHANGED) != decision["taken_at"]:
            return decision, False
        now = _decided_now(run)
        if now["plan"]["refused"]:
            raise refusal(now)
        return now, True

    def _unchanged(self, context: Context, run: Run) -> Facts:
        """The decision now, if it is what the person saw. Raises PlanChangedError, which leads to the next question."""
        diagnosed = decision_of(context, self.decision_task)
        before = run.clients.control.ledger_get(run.run_id).get("decision") or diagnosed
        now = _decided_now(run)
        if gist(now) != gist(before):
            run.clients.control.ledger_set(run.run_id, CHANGED, diagnosed["taken_at"])
            raise PlanChangedError(
                f"the plan is no longer what was approved: {gist(before)} became {gist(now)}",
                where=run.where,
                todo="The new plan is asked about in the next try of this task.",
            )
        return now

    def _run(self, context: Context) -> Run:
        pipeline = find_pipeline(self.pipeline, self.registry)
        return open_run(pipeline, context["run_id"], asked_for(context, pipeline), self.report_dir)


def _decided_now(run: Run) -> Facts:
    from airflow_cdc.flows.decide import asked_strategy, decide

    return plain(decide(run, asked_strategy(run)))


def _after(context: Context) -> Collection[Any]:
    return list(context["task"].get_flat_relatives(upstream=False))


def _choice() -> Param:
    lines = "\n".join(f"- **{row.code}**: {row.when} Loses: {row.data_loss}." for row in STRATEGIES.values())
    return Param(
        AS_PLANNED,
        title="Another strategy",
        type="string",
        source="task",
        enum=[AS_PLANNED, *STRATEGIES],
        description_md=f"Another one than planned is planned first, and asked about again.\n{lines}",
    )


def _who(answer: Mapping[str, Any]) -> str:
    user = answer.get("responded_by_user") or {}
    name = user.get("name") if isinstance(user, Mapping) else getattr(user, "name", None)
    return str(name or "nobody in time")


def describe(decision: Mapping[str, Any], *, again: bool = False) -> str:
    """The question in Markdown: what is wrong, what would be done, what it loses, and what each answer does."""
    plan, diagnosis = decision["plan"], decision["diagnosis"]
    evidence = "\n".join(f"- {key}: `{value}`" for key, value in diagnosis["evidence"].items())
    steps = "\n".join(f"1. {name}" for name in plan["steps"])
    return (
        f"{'**The plan changed while you were asked; this is the new one.** ' if again else ''}"
        f"**{diagnosis['code']}**: {diagnosis['description']} (observed {decision['taken_at']})\n\n{evidence}\n\n"
        f"Strategy **{plan['strategy']}** for {', '.join(decision['tables'])}. Loses: **{plan['data_loss']}**. "
        f"{plan['reason']}\n\n{steps}\n\n"
        "**Approve**: the pipeline is observed and planned again; if the plan has changed, you are asked again. "
        "**Reject**, or no answer in time: everything stays as it is."
    )
