"""The first task of a recovery: observe, diagnose, plan; and end the run here if nothing is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseXCom, Context, SkipMixin

from airflow_cdc import metrics
from airflow_cdc.decisions.diagnosis.strategy import AUTO
from airflow_cdc.links import runbook_url
from airflow_cdc.operators.base import NONE, CdcOperator, end_and_skip, refusal

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run


class CdcDiagnoseOperator(CdcOperator, SkipMixin):
    """Observe the pipeline, name the problem, choose the strategy. Returns the decision that the later tasks carry out.

    A healthy pipeline skips every task after this one. A refused plan (UNKNOWN, or no strategy fits) fails here.

    :param strategy: the strategy to take, or `auto` (templated).
    """

    template_fields: Sequence[str] = (*CdcOperator.template_fields, "strategy")
    inherits_from_skipmixin = True

    def __init__(self, *, strategy: str = AUTO, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.strategy = strategy

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.decide import decide
        from airflow_cdc.flows.lateness import load_observation

        decision = decide(run, None if self.strategy in ("", AUTO) else self.strategy)
        if observation := load_observation(run):
            metrics.of_observation(observation)
        return decision

    def execute(self, context: Context) -> Facts:
        decision = _linked(super().execute(context))
        code, plan = decision["diagnosis"]["code"], decision["plan"]
        self.log.info("%s: %s → %s", code, decision["diagnosis"]["description"], plan["strategy"])
        if plan["refused"]:
            context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=decision)  # the report needs the decision, too
            raise refusal(decision)
        if plan["strategy"] == NONE:
            self.log.info("%s: there is nothing to do for pipeline %s, and nothing was changed", code, self.pipeline)
            return end_and_skip(self, context, decision, context["task"].get_flat_relatives(upstream=False))
        return decision


def _linked(decision: Facts) -> Facts:
    """The decision, with the runbook's URL as a browser can open it."""
    diagnosis = decision["diagnosis"]
    return {**decision, "diagnosis": {**diagnosis, "runbook": runbook_url(diagnosis["code"])}}
