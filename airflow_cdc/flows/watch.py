"""Watching a pipeline: one look at a time, and the alerts that follow from it.

Open outages are stored in the control table, so that a watch, which ends every hour and starts again, reports each
once and triggers one recovery for it. While the control table cannot be read or written, the watch uses its own
copy (see OutageLog.version).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_cdc.alerting.circuit import Circuits
from airflow_cdc.alerting.outage import (
    RECOVERY_OPEN,
    Alert,
    Outage,
    OutageLog,
    Progress,
    Sighting,
    Status,
    advance,
    notified,
)
from airflow_cdc.core.codec import plain
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import foreseen
from airflow_cdc.core.observation import ControlFacts, Observation, Unknown
from airflow_cdc.core.problem import Rules
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis, diagnose
from airflow_cdc.decisions.diagnosis.strategy import STRATEGIES, Plan, make_plan
from airflow_cdc.flows.observe import observe, store_observation
from airflow_cdc.flows.run import Facts, Run, now_iso
from airflow_cdc.kinds import rules_for
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import LASTING

log = logging.getLogger("airflow_cdc.watch")

LEDGER = f"{LASTING}watch"
LOG_KEY = "log"
# limit for all reads of a look together; watching a connector that seems stuck takes extra time
LOOK_SECONDS = 20.0
# how much the clocks of two machines may differ before a watch takes a live recovery for one that nobody works on
CLOCKS_DIFFER = 600.0
# an open recovery belongs to the run that opened it, or to the person who clears that run
_NOT_OURS = frozenset({RECOVERY_OPEN})
# the only warning with a deadline: the others stay until somebody changes a setting, and are not repeated
_RUNS_OUT = frozenset({"AT_RISK"})
_WARNING = ("none",)

_circuits = Circuits()


@dataclass(frozen=True, slots=True)
class Look:
    """One look: what was read, what it means, and what follows for the open outages.

    Attributes:
        outage: the open outage that this look belongs to; None for a healthy pipeline.
        recover: a recovery may start by itself now: the policy says so, the plan is not refused, and none was
            triggered for this outage.
    """

    observation: Observation
    diagnosis: Diagnosis
    plan: Plan
    progress: Progress
    outage: Outage | None
    recover: bool

    @property
    def due(self) -> bool:
        """Whether there is an alert to send or a recovery to trigger."""
        return bool(self.progress.alerts) or self.recover

    @property
    def firing(self) -> bool:
        """Whether there is a current problem to report or recover, rather than a resolved one."""
        return self.recover or any(alert.status is Status.FIRING for alert in self.progress.alerts)


def limited(run: Run) -> Run:
    """The run with limits on its calls and behind the circuits that all watches of this process share."""
    return replace(run, clients=run.clients.limited(CallLimits(), _circuits))


def look(run: Run, carried: OutageLog | None = None, at: str = "") -> Look:
    """Observe and diagnose once, and store the result for the page. An unreadable part is UNKNOWN and raises nothing.

    `carried` is the caller's log from earlier looks; the newer of it and the control table's log is used. `at` is the
    time of the look (ISO); now if empty. Changes that need no alert are stored at once.
    """
    rules = rules_for(run.pipeline)
    observation, diagnosis, plan = _judged(run, rules)
    store_observation(run, observation, diagnosis)
    readable = isinstance(observation.control, ControlFacts)
    before = load_log(run, carried or OutageLog(), readable)
    sighting = sighting_of(observation, diagnosis, at or now_iso(), silenced=silenced(run, diagnosis.code, at))
    progress = advance(run.pipeline.name, before, sighting, run.pipeline.policy.alert, rules.ranks)
    outage = progress.log.of(sighting)
    current = Look(observation, diagnosis, plan, progress, outage, _may_recover(run, diagnosis, plan, outage))
    if readable and progress.log is not before and not current.due:
        save_log(run, progress.log)
    return current


def _judged(run: Run, rules: Rules) -> tuple[Observation, Diagnosis, Plan]:
    """What was read, with its diagnosis and plan. Facts that the decisions can't handle are Unknown, and alerted as such."""
    control: ControlFacts | Unknown = Unknown("not read")
    try:
        observation = observe(run, within=LOOK_SECONDS)
        control = observation.control
        diagnosis = diagnose(observation, rules)
        return observation, diagnosis, make_plan(diagnosis, run.pipeline.policy, observation, rules)
    except Exception as error:
        reason = Unknown(str(foreseen(error, "judging what was read")))
        unknown = Observation(run.pipeline, now_iso(), reason, reason, reason, reason, control, reason)
        diagnosis = diagnose(unknown, rules)
        return unknown, diagnosis, make_plan(diagnosis, run.pipeline.policy, unknown, rules)


