"""An alert in words: which pipeline, what it means, since when, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow_cdc.core.duration import span
from airflow_cdc.core.outage import HEALTHY, UNKNOWN, Status, seconds_between

_SHOWN = 300


def text_of(alert: Mapping[str, Any], facts: Mapping[str, Any], runbook: str) -> str:
    """One paragraph for people; `facts` are those of the look that made the alert (diagnosis, plan, recover).

    `runbook`: the address at which they read what to do.
    """
    parts = _resolved(alert, facts) if alert["status"] == Status.RESOLVED else _firing(alert, facts, runbook)
    return " ".join(part for part in (*parts, f"[{alert['dedup_key']}]") if part)


def _firing(alert: Mapping[str, Any], facts: Mapping[str, Any], runbook: str) -> tuple[str, ...]:
    diagnosis = facts["diagnosis"]
    still = "still " if alert["notification"] > 1 else ""
    left = diagnosis["evidence"].get("may be purged in", "")
    return (
        f"{alert['pipeline']}: {still}{alert['code']} since {_clock(alert['since'])} ({_lasted(alert)}):",
        diagnosis["description"],
        _unread(diagnosis) if alert["code"] == UNKNOWN else "",
        f"The stored position may be purged in {left}." if left else "",
        f"What follows: {_follows(alert, facts)}",
        f"See {runbook}.",
        f"This is notification {alert['notification']}." if still else "",
    )


def _resolved(alert: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[str, ...]:
    code = facts["diagnosis"]["code"]
    began, ended = _clock(alert["since"]), _clock(alert["over_since"] or alert["at"])
    now = "The pipeline is healthy." if code == HEALTHY else f"The diagnosis is now {code}."
    same = "The same problem goes on in a new epoch and is told as such." if code == alert["code"] else ""
    return (f"{alert['pipeline']}: resolved: {alert['code']}, from {began} to {ended} ({_lasted(alert)}).", same or now)


def _follows(alert: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    plan = facts["plan"]
    if facts["recover"]:
        return f"cdc_recovery is triggered as {alert['recovery_run_id']} ({plan['strategy']})."
    if alert["recovery_run_id"]:
        return (
            f"nothing by itself: the recovery {alert['recovery_run_id']} was triggered for it once; see how it ended."
        )
    if alert["code"] == UNKNOWN:
        return "the pipeline is read again at every look; a person has to find out why it cannot be."
    if plan["refused"]:
        return f"nothing by itself: a person has to decide ({plan['reason'].rstrip('.')})."
    return f"nothing by itself: a person has to decide. Plan: {plan['strategy']}."


def _unread(diagnosis: Mapping[str, Any]) -> str:
    reasons = "; ".join(f"{part}: {why}" for part, why in diagnosis["evidence"].items())
    return reasons if len(reasons) <= _SHOWN else f"{reasons[: _SHOWN - 1]}…"


def _lasted(alert: Mapping[str, Any]) -> str:
    return span(max(0.0, seconds_between(alert["since"], alert["over_since"] or alert["at"])))


def _clock(moment: str) -> str:
    return datetime.fromisoformat(moment).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
