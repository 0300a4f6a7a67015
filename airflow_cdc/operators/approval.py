"""Ask a person before anything is changed, and carry out only the plan that the person saw."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import Context, Param
from airflow.sdk.definitions.param import ParamsDict

from airflow_cdc.core.amounts import span
from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.text import printable
from airflow_cdc.decisions.diagnosis.strategy import STRATEGIES
from airflow_cdc.links import runbook_url
from airflow_cdc.names import IN_ADVANCE, NOT_NEEDED
from airflow_cdc.operators.base import (
    AGAIN,
    DIAGNOSE_TASK,
    CdcOperator,
    decision_of,
    end_and_skip,
    find_pipeline,
    gist,
    open_run_of,
    plain,
    refusal,
)
from airflow_cdc.operators.policy_approval import PolicyApprovalOperator, answered_by

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run

AS_PLANNED = "as planned"
STRATEGY = "another_strategy"
# key in the run's ledger: the plan that the person was asked about
ASKED = "asked_about"
_MARKUP = re.compile(r"([\\`*\[\]<>#|!~])")
_AGAIN_ID = re.compile(r"^(?P<first>.+?)__again(?P<count>\d+)_[a-z_]+_[0-9a-f]{8}$")


class PlanChangedError(UsageError):
    """The plan changed after the question, and no task of the DAG asks again: nothing was changed."""


class ApproveRecoveryOperator(PolicyApprovalOperator):
    """Waits for Approve or Reject if the plan needs approval; otherwise succeeds at once.

    Another strategy can be chosen with the answer. After Approve the pipeline is observed and planned again. If
    problem, strategy or loss changed, every later task is skipped except AskAgainOperator, which triggers a new run to
    ask about the new plan; in a DAG without one this task fails. It also fails if the plan is refused by now. Nothing
    is changed in any of these cases. Returns `{"approved", "decision"}`; a run triggered with `approved` needs no
    answer. Later tasks that are no step of the plan's strategy (CdcOperator.planned) are skipped without being started.

    :param report_dir: folder or object-storage URL of the reports; default `[cdc] report_dir` (templated).
    :param decision_task: the task whose decision needs approval.
    """

    template_fields: Collection[str] = (*PolicyApprovalOperator.template_fields, "report_dir")

    def __init__(
        self, *, pipeline: str, report_dir: str | None = None, decision_task: str = DIAGNOSE_TASK, **kwargs: Any
    ) -> None:
        kwargs.setdefault("subject", f"Recover pipeline {pipeline}?")
        # `params` also holds the DAG's own fields; this task's field is recognised by its source
        form = ParamsDict(kwargs.pop("params", None))
        form[STRATEGY] = _choice()
        super().__init__(pipeline=pipeline, params=form, **kwargs)
        self.report_dir = report_dir
        self.decision_task = decision_task

    def execute(self, context: Context) -> Facts:
        decision = self._decision(context)
        if not decision["plan"]["needs_approval"]:
            return self._carried_out(context, NOT_NEEDED, decision)
        if (context.get("params") or {}).get("approved"):
            return self._carried_out(context, IN_ADVANCE, decision)
        self._asked_once(context, decision)
        return self.ask(context, describe(decision), headline(decision))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Facts:
        from airflow_cdc.flows.decide import note_unchanged

        run = self.run_of(context)
        if event.get("chosen_options") == [self.REJECT]:
            # first, because skipping raises an exception that ends the task
            note_unchanged(run, f"rejected by {answered_by(event)}")
        answer = super().execute_complete(context, event)
        if answer["chosen_options"] != [self.APPROVE]:
            return plain(answer)
        chosen = (answer["params_input"] or {}).get(STRATEGY, AS_PLANNED)
        agreed = self._as_approved(context, run, chosen)
        self.note_approved(context, f"by {answered_by(answer)}")
        return self._carried_out(context, f"by {answered_by(answer)}", agreed)

    def _carried_out(self, context: Context, approved: str, decision: Facts) -> Facts:
        """Let the plan be carried out. Tasks of other strategies are skipped from here, because each would start a
        process for some seconds only to skip itself.
        """
        answer, strategy = {"approved": approved, "decision": decision}, decision["plan"]["strategy"]
        after = context["task"].get_flat_relatives(upstream=False)
        idle = [task for task in after if isinstance(task, CdcOperator) and not task.planned(strategy)]
        return end_and_skip(self, context, answer, idle)

    def _decision(self, context: Context) -> Facts:
        decision = decision_of(context, self.decision_task)
        if not decision:
            raise UsageError("there is no decision to approve", todo=f"Clear the task {self.decision_task}.")
        return decision

    def _asked_once(self, context: Context, decision: Facts) -> None:
        """Raise if this task has already asked about another plan: Airflow always shows a task's first question, even
        after a retry or after the task was cleared.
        """
        run = self.run_of(context)
        question = run.clients.control.ledger_get(run.run_id).get(ASKED)
        if question not in (None, list(gist(decision))):
            self._ask_again(context, run, question, decision, str((context.get("params") or {}).get("strategy") or ""))
        run.clients.control.ledger_set(run.run_id, ASKED, list(gist(decision)))

    def _as_approved(self, context: Context, run: Run, chosen: str) -> Facts:
        """The decision now, if it is what the person saw; otherwise this raises, and nothing is carried out."""
        from airflow_cdc.flows.decide import asked_strategy, decide

        strategy = asked_strategy(run) if chosen == AS_PLANNED else chosen
        decision, now = self._decision(context), plain(decide(run, strategy))
        if now["plan"]["refused"]:
            raise refusal(now)
        if gist(now) != gist(decision):
            self._ask_again(context, run, gist(decision), now, strategy or "")
        return now

    def _ask_again(self, context: Context, run: Run, asked: Collection[str], now: Facts, strategy: str) -> NoReturn:
        """End this run; AskAgainOperator will trigger the run that asks about `now`."""
        from airflow_cdc.flows.decide import note_unchanged
        from airflow_cdc.operators.ask_again import AskAgainOperator

        changed = f"the plan changed after the question: {', '.join(asked)} became {', '.join(gist(now))}"
        after = [task for task in context["task"].get_flat_relatives(upstream=False) if not task.is_teardown]
        skipped = [task for task in after if not isinstance(task, AskAgainOperator)]
        todo = f"Trigger the run again, with the strategy {now['plan']['strategy']} if you want it."
        refused = PlanChangedError(f"{changed}; nothing was changed", where=run.where, todo=todo)
        if skipped == after:
            raise refused
        successor = next_run_id(run.run_id, now)
        note_unchanged(run, f"{changed}; run {successor} asks about that")
        context["ti"].xcom_push(key=AGAIN, value={"run_id": successor, "conf": _form(context, run, strategy)})
        self.log.info("%s; run %s asks about that", changed, successor)
        self.skip(ti=context["ti"], tasks=skipped)
        raise refused  # `skip` raises an exception of its own, unless there is nothing to skip

    def run_of(self, context: Context) -> Run:
        return open_run_of(context, find_pipeline(self.pipeline, self.registry), self.report_dir)


def next_run_id(run_id: str, decision: Facts) -> str:
    """The id of the run that asks again after `run_id`; the same plan always gives the same id."""
    earlier = _AGAIN_ID.match(run_id)
    first, count = (earlier["first"], int(earlier["count"]) + 1) if earlier else (run_id, 1)
    digest = zlib.crc32(json.dumps(gist(decision)).encode())
    return f"{first}__again{count}_{decision['plan']['strategy']}_{digest:08x}"


def _form(context: Context, run: Run, strategy: str) -> dict[str, object]:
    """The fields of this run's form, for the run that asks again."""
    fields = {key: value for key, value in (context.get("params") or {}).items() if key != STRATEGY}
    note = f"{fields.get('note') or ''} (asks again after {run.run_id})".strip()
    chosen = {"strategy": strategy} if strategy else {}
    return {**fields, **chosen, "approved": False, "note": note}