def silenced(run: Run, code: str, at: str = "") -> bool:
    """Whether a person has silenced this problem. If that cannot be read, it is not silenced."""
    try:
        return ReportStore(run.report_dir).silence(run.pipeline.name, code, at or now_iso()) is not None
    except Exception as error:
        reason = foreseen(error, "reading the report folder")
        log.warning("%s: could not read whether somebody acknowledged the problem: %s", run.where, reason)
        return False


def sighting_of(observation: Observation, diagnosis: Diagnosis, at: str, *, silenced: bool = False) -> Sighting:
    """The result of a look, as far as outages are concerned."""
    control = observation.control
    known = control if isinstance(control, ControlFacts) else None
    return Sighting(
        code=diagnosis.code,
        epoch=known.epoch if known else None,
        at=at,
        attended=diagnosis.code == RECOVERY_OPEN and known is not None and _at_work(known, at),
        standing=diagnosis.strategies == _WARNING and diagnosis.code not in _RUNS_OUT,
        silenced=silenced,
    )


def _at_work(control: ControlFacts, at: str) -> bool:
    """Whether the run that opened the recovery still holds the lease, which it renews as long as it is alive.

    The lease's time is of the run's machine and `at` of ours, so it counts for CLOCKS_DIFFER seconds more (INV 46).
    """
    lease, recovery = control.lease, control.recovery
    if lease is None or recovery is None or lease.owner != recovery.run_id:
        return False
    return lease.looks_attended(datetime.fromisoformat(at), CLOCKS_DIFFER)


def _may_recover(run: Run, diagnosis: Diagnosis, plan: Plan, outage: Outage | None) -> bool:
    if outage is None or outage.recovery or diagnosis.code in _NOT_OURS:
        return False
    return run.pipeline.policy.recover_automatically and not plan.refused and STRATEGIES[plan.strategy].changes


def tell(run: Run, carried: OutageLog | None = None, at: str = "") -> Facts:
    """Look again, store the alerts that are due, and return what to do about them.

    Returns `{"pipeline", "outage", "alerts", "diagnosis", "plan", "recover", "recovery_run_id", "outages"}`: `alerts`
    are the messages due now, `recover` says whether to trigger the recovery `recovery_run_id`. Alerts are stored before
    they are sent: a task that dies in between is silent until the alert repeats, and never triggers a second recovery.
    """
    moment = at or now_iso()
    current = look(run, carried, moment)
    outages, alerts, outage = current.progress.log, current.progress.alerts, current.outage
    if current.recover and outage is not None:
        outage = replace(outage, recovery=outage.run_id(run.pipeline.name))
        quiet = silenced(run, outage.code, moment)
        outages, alerts = (
            (outages.with_outage(outage), alerts) if quiet else _with_recovery(run, outages, alerts, outage, moment)
        )
    if current.due and isinstance(current.observation.control, ControlFacts):
        save_log(run, outages)
    return {
        "pipeline": run.pipeline.name,
        "outage": outage.name if outage else "",
        "alerts": [alert.to_json() for alert in alerts],
        "diagnosis": plain(current.diagnosis),
        "plan": plain(current.plan),
        "recover": current.recover,
        "recovery_run_id": outage.recovery if outage else "",
        "outages": plain(outages),
    }


def _with_recovery(
    run: Run, outages: OutageLog, alerts: tuple[Alert, ...], outage: Outage, at: str
) -> tuple[OutageLog, tuple[Alert, ...]]:
    """The log and the alerts for an outage that now has a recovery; if it was already reported, so is the recovery."""
    resolved = tuple(alert for alert in alerts if alert.status is Status.RESOLVED)
    changed = outage if len(resolved) < len(alerts) else notified(outage, at)
    return outages.with_outage(changed), (*resolved, Alert(Status.FIRING, run.pipeline.name, changed, at))


def load_log(run: Run, carried: OutageLog, readable: bool) -> OutageLog:
    """The newer of the carried log and the control table's log, if that is `readable`."""
    if not readable:
        return carried
    try:
        stored = OutageLog.from_json(run.clients.control.ledger_get(LEDGER).get(LOG_KEY))
    except Exception as error:
        reason = foreseen(error, "reading the control table")
        log.warning("%s: the reported outages could not be read from the control table: %s", run.where, reason)
        return carried
    return max(stored, carried, key=lambda one: one.version)


def save_log(run: Run, outages: OutageLog) -> None:
    """Store the log. If that fails, the watch continues with its own copy, which Airflow keeps in XCom."""
    try:
        run.clients.control.ledger_set(LEDGER, LOG_KEY, plain(outages))
    except Exception as error:
        reason = foreseen(error, "writing the control table")
        log.warning("%s: the open outages could not be stored in the control table: %s", run.where, reason)


def carried_log(facts: Mapping[str, object] | None) -> OutageLog:
    """The log in the result of an earlier watch."""
    value = (facts or {}).get("outages")
    return OutageLog.from_json(value if isinstance(value, Mapping) else None)
