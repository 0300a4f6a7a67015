"""Watches a pipeline without holding a worker's slot, and starts at most one recovery per outage."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, cast

from airflow.sdk import Asset, AssetAlias, Context, SkipMixin

from airflow_cdc.alerting.outage import UNKNOWN, Status
from airflow_cdc.alerting.severity import Severity
from airflow_cdc.alerting.text import Situation, text_of
from airflow_cdc.config import settings
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.links import runbook_url
from airflow_cdc.operators.base import CdcOperator, end_and_skip, find_pipeline, plain
from airflow_cdc.triggers.base import State

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run
    from airflow_cdc.notifications.channels import Message

POKE_SECONDS = 60.0
WATCH_SECONDS = 3600.0
TOLD_AT_TRY = 2


def alias_of(pipeline: str) -> AssetAlias:
    """The alias under which other DAGs can wait for a pipeline's problems."""
    return AssetAlias(f"cdc_problem__{pipeline}")


class WatchPipelineOperator(CdcOperator, SkipMixin):
    """Defer until there is something to report, report it, and let the next task recover if the policy says so.

    An outage is one problem code in one epoch. The connections in `policy.notify` are alerted when it begins, after each
    `policy.alert.repeat_interval`, and when it is over; its beginning and end are also asset events
    (`cdc_problem__<pipeline>`, with the alert, the diagnosis and the plan). Everything after this task is skipped unless
    a recovery may start by itself, which can happen once per outage.

    A watch that itself breaks is retried, and the same connections are told: at the second attempt, and when none is left.

    :param poke_interval: seconds between two checks.
    :param watch: seconds after which the task ends without a problem, so that the next run watches on.
    """

    inherits_from_skipmixin = True

    def __init__(self, *, poke_interval: float = POKE_SECONDS, watch: float = WATCH_SECONDS, **kwargs: Any) -> None:
        for callback in ("on_retry_callback", "on_failure_callback"):
            theirs = kwargs.get(callback) or []
            kwargs[callback] = [*(theirs if isinstance(theirs, list | tuple) else [theirs]), tell_broken_watch]
        super().__init__(**kwargs)
        self.poke_interval = poke_interval
        self.watch = watch
        self.outages: dict[str, object] | None = None

    def step(self, run: Run) -> Facts:
        from airflow_cdc.alerting.outage import OutageLog
        from airflow_cdc.flows.watch import tell

        return tell(run, OutageLog.from_json(self.outages))

    def open_run(self, context: Context) -> Run:
        """The run of this task; its calls have the same time limits as the trigger's."""
        from airflow_cdc.flows.watch import limited

        return limited(super().open_run(context))

    def execute(self, context: Context) -> NoReturn:
        from airflow_cdc.triggers.watch import PipelineTrigger

        trigger = PipelineTrigger(
            pipeline=self.pipeline,
            registry=str(settings.registry_path(self.registry)),
            report_dir=settings.report_dir(self.report_dir),
            poke_interval=self.poke_interval,
            timeout=self.watch,
            outages=self._carried(context),
        )
        self.defer(trigger=trigger, method_name="told", timeout=timedelta(seconds=self.watch * 2 + 300))

    def _carried(self, context: Context) -> dict[str, object] | None:
        """The previous watch's open outages, used if the control table is older or unreadable."""
        ti = context["ti"]
        # without the index, XCom returns the results of all earlier runs, a list that grows for ever
        result = ti.xcom_pull(task_ids=self.task_id, include_prior_dates=True, map_indexes=ti.map_index)
        return result.get("outages") if isinstance(result, dict) else None

    def told(self, context: Context, event: dict[str, Any]) -> Facts:
        """Resume after the trigger fired: check again on the worker, store the outages, notify, return what follows."""
        if event["state"] == State.ERROR:
            raise ConfigError(
                event["reason"],
                where=f"pipeline {self.pipeline}",
                todo="Correct the pipeline's definition, then clear the task.",
            )
        self.outages = event.get("outages")
        facts: Facts = {"recover": False, "alerts": [], "outages": self.outages}
        if event["state"] in (State.PROBLEM, State.RECOVERED):
            facts = plain(self.step(self.open_run(context)))
        self.log.info("%s: %s", event["state"], event["reason"])
        for alert in facts["alerts"]:
            self.publish(context, facts, alert)
        after = [] if facts["recover"] else context["task"].get_flat_relatives(upstream=False)
        return end_and_skip(self, context, facts, after)

    def publish(self, context: Context, facts: Facts, alert: dict[str, Any]) -> None:
        """An asset event for an outage's beginning and end, and a message to the policy's connections."""
        if alert["notification"] == 1 or alert["status"] == Status.RESOLVED:
            asset = Asset(f"cdc://{self.pipeline}/problem")
            extra = {key: facts[key] for key in ("pipeline", "diagnosis", "plan", "recover")}
            context["outlet_events"][alias_of(self.pipeline)].add(asset, extra={**alert, **extra})
        self.notify(context, message_of(alert, facts))

    def notify(self, context: Context, message: Message) -> None:
        """Notify the policy's connections. One that cannot be reached delays nothing."""
        from airflow_cdc.notifications.channels import PolicyNotifier

        conn_ids = find_pipeline(self.pipeline, self.registry).policy.notify
        PolicyNotifier(conn_ids=conn_ids, message=message).notify(context)


def tell_broken_watch(context: Context) -> None:
    """Tell the policy's connections that nobody watches this pipeline now, and why: its other alerts come from the watch.

    The first failure is often a worker or a triggerer that was restarted, so the second one is told, and the last.
    """
    from airflow_cdc.core.errors import foreseen
    from airflow_cdc.notifications.channels import Message

    ti, task, error = context["ti"], cast("WatchPipelineOperator", context["task"]), context.get("exception")
    last = ti.try_number > (task.retries or 0)
    if ti.try_number != TOLD_AT_TRY and not last:
        return
    reason = str(foreseen(error, "the watch")) if isinstance(error, Exception) else str(error or "its trigger ended")
    follows = "The next run of its DAG begins to watch again." if last else "It is tried again by itself."
    text = f"{task.pipeline}: nobody watches it now, because the watch itself failed: {reason} {follows}"
    message = Message(
        text,
        f"{task.pipeline}: the watch failed",
        Severity.ERROR,
        key=f"{task.pipeline}:watch",
        link=runbook_url(UNKNOWN),
    )
    task.notify(context, message)


def message_of(alert: dict[str, Any], facts: Facts) -> Message:
    """The message of an alert: one incident per deduplication key, closed when the alert is resolved."""
    from airflow_cdc.notifications.channels import Message

    resolved = alert["status"] == Status.RESOLVED
    link = runbook_url(alert["code"])
    return Message(
        text=text_of(Situation.from_json(alert, facts), link),
        title=f"{alert['pipeline']}: {'resolved: ' if resolved else ''}{alert['code']}",
        severity=Severity(alert["severity"]),
        key=alert["dedup_key"],
        resolved=resolved,
        link=link,
    )