def headline(decision: Facts) -> str:
    """One line for a notification: what is wrong, what the plan does, what it loses."""
    diagnosis, plan = decision["diagnosis"], decision["plan"]
    return (
        f"{decision['pipeline']}: {diagnosis['code']}: {diagnosis['description']} A person is asked to approve "
        f"{plan['strategy']}, which loses {plan['data_loss']}."
    )


def _choice() -> Param:
    lines = "\n".join(f"- **{row.code}**: {row.when} Loses: {row.data_loss}." for row in STRATEGIES.values())
    return Param(
        AS_PLANNED,
        title="Another strategy",
        type="string",
        source="task",
        enum=[AS_PLANNED, *STRATEGIES],
        description_md=f"If you choose another strategy, this run ends and a new one asks about that plan.\n{lines}",
    )


def describe(decision: Facts) -> str:
    """The question in Markdown: first what the answer decides (rows, time, loss), then the problem, then identifiers."""
    plan, diagnosis = decision["plan"], decision["diagnosis"]
    evidence = "\n".join(f"- {literally(key)}: {_code(value)}" for key, value in diagnosis["evidence"].items())
    steps = "\n".join(f"1. {name}" for name in plan["steps"])
    also = "".join(
        f"Also **{one['code']}**: {literally(one['description'])}\n\n" for one in diagnosis.get("others", ())
    )
    return (
        f"- Rows deleted: **{literally(_deleted(decision.get('deletes') or {}))}**\n"
        f"- Reads the source for: **{_duration(plan)}**\n"
        f"- Loses: **{plan['data_loss']}**\n\n"
        f"**{diagnosis['code']}**: {literally(diagnosis['description'])}\n\n{also}"
        f"**{plan['strategy']}** for {literally(', '.join(decision['tables']))}. {literally(plan['reason'])}\n\n"
        "**Approve**: the pipeline is observed and planned again; if the plan has changed, a new run asks about the new one. "
        "**Reject**, or no answer in time: everything stays as it is. "
        f"[Runbook of {diagnosis['code']}]({runbook_url(diagnosis['code'])})\n\n"
        f"**Steps**\n\n{steps}\n\n**Evidence** (observed {decision['taken_at']})\n\n{evidence}"
    )


