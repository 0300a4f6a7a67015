"""What the observed facts mean: one row of the PROBLEMS table, with its evidence.

Verdicts, not booleans. The first row (by priority) whose predicate returns evidence is the diagnosis.
A row that says "lost" rests on facts of the server, never on the connector's state or trace alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.gtid import GtidSet
from airflow_cdc.core.observation import (
    ConnectorFacts,
    ControlFacts,
    Observation,
    SinkFacts,
    SinkTableFacts,
    SourceFacts,
    Unknown,
)
from airflow_cdc.core.offset import MySqlOffset

Evidence: TypeAlias = dict[str, str]
Predicate: TypeAlias = Callable[[Observation], Evidence | None]

_REQUIRED = ("source", "connector", "transport", "control")
_RUNBOOKS = "docs/problems.md"
_STILL = frozenset({"STOPPED", "PAUSED"})
_SETTLED = frozenset({"RUNNING", "FAILED", "STOPPED", "PAUSED"})
_SECRET = re.compile(
    r"(?i)((?:password|passwd|pwd|secret|token|credential)[\w.\-]*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&)]+)"
)
_URL_SECRET = re.compile(r"(://[^\s:/@]+:)[^\s@/]+@")


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
        return f"{_RUNBOOKS}#{self.code.lower()}"


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
    rows = sorted(PROBLEMS if problems is None else problems, key=lambda row: row.priority)
    for row in rows:
        evidence = row.predicate(obs)
        if evidence is not None:
            return Diagnosis(row.code, row.description, evidence, row.strategies, row.runbook)
    return Diagnosis("UNKNOWN", "No rule fits what was read.", {"read at": obs.taken_at}, (), f"{_RUNBOOKS}#unknown")


def trace_excerpt(trace: str, limit: int = 800) -> str:
    """The first line of a stack trace and its causes, without secrets, at most `limit` characters."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    telling = lines[:1] + [line for line in lines[1:] if line.startswith("Caused by:")]
    text = " | ".join(dict.fromkeys(telling))
    text = _URL_SECRET.sub(r"\1***@", _SECRET.sub(r"\1***", text))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


# ---- the rows' predicates ----------------------------------------------------------------------


def _recovery_open(obs: Observation) -> Evidence | None:
    control = obs.control
    if not isinstance(control, ControlFacts) or not control.recovery:
        return None
    shown = ("run_id", "opened_at", "problem", "strategy", "tables")
    told = {key: str(control.recovery[key]) for key in shown if key in control.recovery}
    return _evidence(obs, "control table", {"epoch": control.epoch, **told})


def _unread(obs: Observation) -> Evidence | None:
    unread = {part: f"could not be read: {why}" for part, why in obs.unknowns.items() if part in _REQUIRED}
    if fault := _offset_fault(obs):
        unread["offset"] = fault
    return _evidence(obs, "observation", unread) if unread else None


def _gtid_purged(obs: Observation) -> Evidence | None:
    source, offset = _source(obs), _offset(obs)
    if source is None or offset is None or not offset.gtids:
        return None
    executed, purged = source.gtid_executed, source.gtid_purged
    if executed is None or purged is None or not offset.gtids.issubset(executed):
        return None
    missing = purged - offset.gtids
    return None if missing.is_empty else _gtid_evidence(obs, source, offset.gtids, purged=purged, missing=missing)


def _binlog_purged(obs: Observation) -> Evidence | None:
    source, offset = _source(obs), _offset(obs)
    if source is None or offset is None or offset.gtids or not source.binlog_files:
        return None
    listed = {file.name for file in source.binlog_files}
    older = offset.position.comparable(source.current) and offset.position < source.current
    return _file_evidence(obs, source, offset) if older and offset.file not in listed else None


def _not_on_server(obs: Observation) -> Evidence | None:
    return None if _streams(obs) else _ahead_of_server(obs)


