"""What the observed facts mean: one row of the PROBLEMS table, with its evidence.

Verdicts, not booleans. The first row (by priority) whose predicate returns evidence is the diagnosis.
A row that says "lost" rests on facts of the server, never on the connector's state or trace alone.
The predicates stand in core/problems_*.py, by subject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from airflow_cdc.connectors.debezium import problems as connector
from airflow_cdc.connectors.debezium import problems_events as events
from airflow_cdc.core.diagnosis import lag
from airflow_cdc.core.diagnosis.evidence import Evidence, trace_excerpt
from airflow_cdc.core.diagnosis.observation import Observation
from airflow_cdc.sinks.iceberg import problems as sink
from airflow_cdc.sources.mysql import problems as source
from airflow_cdc.transports.kafka import problems as transport

__all__ = ["PROBLEMS", "Diagnosis", "Evidence", "Problem", "diagnose", "trace_excerpt"]

Predicate: TypeAlias = Callable[[Observation], Evidence | None]

_RUNBOOKS = "runbook"
_SNAPSHOT = ("full_snapshot",)
_WARNING = ("none",)  # nothing is lost yet: what is to be done is for a person
_ABOUT_POSITION = frozenset(
    {
        "GTID_PURGED",
        "POSITION_AHEAD",
        "SOURCE_CHANGED",
        "BINLOG_PURGED",
        "POSITION_PAST_END",
        "POSITION_MID_EVENT",
        "GTID_MODE_MISMATCH",
        "GTID_NOT_CONTAINED",
        "GTID_MISSING_IN_OFFSET",
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One row: what it is called, when it holds, what may be done, where a person reads more.

    `predicate` returns the evidence, or None when this row does not hold. `strategies` are in order of
    preference; () means that nothing may be done before a person has looked.
    """

    code: str
    priority: int
    description: str
    predicate: Predicate
    strategies: tuple[str, ...]

    @property
    def runbook(self) -> str:
        """Where a person reads what to do."""
        return runbook(self.code)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One problem code with its evidence (name → value read, from where, at what time)."""

    code: str
    description: str
    evidence: Mapping[str, str]
    strategies: tuple[str, ...]
    runbook: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence", dict(self.evidence))
        object.__setattr__(self, "strategies", tuple(self.strategies))

    @property
    def exit_status(self) -> int:
        """What a command ends with: 0 healthy, 3 unknown, 1 any other problem."""
        return {"HEALTHY": 0, "UNKNOWN": 3}.get(self.code, 1)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for XCom and stored observations."""
        return {
            "code": self.code,
            "description": self.description,
            "evidence": dict(self.evidence),
            "strategies": list(self.strategies),
            "runbook": self.runbook,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Diagnosis:
        """The inverse of to_json()."""
        return cls(**value)


def diagnose(obs: Observation, problems: Iterable[Problem] | None = None) -> Diagnosis:
    """The first row of `problems` (default: PROBLEMS) that holds for the observation."""
    found = _first(obs, PROBLEMS if problems is None else problems)
    if found is not None:
        return found
    return Diagnosis("UNKNOWN", "No rule fits what was read.", {"read at": obs.taken_at}, (), runbook("UNKNOWN"))


def _first(obs: Observation, problems: Iterable[Problem]) -> Diagnosis | None:
    for row in sorted(problems, key=lambda row: row.priority):
        found = row.predicate(obs)
        if found is not None:
            return Diagnosis(row.code, row.description, found, row.strategies, row.runbook)
    return None


def position_fault(obs: Observation) -> Diagnosis | None:
    """What is wrong with the stored position alone, by facts of the server; None if a connector can read on from it."""
    return _first(obs, (row for row in PROBLEMS if row.code in _ABOUT_POSITION or row.predicate is sink.unread))


def runbook(code: str) -> str:
    """Where a person reads what to do about a problem: a path below the provider's page in Airflow."""
    return f"{_RUNBOOKS}#{code.lower()}"


# In the order in which they are judged: first what must not be overlooked, then what could not be read, then what the
# server's own facts prove, then the connector, the transport and the sink, and last what only warns.
PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "RECOVERY_OPEN",
        10,
        "A recovery was begun and is not finished: its tables are not all published.",
        sink.recovery_open,
        ("finish", "replica_detour", "translate_gtid"),
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        15,
        "The connector has a setting with which its events cannot be followed.",
        events.setting_refused,
        (),
    ),
    Problem("UNKNOWN", 20, "Something that decides could not be read, so nothing is concluded.", sink.unread, ()),
    Problem(
        "UNKNOWN",
        21,
        "A sink table is of a later epoch than the control table, which was lost or put back.",
        sink.control_behind,
        (),
    ),
    Problem(
        "SOURCE_MISCONFIGURED",
        25,
        "The source keeps no binary log.",
        source.log_off,
        (),
    ),
    Problem(
        "GTID_PURGED",
        30,
        "Transactions that the connector has not read were purged from the source's binlog.",
        transport.with_ddl(source.gtid_purged),
        ("replica_detour", "full_snapshot"),
    ),
    Problem(
        "POSITION_AHEAD",
        31,
        "The stored file is newer than any on the server: it was reset, rebuilt or restored from a backup.",
        transport.with_ddl(source.position_ahead),
        _SNAPSHOT,
    ),
    Problem(
        "SOURCE_CHANGED",
        32,
        "Another server answers than the one the position was taken on; the same file names mean something else there.",
        transport.with_ddl(source.source_changed),
        _SNAPSHOT,
    ),
    Problem(
        "BINLOG_PURGED",
        33,
        "The binlog file at which the connector would read on was purged from the source.",
        transport.with_ddl(source.binlog_purged),
        _SNAPSHOT,
    ),
    Problem(
        "POSITION_PAST_END",
        34,
        "The stored position is beyond the end of its file: the server lost what the connector has read.",
        transport.with_ddl(source.position_past_end),
        ("resume_next_file", "diff_repair", "full_snapshot"),
    ),
    Problem(
        "POSITION_MID_EVENT",
        35,
        "No whole event begins at the stored position: the file was cut, or is another one.",
        transport.with_ddl(source.position_mid_event),
        ("resume_next_file", "diff_repair", "full_snapshot"),
    ),
    Problem(
        "GTID_MODE_MISMATCH",
        36,
        "The stored offset counts by GTID and the server writes transactions without any.",
        source.gtid_mode_mismatch,
        (),
    ),
    Problem(
        "GTID_NOT_CONTAINED",
        37,
        "The stored set holds transactions that this server does not have: a lagging replica was promoted, or it was restored.",
        transport.with_ddl(source.gtid_not_contained),
        ("translate_gtid", "full_snapshot"),
    ),
    Problem(
        "UNKNOWN",
        38,
        "The connector streams from a position that this server has not reached: another server answers.",
        source.streams_elsewhere,
        (),
    ),
    Problem(
        "DDL_IN_GAP",
        39,
        "A table was changed and the connector did not notice: it decodes rows with an old definition.",
        transport.ddl_in_gap,
        _SNAPSHOT,
    ),
    Problem(
        "UNKNOWN",
        40,
        "The sink or the table definitions could not be read, so the pipeline is not known to be whole.",
        sink.rest_unread,
        (),
    ),
    Problem(
        "OFFSET_AMBIGUOUS",
        41,
        "The connector has more than one stored offset, and they differ.",
        connector.offset_ambiguous,
        (),
    ),
    Problem(
        "NEW_PIPELINE",
        42,
        "Nothing was copied yet: the connector has no offset and no sink table has a stamp.",
        sink.new_pipeline,
        _SNAPSHOT,
    ),
    Problem(
        "OFFSET_MISSING",
        43,
        "The connector has lost its offset: the sink was filled before, and where to read on is not known.",
        sink.offset_missing,
        _SNAPSHOT,
    ),
    Problem(
        "GTID_MISSING_IN_OFFSET",
        44,
        "The server counts by GTID and the stored offset has none: the connector would start at the oldest transaction, or not at all.",
        source.gtid_missing_in_offset,
        _SNAPSHOT,
    ),
    Problem(
        "SNAPSHOT_INTERRUPTED",
        45,
        "The connector ended while it copied its tables.",
        connector.snapshot_interrupted,
        _SNAPSHOT,
    ),
    Problem(
        "SCHEMA_HISTORY_MISSING",
        46,
        "The table definitions that the connector decodes with are gone, all or in part.",
        transport.schema_history_missing,
        _SNAPSHOT,
    ),
    Problem(
        "SOURCE_MISCONFIGURED",
        47,
        "The source's log does not hold whole rows.",
        source.rows_misconfigured,
        (),
    ),
    Problem(
        "SOURCE_FAILED_OVER",
        49,
        "Another server took over; it holds all that was read and still has all that was not.",
        source.failed_over,
        ("translate_gtid", "full_snapshot"),
    ),
    Problem(
        "DUPLICATE_SERVER_ID",
        50,
        "Another client reads the log under the connector's server id, and the server cuts one of them off.",
        connector.duplicate_server_id,
        (),
    ),
    Problem(
        "TRANSPORT_MISCONFIGURED",
        51,
        "A topic refuses the events of a table.",
        transport.compacted_keyless,
        (),
    ),
    Problem(
        "CONNECTOR_FAILED_TRANSIENT",
        52,
        "The connector failed because a connection was cut; the source still holds everything from its position on.",
        source.with_risk(connector.failed_transient),
        ("restart",),
    ),
    Problem(
        "CONNECTOR_FAILED",
        53,
        "The connector has failed for a reason that a restart meets again; the source still holds everything.",
        source.with_risk(connector.connector_failed),
        (),
    ),
    Problem(
        "AT_RISK",
        54,
        "The log from the stored position on may be purged before the policy's warning time has passed.",
        source.at_risk,
        _WARNING,
    ),
    Problem(
        "CONNECTOR_STOPPED",
        55,
        "The connector was stopped or paused; nothing is captured until it is resumed.",
        connector.connector_stopped,
        (),
    ),
    Problem("UNKNOWN", 56, "The connector is between states; look again in a moment.", connector.unsettled, ()),
    Problem(
        "CONNECTOR_LOOPING",
        57,
        "The connector claims to run and does not come past its position.",
        connector.connector_looping,
        (),
    ),
    Problem(
        "TRANSPORT_REPLACED",
        60,
        "A topic is not the one that the sink was applied from: recreated, shortened or repartitioned.",
        transport.transport_replaced,
        _SNAPSHOT,
    ),
    Problem(
        "TRANSPORT_GAP",
        61,
        "Events were removed from a topic before they were applied.",
        transport.transport_gap,
        _SNAPSHOT,
    ),
    Problem(
        "SELF_HEALED",
        62,
        "The connector copied its tables by itself: rows deleted in the gap are still in the sink.",
        transport.self_healed,
        _SNAPSHOT,
    ),
    Problem(
        "EPOCH_BEHIND",
        63,
        "A sink table is of an earlier epoch than the control table: it was put back across a recovery, or its recovery "
        "was abandoned.",
        sink.epoch_behind,
        _SNAPSHOT,
    ),
    Problem(
        "STAMP_LOST",
        64,
        "A sink table holds rows and does not say how far it was applied, and no copy of that is left.",
        sink.stamp_lost,
        _SNAPSHOT,
    ),
    Problem(
        "TABLE_ADDED",
        65,
        "A declared table was never filled by this pipeline: its sink table has no stamp.",
        sink.table_added,
        _SNAPSHOT,
    ),
    Problem(
        "TABLE_NEEDS_REREAD",
        66,
        "Apply has stopped a table: DDL changed its rows in a way that no event carries.",
        sink.needs_reread,
        _SNAPSHOT,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        67,
        "The connector filters, masks or keys rows of a table so that its events cannot be applied.",
        events.tables_refused,
        (),
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        68,
        "A NULL arrives as its column's default, so the tables are not applied.",
        events.nulls_replaced,
        _SNAPSHOT,
    ),
    Problem(
        "SINK_BEHIND",
        90,
        "Events wait to be applied: readers see the source as it was.",
        lag.sink_behind,
        _WARNING,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        91,
        "The connector is set to pass over a gap by itself: what is lost then is never reported.",
        connector.connector_misconfigured,
        _WARNING,
    ),
    Problem(
        "SOURCE_MISCONFIGURED",
        92,
        "The source keeps its log, or lets its user do, less than a recovery needs.",
        source.retention_misconfigured,
        _WARNING,
    ),
    Problem(
        "TRANSPORT_MISCONFIGURED",
        93,
        "The topic of the connector's schema history will lose table definitions, or has no order.",
        transport.history_misconfigured,
        _WARNING,
    ),
    Problem(
        "LOG_INCOMPLETE",
        94,
        "Foreign keys change rows of captured tables, and this server does not log those changes.",
        source.log_incomplete,
        _WARNING,
    ),
    Problem(
        "XA_ROLLED_BACK",
        95,
        "XA transactions were rolled back after their rows may have been sent: such rows may stand in the sink.",
        source.xa_rolled_back,
        _WARNING,
    ),
    Problem("HEALTHY", 99, "The source holds everything from the connector's position on.", sink.healthy, ("none",)),
)
