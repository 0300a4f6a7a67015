"""Watching a pipeline: which outage it is, and whether it was told of already.

An outage is a problem at a stored position in an epoch. What was told is kept in the control table, so that a watch that
ends and begins again, as watches do, tells of it once and triggers one recovery for it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from airflow_cdc.core.diagnosis import Diagnosis, diagnose
from airflow_cdc.core.evidence import connector_of
from airflow_cdc.core.observation import ControlFacts, Observation
from airflow_cdc.core.stored import LASTING
from airflow_cdc.core.strategy import STRATEGIES, make_plan
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.remember import remember
from airflow_cdc.flows.run import Facts, Run, now_iso

LEDGER = f"{LASTING}watch"
_OUTAGE = "outage"
HEALTHY, UNKNOWN = "HEALTHY", "UNKNOWN"
# a recovery that is open belongs to the run that opened it, or to the person who clears that run
_NOT_OURS = frozenset({"RECOVERY_OPEN"})


@dataclass(frozen=True, slots=True)
class Seen:
    """One look: the diagnosis, the outage's name ("" when there is none), and whether that was told already."""

    observation: Observation
    diagnosis: Diagnosis
    outage: str
    told: str

    @property
    def new(self) -> bool:
        """Whether something is wrong that nobody was told of."""
        return self.diagnosis.code not in (HEALTHY, UNKNOWN) and self.outage != self.told

    @property
    def over(self) -> bool:
        """Whether an outage that was told of is over."""
        return self.diagnosis.code == HEALTHY and bool(self.told)


def look(run: Run) -> Seen:
    """Observe and diagnose once, and keep it for the page. Raises nothing for what can't be read: that is UNKNOWN."""
    seen = observe(run)
    diagnosis = diagnose(seen)
    remember(run, seen, diagnosis)
    told = str(run.clients.control.ledger_get(LEDGER).get(_OUTAGE) or "")
    return Seen(seen, diagnosis, outage_of(seen, diagnosis), told)


def outage_of(seen: Observation, diagnosis: Diagnosis) -> str:
    """The outage's name: the same for the same problem at the same position in the same epoch; "" for none."""
    if diagnosis.code in (HEALTHY, UNKNOWN):
        return ""
    connector, control = connector_of(seen), seen.control
    at = sorted((connector.offset or {}).items()) if connector else []
    place = [entry for entry in at if entry[0] in ("file", "pos", "gtids")]
    epoch = control.epoch if isinstance(control, ControlFacts) else 0
    mark = hashlib.sha256(f"{epoch}|{place}".encode()).hexdigest()[:12]
    return f"{diagnosis.code.lower()}_{mark}"


def tell(run: Run) -> Facts:
    """Look again, keep what was told, and say what is to be done about it.

    Returns `{"pipeline", "outage", "diagnosis", "plan", "recover"}`; `recover` is whether the policy lets a recovery
    start by itself. An outage that passed since is told as what stands now.
    """
    seen = look(run)
    plan = make_plan(seen.diagnosis, run.pipeline.policy, seen.observation)
    if seen.new or seen.over:
        run.clients.control.ledger_set(LEDGER, _OUTAGE, seen.outage)
        run.clients.control.ledger_set(LEDGER, "told_at", now_iso())
    able = not plan.refused and STRATEGIES[plan.strategy].changes and seen.diagnosis.code not in _NOT_OURS
    return {
        "pipeline": run.pipeline.name,
        "outage": seen.outage,
        "new": seen.new,
        "diagnosis": seen.diagnosis.to_json(),
        "plan": plan.to_json(),
        "recover": seen.new and able and run.pipeline.policy.recover_automatically,
    }