def literally(text: str) -> str:
    """Another system's text in Markdown, as it is: a table's name or an error must not become a link, a heading or HTML."""
    return _MARKUP.sub(r"\\\1", " ".join(printable(str(text)).split()))


def _code(text: str) -> str:
    """A text in Markdown as code, in a fence longer than any in it."""
    plain = " ".join(printable(str(text)).split())
    fence = "`" * (1 + max((len(one) for one in re.findall(r"`+", plain)), default=0))
    space = " " if plain[:1] == "`" or plain[-1:] == "`" else ""
    return f"{fence}{space}{plain}{space}{fence}"


def _deleted(deletes: Mapping[str, int | None]) -> str:
    """The number of sink rows that will be deleted, per table; at least this many."""
    if not deletes:
        return "none expected"
    counts = (
        (table, "unknown: the rows could not be counted" if rows is None else f"at least {rows:,}")
        for table, rows in deletes.items()
    )
    return "; ".join(f"{table}: {count}" for table, count in counts)


def _duration(plan: Mapping[str, Any]) -> str:
    """How long reading the source took last time, and whether its log is kept that long."""
    if plan.get("seconds") is None:
        known = (
            "nothing is read from the source"
            if "recover" not in plan["steps"]
            else "unknown: no recovery has been timed yet"
        )
    else:
        known = f"about {span(plan['seconds'])}, like last time"
    doubt = "; the source may purge its log before that" if plan.get("fits_retention") is False else ""
    return f"{known}{doubt}"
