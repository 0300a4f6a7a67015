"""Give up an open recovery through Airflow's form, to which the page's button leads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_cdc.operators.base import CdcOperator, check_own_dags, find_pipeline, lives, open_run

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run


class AbandonRecoveryOperator(CdcOperator):
    """Give up the open recovery of `pipeline`, or only the tables that the run's form lists.

    The form's `tables` and `reason` give the scope and the reason; the audit records who triggered the run. The
    connector is left as it is, and the result shows its state.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._who = ""
        self._reason = ""
        self._tables: tuple[str, ...] = ()

    def execute(self, context: Context) -> Facts:
        params = context.get("params") or {}
        self._reason, self._tables = str(params.get("reason") or ""), tuple(params.get("tables") or ())
        self._who = str(getattr(context.get("dag_run"), "triggering_user_name", None) or "unknown")
        facts = super().execute(context)
        self.log.info("%s. %s", facts["connector"], facts["todo"])
        return facts

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.abandon import abandon

        return abandon(run, self._tables, who=self._who, reason=self._reason)

    def open_run(self, context: Context) -> Run:
        """A run without options: a table that is no longer in pipelines.yaml can be given up, too."""
        pipeline = find_pipeline(self.pipeline, self.registry)
        check_own_dags(context, pipeline)
        return open_run(
            pipeline,
            context["run_id"],
            reports=self.report_dir,
            dag_id=context["ti"].dag_id,
            lives=partial(lives, context),
        )
