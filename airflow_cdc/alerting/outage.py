"""Which outages of a pipeline are open, and which alerts about them are due.

An outage is a problem code in an epoch, named `<pipeline>:<code>:<epoch>`. The name holds nothing that changes while
the outage lasts, as the offset of a running connector does. An outage is over when a look proves that its problem no
longer holds: the diagnosis is HEALTHY, or a problem that is judged later (rows are judged by rank, so every
earlier row was checked and did not hold). A look that could not read the pipeline, or that ended at an earlier row,
proves nothing about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from airflow_cdc.alerting.severity import Severity, severity_of
from airflow_cdc.core.codec import Moment, MomentOrNone, read
from airflow_cdc.core.errors import MALFORMED
from airflow_cdc.core.pipeline import AlertPolicy

# problem code → the ranks of its rows, in the order of judgement
Ranks = Mapping[str, tuple[int, ...]]

HEALTHY, UNKNOWN, RECOVERY_OPEN = "HEALTHY", "UNKNOWN", "RECOVERY_OPEN"


class Status(StrEnum):
    """The state of an alert, by the names that Alertmanager and its receivers use."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look found, as far as outages are concerned.

    Attributes:
        epoch: None where the control table could not be read.
        at: when, ISO time.
        attended: a run that holds the lease is working on the open recovery, so no alert is needed.
        standing: the problem only warns of a setting and stays until that is changed, so its alert is not repeated.
        silenced: a person has acknowledged the problem or muted the pipeline, so its alert is not repeated.
    """

    code: str
    epoch: int | None
    at: str
    attended: bool = False
    standing: bool = False
    silenced: bool = False


@dataclass(frozen=True, slots=True)
class Outage:
    """One problem code in one epoch, from the first look that found it to the look that finds it resolved.

    Attributes:
        epoch: at its first look; 0 where the control table could not be read.
        notified_at: when people were last alerted; "" if never (an UNKNOWN that may pass).
        notifications: how many alerts they got.
        clear_since: the first look that proved it over, while it may still come back; "" while it holds.
        recovery: the id of the recovery that was triggered for it; "" if none was.
        standing: it only warns of a setting.
    """

    code: str
    epoch: int
    since: Moment
    notified_at: MomentOrNone = ""
    notifications: int = 0
    clear_since: MomentOrNone = ""
    recovery: str = ""
    standing: bool = False

    @property
    def severity(self) -> Severity:
        """How urgent it is: a problem that only warns of a setting wakes nobody."""
        return severity_of(self.code, ("none",) if self.standing else ())

    @property
    def name(self) -> str:
        """Its name within a run id: "gtid_purged_e3"."""
        return f"{self.code.lower()}_e{self.epoch}"

    def key(self, pipeline: str) -> str:
        """The key that receivers group by: one incident per key, opened by "firing" and closed by "resolved"."""
        return f"{pipeline}:{self.code}:{self.epoch}"

    def run_id(self, pipeline: str) -> str:
        """The run id of its recovery. It contains `since`, because a resolved problem may return in the same epoch."""
        began = datetime.fromisoformat(self.since).strftime("%Y%m%dT%H%M%S")
        return f"watch__{pipeline}__{self.name}__{began}"


@dataclass(frozen=True, slots=True)
class OutageLog:
    """The open outages of a pipeline. `version` rises with each change: of two copies the higher one is the newer."""

    version: int = 0
    outages: tuple[Outage, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, object] | None) -> OutageLog:
        """Read it from JSON; an empty log if this version does not understand `value`."""
        try:
            return read(cls, value or {})
        except MALFORMED:
            return cls()

    def of(self, sighting: Sighting) -> Outage | None:
        """The outage that the sighting belongs to."""
        return next((outage for outage in self.outages if _same(outage, sighting)), None)

    def with_outage(self, changed: Outage) -> OutageLog:
        """This log with the outage of the same name replaced."""
        outages = tuple(changed if one.name == changed.name else one for one in self.outages)
        return OutageLog(self.version + 1, outages)


@dataclass(frozen=True, slots=True)
class Alert:
    """One message to people. The receiver decides whom a severity wakes."""

    status: Status
    pipeline: str
    outage: Outage
    at: str

    @property
    def key(self) -> str:
        """The deduplication key."""
        return self.outage.key(self.pipeline)

    def to_json(self) -> dict[str, object]:
        """Plain JSON, for asset events and XCom."""
        outage = self.outage
        return {
            "status": str(self.status),
            "dedup_key": self.key,
            "pipeline": self.pipeline,
            "code": outage.code,
            "severity": str(outage.severity),
            "epoch": outage.epoch,
            "since": outage.since,
            "at": self.at,
            "over_since": outage.clear_since,
            "notification": outage.notifications,
            "recovery_run_id": outage.recovery,
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """The log after a look, and the alerts that are due now."""

    log: OutageLog
    alerts: tuple[Alert, ...] = ()


def advance(pipeline: str, log: OutageLog, sighting: Sighting, policy: AlertPolicy, ranks: Ranks) -> Progress:
    """Update the open outages with one look; `ranks` gives the order in which the pipeline's problems are judged.

    An alert fires at once, or for UNKNOWN after `policy.unknown_for`. It repeats after each `repeat_interval` while the
    problem holds, and is resolved once the problem has been over for `keep_firing_for` seconds. A problem that returns
    before that belongs to the same outage: no new alert and no second recovery.
    """
    aged = [_aged(outage, sighting, ranks) for outage in log.outages]
    gone = [outage for outage in aged if _ended(outage, sighting, policy, ranks)]
    resolved = [Alert(Status.RESOLVED, pipeline, outage, sighting.at) for outage in gone if outage.notified_at]
    open_now = [outage for outage in aged if outage not in gone]
    current = next((outage for outage in open_now if _same(outage, sighting)), None) or _begun(sighting, gone)
    others = [outage for outage in open_now if not _same(outage, sighting)]
    firing = []
    if current is not None and _due(current, sighting, policy):
        current = notified(current, sighting.at)
        firing = [Alert(Status.FIRING, pipeline, current, sighting.at)]
    outages = (*others, *([current] if current else []))
    changed = set(outages) != set(log.outages)
    return Progress(OutageLog(log.version + 1, outages) if changed else log, (*resolved, *firing))


def notified(outage: Outage, at: str) -> Outage:
    """The outage after one more alert about it."""
    return replace(outage, notified_at=at, notifications=outage.notifications + 1)


def seconds_between(earlier: str, later: str) -> float:
    """Seconds from one ISO time to another."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def proves_over(code: str, current: str, ranks: Ranks) -> bool:
    """Whether the diagnosis `current` proves that the problem `code` does not hold.

    A code may have several rows: all of them must be judged before the first row of `current`. Every diagnosis other
    than UNKNOWN ends an UNKNOWN.
    """
    if UNKNOWN in (code, current):
        return code != current and code == UNKNOWN
    return current in ranks and max(ranks.get(code, ()), default=0) < min(ranks[current])