def _streams_elsewhere(obs: Observation) -> Evidence | None:
    """A connector that streams has a server that knows its position; then we look at another one.

    Behind a proxy the facts may come from a lagging replica, so this is no ground for a new snapshot.
    """
    return _ahead_of_server(obs) if _streams(obs) and not _ahead_by_a_moment(obs) else None


def _ahead_by_a_moment(obs: Observation) -> bool:
    """True if the offset only holds what this server may have committed after its facts were read."""
    source, offset = _source(obs), _offset(obs)
    if source is None or offset is None:
        return False
    if not offset.gtids:
        return offset.position.comparable(source.current) and offset.position >= source.current
    executed = source.gtid_executed or GtidSet()
    last = {(uuid, tag): intervals[-1][1] for uuid, tag, intervals in executed.items}
    unseen = (offset.gtids - executed).items
    return all(uuid == source.server_uuid and iv[0][0] > last.get((uuid, tag), 0) for uuid, tag, iv in unseen)


def _ahead_of_server(obs: Observation) -> Evidence | None:
    source, offset = _source(obs), _offset(obs)
    if source is None or offset is None:
        return None
    return _gtids_not_on_server(obs, source, offset) if offset.gtids else _file_not_on_server(obs, source, offset)


def _gtids_not_on_server(obs: Observation, source: SourceFacts, offset: MySqlOffset) -> Evidence | None:
    executed = source.gtid_executed or GtidSet()
    stored = offset.gtids or GtidSet()
    unseen = stored - executed
    return None if unseen.is_empty else _gtid_evidence(obs, source, stored, executed=executed, unseen=unseen)


def _file_not_on_server(obs: Observation, source: SourceFacts, offset: MySqlOffset) -> Evidence | None:
    sizes = {file.name: file.size for file in source.binlog_files}
    if offset.file in sizes:
        # the size of the newest file is of an earlier moment than its current position
        end = max(sizes[offset.file], source.current.pos if source.current.file == offset.file else 0)
        return _file_evidence(obs, source, offset) if offset.pos > end else None
    return None if _binlog_purged(obs) else _file_evidence(obs, source, offset)


def _sink_unknown(obs: Observation) -> Evidence | None:
    if not isinstance(obs.sink, Unknown):
        return None
    return _evidence(obs, "observation", {"sink": f"could not be read: {obs.sink.reason}"})


def _new_pipeline(obs: Observation) -> Evidence | None:
    tables = _tables(obs)
    if tables is None or not _has_no_offset(obs) or any(facts.stamp for facts in tables.values()):
        return None
    return {**_offset_evidence(obs), **_stamp_evidence(obs, tables)}


def _offset_missing(obs: Observation) -> Evidence | None:
    tables = _tables(obs)
    if tables is None or not _has_no_offset(obs) or not any(facts.stamp for facts in tables.values()):
        return None
    return {**_offset_evidence(obs), **_stamp_evidence(obs, tables)}


def _connector_failed(obs: Observation) -> Evidence | None:
    connector = obs.connector
    if not isinstance(connector, ConnectorFacts):
        return None
    failed = [task for task in connector.tasks if task.state == "FAILED"]
    if not failed and connector.state != "FAILED":
        return None
    traces = {f"task {task.id} trace": trace_excerpt(task.trace) or "none given" for task in failed}
    return _evidence(obs, "connector status", {**_states(connector), **traces})


def _connector_stopped(obs: Observation) -> Evidence | None:
    connector = obs.connector
    if not isinstance(connector, ConnectorFacts) or connector.state not in _STILL:
        return None
    return _evidence(obs, "connector status", _states(connector))


def _unsettled(obs: Observation) -> Evidence | None:
    connector = obs.connector
    if not isinstance(connector, ConnectorFacts):
        return None
    states = {connector.state, *(task.state for task in connector.tasks)}
    if connector.tasks and states <= _SETTLED:
        return None
    return _evidence(obs, "connector status", _states(connector))


def _control_behind(obs: Observation) -> Evidence | None:
    return _epochs(obs, lambda stamp, control: stamp > control)


