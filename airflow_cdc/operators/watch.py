"""Watches a pipeline without holding a worker's slot, and hands one outage to one recovery."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, Context, SkipMixin

from airflow_cdc import settings
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.operators.base import CdcOperator, end_and_skip, find_pipeline, plain
from airflow_cdc.triggers.base import State

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run

POKE_SECONDS = 60.0
WATCH_SECONDS = 3600.0


def alias_of(pipeline: str) -> AssetAlias:
    """The alias under which other DAGs can wait for a pipeline's problems."""
    return AssetAlias(f"cdc_problem__{pipeline}")


class WatchPipelineOperator(CdcOperator, SkipMixin):
    """Defer until something is wrong with the pipeline; then tell of it, and let the next task recover if the policy says so.

    An outage is told once: as an asset event (`cdc_problem__<pipeline>`, with the diagnosis) and by the task's
    notifiers. Everything after this task is skipped unless a recovery may start by itself.

    :param poke_interval: seconds between two looks.
    :param watch: seconds after which the task ends without a problem, so that the next run watches on.
    """

    inherits_from_skipmixin = True

    def __init__(self, *, poke_interval: float = POKE_SECONDS, watch: float = WATCH_SECONDS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.poke_interval = poke_interval
        self.watch = watch

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.watch import tell

        return tell(run)

    def execute(self, context: Context) -> Any:  # noqa: ARG002 - Airflow calls it so
        from airflow_cdc.triggers.watch import PipelineTrigger

        trigger = PipelineTrigger(
            pipeline=self.pipeline,
            registry=str(settings.registry_path(self.registry)),
            report_dir=settings.report_dir(self.report_dir),
            poke_interval=self.poke_interval,
            timeout=self.watch,
        )
        self.defer(trigger=trigger, method_name="told", timeout=timedelta(seconds=self.watch * 2 + 300))

    def told(self, context: Context, event: dict[str, Any]) -> Facts:
        """Resume after the trigger fired: look again on the worker, keep the outage, and say what follows."""
        if event["state"] == State.ERROR:
            raise ConfigError(event["reason"], where=f"pipeline {self.pipeline}")
        facts: Facts = {"recover": False, "new": False}
        if event["state"] in (State.PROBLEM, State.RECOVERED):
            facts = plain(self.step(self.open_run(context)))
        self.log.info("%s: %s", event["state"], event["reason"])
        if facts["new"]:
            asset = Asset(f"cdc://{self.pipeline}/problem")
            context["outlet_events"][alias_of(self.pipeline)].add(asset, extra=facts)
            self.notify(context, facts)
        after = [] if facts["recover"] else context["task"].get_flat_relatives(upstream=False)
        return end_and_skip(self, context, facts, after)

    def notify(self, context: Context, facts: Facts) -> None:
        """Tell those that the policy names. One who cannot be reached holds nothing up."""
        from airflow_cdc.notifications.webhook import PolicyNotifier

        named = find_pipeline(self.pipeline, self.registry).policy.notify
        PolicyNotifier(conn_ids=named, text=text_of(facts)).notify(context)


def text_of(facts: Mapping[str, Any]) -> str:
    """One line: what is wrong, for how long the log is kept if that is known, what follows, where to read more."""
    found, plan = facts["diagnosis"], facts["plan"]
    left = found["evidence"].get("may be purged in", "")
    does = "cdc_recovery is triggered" if facts["recover"] else "a person has to decide"
    parts = (
        f"{facts['pipeline']}: {found['code']}: {found['description']}",
        f"The stored position may be purged in {left}." if left else "",
        f"Plan: {'refused' if plan['refused'] else plan['strategy']}; {does}. See {found['runbook']}.",
    )
    return " ".join(part for part in parts if part)
