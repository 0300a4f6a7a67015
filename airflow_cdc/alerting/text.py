"""An alert in words: which pipeline, what it means, since when, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_cdc.alerting.outage import HEALTHY, UNKNOWN, Status, seconds_between
from airflow_cdc.core.amounts import span

_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Situation:
    """An alert, and what the look behind it showed about the pipeline.

    Attributes:
        key: what receivers group by. since, over_since, at: ISO times; over_since is "" while the problem holds.
        notification: the number of this message within the outage. recovery: the run id of its recovery; "" if none.
        diagnosis: the code of the look's diagnosis, with its description and its evidence.
        recover: whether a recovery is triggered now.
    """

    pipeline: str
    status: str
    code: str
    key: str
    since: str
    over_since: str
    at: str
    notification: int
    recovery: str
    diagnosis: str
    description: str
    evidence: Mapping[str, str]
    strategy: str
    refused: bool
    reason: str
    recover: bool
    others: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, alert: Mapping[str, Any], facts: Mapping[str, Any]) -> Situation:
        """From an alert (Alert.to_json) and the facts of the step that made it (`diagnosis`, `plan`, `recover`)."""
        diagnosis, plan = facts["diagnosis"], facts["plan"]
        return cls(
            pipeline=alert["pipeline"],
            status=alert["status"],
            code=alert["code"],
            key=alert["dedup_key"],
            since=alert["since"],
            over_since=alert["over_since"],
            at=alert["at"],
            notification=alert["notification"],
            recovery=alert["recovery_run_id"],
            diagnosis=diagnosis["code"],
            description=diagnosis["description"],
            evidence=diagnosis["evidence"],
            others=tuple(other["code"] for other in diagnosis.get("others", ())),
            strategy=plan["strategy"],
            refused=bool(plan["refused"]),
            reason=plan["reason"],
            recover=bool(facts["recover"]),
        )

    @property
    def lasted(self) -> str:
        """How long the problem has held, or did hold."""
        return span(max(0.0, seconds_between(self.since, self.over_since or self.at)))

    @property
    def unread(self) -> str:
        """Which parts could not be read and why, shortened."""
        reasons = "; ".join(f"{part}: {why}" for part, why in self.evidence.items())
        return reasons if len(reasons) <= _SHOWN else f"{reasons[: _SHOWN - 1]}…"


def text_of(now: Situation, runbook: str) -> str:
    """One paragraph for people. `runbook`: the address of the instructions."""
    parts = _resolved(now) if now.status == Status.RESOLVED else _firing(now, runbook)
    return " ".join(part for part in (*parts, f"[{now.key}]") if part)


def _firing(now: Situation, runbook: str) -> tuple[str, ...]:
    still = "still " if now.notification > 1 else ""
    left = now.evidence.get("may be purged in", "")
    return (
        f"{now.pipeline}: {still}{now.code} since {_clock(now.since)} ({now.lasted}):",
        now.description,
        now.unread if now.code == UNKNOWN else "",
        f"The stored position may be purged in {left}." if left else "",
        f"Also: {', '.join(dict.fromkeys(now.others))}." if now.others else "",
        f"What follows: {_follows(now)}",
        f"See {runbook}.",
        f"This is notification {now.notification}." if still else "",
    )


def _resolved(now: Situation) -> tuple[str, ...]:
    began, ended = _clock(now.since), _clock(now.over_since or now.at)
    state = "The pipeline is healthy." if now.diagnosis == HEALTHY else f"The diagnosis is now {now.diagnosis}."
    same = (
        "The problem persists in a new epoch, which is reported as an outage of its own."
        if now.diagnosis == now.code
        else ""
    )
    return (f"{now.pipeline}: resolved: {now.code}, from {began} to {ended} ({now.lasted}).", same or state)


def _follows(now: Situation) -> str:
    if now.recover:
        return f"cdc_recovery is triggered as {now.recovery} ({now.strategy})."
    if now.recovery:
        return (
            f"nothing automatic: the recovery {now.recovery} was already triggered for this outage; check its result."
        )
    if now.code == UNKNOWN:
        return "every look tries again; a person has to find out why the pipeline cannot be read."
    if now.refused:
        return f"nothing automatic: a person has to decide ({now.reason.rstrip('.')})."
    return f"nothing automatic: a person has to decide. Plan: {now.strategy}."


def _clock(moment: str) -> str:
    return datetime.fromisoformat(moment).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