def _stamp_behind(obs: Observation) -> Evidence | None:
    return _epochs(obs, lambda stamp, control: stamp < control)


def _epochs(obs: Observation, differs: Callable[[int, int], bool]) -> Evidence | None:
    tables, control = _tables(obs), obs.control
    if tables is None or not isinstance(control, ControlFacts):
        return None
    epochs = {name: facts.stamp.epoch for name, facts in tables.items() if facts.stamp}
    stamps = {f"stamp of {name}": f"epoch {e}" for name, e in epochs.items() if differs(e, control.epoch)}
    return _evidence(obs, "sink and control", {"control": f"epoch {control.epoch}", **stamps}) if stamps else None


def _table_added(obs: Observation) -> Evidence | None:
    tables = _tables(obs)
    if tables is None or obs.pipeline.sink.writer != "cdc_apply":  # other writers leave no stamps
        return None
    bare = {name: tables.get(name, SinkTableFacts(exists=False)) for name in obs.pipeline.source.tables}
    bare = {name: facts for name, facts in bare.items() if not facts.stamp}
    return _stamp_evidence(obs, bare) if bare else None


def _healthy(obs: Observation) -> Evidence | None:
    source, connector = _source(obs), obs.connector
    if source is None or not isinstance(connector, ConnectorFacts) or obs.unknowns:
        return None
    return {**_evidence(obs, "connector status", _states(connector)), **_offset_evidence(obs)}


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "RECOVERY_OPEN",
        10,
        "A recovery was begun and is not finished: its tables are not all published.",
        _recovery_open,
        ("finish",),
    ),
    Problem("UNKNOWN", 20, "Something that decides could not be read, so nothing is concluded.", _unread, ()),
    Problem(
        "UNKNOWN",
        21,
        "A sink table is of a later epoch than the control table, which was lost or put back.",
        _control_behind,
        (),
    ),
    Problem(
        "GTID_PURGED",
        30,
        "Transactions that the connector has not read were purged from the source's binlog.",
        _gtid_purged,
        ("full_snapshot",),
    ),
    Problem(
        "BINLOG_PURGED",
        31,
        "The binlog file at which the connector would read on was purged from the source.",
        _binlog_purged,
        ("full_snapshot",),
    ),
    Problem(
        "POSITION_NOT_ON_SERVER",
        32,
        "The stored position was never reached by this server: it was replaced, reset or restored.",
        _not_on_server,
        ("full_snapshot",),
    ),
    Problem(
        "UNKNOWN",
        33,
        "The connector streams from a position that this server has not reached: another server answers.",
        _streams_elsewhere,
        (),
    ),
    Problem("UNKNOWN", 35, "The sink could not be read, so the pipeline is not known to be whole.", _sink_unknown, ()),
    Problem(
        "NEW_PIPELINE",
        40,
        "Nothing was copied yet: the connector has no offset and no sink table has a stamp.",
        _new_pipeline,
        ("full_snapshot",),
    ),
    Problem(
        "OFFSET_MISSING",
        41,
        "The connector has lost its offset: the sink was filled before, and where to read on is not known.",
        _offset_missing,
        ("full_snapshot",),
    ),
    Problem(
        "CONNECTOR_FAILED",
        50,
        "The connector has failed, while the source still holds everything from its position on.",
        _connector_failed,
        ("restart",),
    ),
    Problem(
        "CONNECTOR_STOPPED",
        51,
        "The connector was stopped or paused; nothing is captured until it is resumed.",
        _connector_stopped,
        (),
    ),
    Problem("UNKNOWN", 52, "The connector is between states; look again in a moment.", _unsettled, ()),
    Problem(
        "STAMP_BEHIND",
        60,
        "A sink table is of an earlier epoch than the control table: it was put back across a recovery.",
        _stamp_behind,
        ("full_snapshot",),
    ),
    Problem(
        "TABLE_ADDED",
        61,
        "A declared table was never filled by this pipeline: its sink table has no stamp.",
        _table_added,
        ("full_snapshot",),
    ),
    Problem("HEALTHY", 99, "The source holds everything from the connector's position on.", _healthy, ("none",)),
)


