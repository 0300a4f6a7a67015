"""How urgent a problem is, in the four words that incident managers use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum


class Severity(StrEnum):
    """PagerDuty's words: critical and error need somebody now, a warning needs a look, info needs nothing."""

    CRITICAL = "critical"  # rows are being lost, or the sink is known to be wrong
    ERROR = "error"  # the stream has stopped; the missed events are still in the log
    WARNING = "warning"
    INFO = "info"


_ONLY_WARNS = ("none",)  # the strategies of a problem that needs a changed setting, not a recovery
_CODES: Mapping[str, Severity] = {
    "HEALTHY": Severity.INFO,
    "SINK_DIFFERS": Severity.CRITICAL,  # although no recovery is offered: a repair is enough
    "NEW_PIPELINE": Severity.WARNING,
    "UNKNOWN": Severity.WARNING,
    "RECOVERY_OPEN": Severity.WARNING,
    "CONNECTOR_STOPPED": Severity.WARNING,
    "TABLE_ADDED": Severity.WARNING,
    "SINK_BEHIND": Severity.WARNING,
    "SINK_WRITTEN_BY_OTHERS": Severity.ERROR,  # what it writes next may be overwritten, or be wrong
    "XA_ROLLED_BACK": Severity.WARNING,
    "LOG_INCOMPLETE": Severity.WARNING,
    "AT_RISK": Severity.ERROR,  # a warning that becomes a loss by itself
    "CONNECTOR_FAILED": Severity.ERROR,
    "CONNECTOR_FAILED_TRANSIENT": Severity.ERROR,
    "CONNECTOR_LOOPING": Severity.ERROR,
    "DUPLICATE_SERVER_ID": Severity.ERROR,
}


def severity_of(code: str, strategies: Sequence[str] = ()) -> Severity:
    """The severity of a problem; a code without a row is critical, so that a new one is never overlooked.

    `strategies` are those of the diagnosis: one code may mean a lost log or only a setting (SOURCE_MISCONFIGURED).
    """
    if code in _CODES:
        return _CODES[code]
    return Severity.WARNING if tuple(strategies) == _ONLY_WARNS else Severity.CRITICAL