def _same(outage: Outage, sighting: Sighting) -> bool:
    """An epoch that rises while nothing can be read does not start another UNKNOWN."""
    return outage.code == sighting.code and (outage.code == UNKNOWN or outage.epoch == sighting.epoch)


def _superseded(outage: Outage, sighting: Sighting) -> bool:
    return outage.code == sighting.code and not _same(outage, sighting)


def _aged(outage: Outage, sighting: Sighting, ranks: Ranks) -> Outage:
    if _same(outage, sighting):
        return replace(outage, clear_since="")
    if _superseded(outage, sighting) or proves_over(outage.code, sighting.code, ranks):
        return replace(outage, clear_since=outage.clear_since or sighting.at)
    return outage


def _ended(outage: Outage, sighting: Sighting, policy: AlertPolicy, ranks: Ranks) -> bool:
    if not outage.clear_since:
        return False
    if not outage.notified_at or _superseded(outage, sighting):
        return True
    over = _superseded(outage, sighting) or proves_over(outage.code, sighting.code, ranks)
    return over and seconds_between(outage.clear_since, sighting.at) >= policy.keep_firing_for


def _begun(sighting: Sighting, gone: list[Outage]) -> Outage | None:
    """A new outage, if the sighting shows a problem.

    If the same problem is there in a new epoch, and no look in between proved it over, its recovery raised the epoch
    but did not help. Another recovery would be a loop.
    """
    if sighting.code == HEALTHY or sighting.attended:
        return None
    tried = next((outage.recovery for outage in gone if _superseded(outage, sighting)), "")
    return Outage(sighting.code, sighting.epoch or 0, since=sighting.at, recovery=tried, standing=sighting.standing)


def _due(outage: Outage, sighting: Sighting, policy: AlertPolicy) -> bool:
    if sighting.attended or sighting.silenced:
        return False
    if not outage.notified_at:
        return outage.code != UNKNOWN or seconds_between(outage.since, sighting.at) >= policy.unknown_for
    if not policy.repeat_interval or sighting.standing:
        return False
    return seconds_between(outage.notified_at, sighting.at) >= policy.repeat_interval