# ---- reading the observation -------------------------------------------------------------------


def _source(obs: Observation) -> SourceFacts | None:
    return obs.source if isinstance(obs.source, SourceFacts) else None


def _tables(obs: Observation) -> Mapping[str, SinkTableFacts] | None:
    return obs.sink.tables if isinstance(obs.sink, SinkFacts) else None


def _offset(obs: Observation) -> MySqlOffset | None:
    if not isinstance(obs.connector, ConnectorFacts) or not obs.connector.offset:
        return None
    try:
        return MySqlOffset.from_value(obs.connector.offset)
    except CdcError:
        return None  # the UNKNOWN row says so, see _offset_fault


def _offset_fault(obs: Observation) -> str:
    if not isinstance(obs.connector, ConnectorFacts) or not obs.connector.offset:
        return ""
    try:
        MySqlOffset.from_value(obs.connector.offset)
    except CdcError as error:
        return str(error)
    return ""


def _has_no_offset(obs: Observation) -> bool:
    return isinstance(obs.connector, ConnectorFacts) and not obs.connector.offset


def _streams(obs: Observation) -> bool:
    connector = obs.connector
    if not isinstance(connector, ConnectorFacts) or connector.state != "RUNNING":
        return False
    return bool(connector.tasks) and all(task.state == "RUNNING" for task in connector.tasks)


def _states(connector: ConnectorFacts) -> Evidence:
    tasks = {f"task {task.id} state": task.state for task in connector.tasks}
    return {"connector state": connector.state, **(tasks or {"tasks": "none"})}


# ---- evidence ----------------------------------------------------------------------------------


def _evidence(obs: Observation, where: str, values: Mapping[str, object]) -> Evidence:
    """Each value with where and when it was read."""
    return {name: f"{value} [{where}, {obs.taken_at}]" for name, value in values.items()}


def _offset_evidence(obs: Observation) -> Evidence:
    offset = _offset(obs)
    shown = "none" if offset is None else f"{offset.position} {offset.gtids or ''}".strip()
    return _evidence(obs, "connector offsets", {"stored offset": shown})


def _gtid_evidence(obs: Observation, source: SourceFacts, stored: GtidSet, **sets: GtidSet) -> Evidence:
    shown = {f"gtids {name}": f"{gtids} ({gtids.count} transactions)" for name, gtids in sets.items()}
    return {
        **_evidence(obs, "connector offsets", {"gtids stored": stored}),
        **_evidence(obs, f"server {source.server_uuid}", shown),
        **_state_evidence(obs),
    }


def _file_evidence(obs: Observation, source: SourceFacts, offset: MySqlOffset) -> Evidence:
    files = source.binlog_files
    listed = f"{files[0].name} to {files[-1].name} ({len(files)} files)" if files else "none"
    sizes = {file.name: file.size for file in files}
    size = {"file size": sizes[offset.file]} if offset.file in sizes else {}
    return {
        **_evidence(obs, "connector offsets", {"stored position": offset.position}),
        **_evidence(obs, f"server {source.server_uuid}", {"binlog files": listed, "end": source.current, **size}),
        **_state_evidence(obs),
    }


def _state_evidence(obs: Observation) -> Evidence:
    connector = obs.connector
    return _evidence(obs, "connector status", _states(connector)) if isinstance(connector, ConnectorFacts) else {}


def _stamp_evidence(obs: Observation, tables: Mapping[str, SinkTableFacts]) -> Evidence:
    shown = {f"sink of {name}": _stamp_text(facts) for name, facts in tables.items()}
    return _evidence(obs, "sink", shown or {"sink": "no tables"})


def _stamp_text(facts: SinkTableFacts) -> str:
    if not facts.exists:
        return "does not exist"
    return f"stamp of epoch {facts.stamp.epoch}" if facts.stamp else "exists without a stamp"
