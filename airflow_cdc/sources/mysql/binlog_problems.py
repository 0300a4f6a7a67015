"""Rows shared by MySQL and MariaDB: the log by file and position, its settings, and how long it is kept.

A position is lost only by facts of the server. While a connector streams, some server knows its position; if that may be
another server than the one that answers here (a proxy, a replica), nothing is concluded.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, TypeVar

from airflow_cdc.core.observation import ControlFacts, Observation
from airflow_cdc.core.position import Availability, Position
from airflow_cdc.core.problem import FULL_SNAPSHOT, WARNING, AnyCase, Beside, Case, Evidence, Problem
from airflow_cdc.core.xa import rollback_doubt
from airflow_cdc.decisions.diagnosis.evidence import (
    OFFSETS,
    evidence,
    failed_as,
    offset_evidence,
    server_evidence,
    state_evidence,
    tables_of,
)
from airflow_cdc.sources.mysql.availability import file_available
from airflow_cdc.sources.mysql.facts import BinlogFacts, EventBoundary, InBinlog


class BinlogPlace(InBinlog, Position, Protocol):
    """A position in a binary log."""


BinlogCase: TypeAlias = Case[BinlogFacts, "BinlogPlace"]
F = TypeVar("F", bound=BinlogFacts)
P = TypeVar("P", bound=Position)


def with_log(pair: tuple[F, P] | None) -> tuple[F, P] | None:
    """Source and position, if the server keeps a log at all."""
    return None if pair is None or not pair[0].log_bin else pair


def known_servers(obs: Observation) -> frozenset[str]:
    """server_uuids that the sink's tables were last read from, and those that the connector was moved to since."""
    stamps = [facts.stamp for facts in (tables_of(obs) or {}).values() if facts.stamp]
    marks = [stamp.watermark for stamp in stamps if stamp.watermark]
    led_to = obs.control.servers if isinstance(obs.control, ControlFacts) else ()
    return frozenset([*(str(mark["server"]) for mark in marks if mark.get("server")), *led_to])


def file_evidence(case: AnyCase) -> Evidence:
    """The stored place, together with the files that the server lists."""
    pair = case.both
    if pair is None:
        return {}
    source, stored = pair
    files = source.binlog_files
    listed = f"{files[0].name} to {files[-1].name} ({len(files)} files)" if files else "none"
    size = {"file size": source.sizes[stored.file]} if stored.file in source.sizes else {}
    return {
        **evidence(case, OFFSETS, {"stored position": stored.place}),
        **server_evidence(case, {"binlog files": listed, "end": source.current, **size}),
        **state_evidence(case),
    }


# ---- settings ----------------------------------------------------------------------------------


def log_off(case: BinlogCase) -> Evidence | None:
    """Without a log there is no position to judge."""
    if case.source is None or case.source.log_bin:
        return None
    return server_evidence(case, {"log_bin": "OFF, must be ON"})


def rows_misconfigured(case: BinlogCase) -> Evidence | None:
    """The log does not hold complete rows: its events cannot be applied, and no recovery could finish."""
    wrong = case.source.log_faults if case.source else {}
    return server_evidence(case, wrong) if wrong else None


def retention_misconfigured(case: BinlogCase) -> Evidence | None:
    """Missing privileges that a recovery needs, or a retention shorter than a recovery (or its warning time)."""
    source, control = case.source, case.seen.control
    if source is None:
        return None
    wrong = {f"missing privilege {n}": need for n, need in enumerate(source.missing_privileges, 1)}
    seconds = source.retention.expire_s if source.retention else 0
    warn = case.seen.pipeline.policy.warn_before_purge
    read = control.read_seconds if isinstance(control, ControlFacts) else None
    if seconds and seconds < warn:
        wrong["log retention"] = f"{seconds} s, shorter than policy.warn_before_purge of {warn} s"
    if seconds and read is not None and seconds < read:
        wrong["log retention for a snapshot"] = (
            f"{seconds} s, shorter than the last reading of the source, {read:.0f} s"
        )
    return server_evidence(case, wrong) if wrong else None


def log_incomplete(case: BinlogCase) -> Evidence | None:
    source = case.source
    if source is None or not source.cascades:
        return None
    shown = {f"cascade {n}": f"{key}: not in the log of {source.version}" for n, key in enumerate(source.cascades, 1)}
    return server_evidence(case, shown)


# ---- the position, by file ---------------------------------------------------------------------


def binlog_purged(case: BinlogCase) -> Evidence | None:
    pair = with_log(case.both)
    if pair is None or pair[0].by_gtid(pair[1]) or not pair[0].binlog_files:
        return None
    source, stored = pair
    gone = stored.place.comparable(source.current) and stored.file not in source.sizes
    lost = file_available(source, stored.place).state is Availability.LOST
    return file_evidence(case) if gone and lost else None


def newer_than_all(source: BinlogFacts, stored: BinlogPlace) -> bool:
    """Whether the stored file is newer than any on the server."""
    not_yet = file_available(source, stored.place).state is Availability.NOT_YET
    return not_yet and stored.file not in source.sizes and stored.place.file_number > source.current.file_number


def source_changed(case: BinlogCase) -> Evidence | None:
    """Another server under the old address: without GTID its files may have the same names and mean something else."""
    pair = with_log(case.both)
    if pair is None or pair[0].by_gtid(pair[1]):
        return None
    source, stored = pair
    known = known_servers(case.seen)
    differs: dict[str, object] = {}
    # MariaDB has no server_uuid: a watermark names a run of the server, which says nothing after a restart
    if known and source.server_uuid and source.server_uuid not in known:
        differs["server_uuid before"] = ", ".join(sorted(known))
    if not stored.place.comparable(source.current):
        differs["file names"] = f"{stored.place.base} stored, {source.current.base} on the server"
    if not differs or (case.streams and not case.same_server):
        return None
    shown = {"server_uuid now": source.server_uuid or "none", **differs}
    return {**server_evidence(case, shown), **file_evidence(case)}


def position_past_end(case: BinlogCase) -> Evidence | None:
    """The file is shorter than what was read from it: the server lost transactions that the connector saw (INV 26)."""
    pair = with_log(case.both_of_one_server)
    if pair is None or not pair[0].is_own_log(pair[1], known_servers(case.seen)):
        return None
    return file_evidence(case) if past_end(*pair) else None


def position_mid_event(case: BinlogCase) -> Evidence | None:
    pair = with_log(case.both_of_one_server)
    if pair is None or not pair[0].is_own_log(pair[1], known_servers(case.seen)):
        return None
    look = pair[0].at_offset
    if look is None or look.place is not EventBoundary.INSIDE:
        return None
    texts = server_evidence(case, {"the server says": look.said or "no event begins at the position"})
    return {**texts, **file_evidence(case)}


def past_end(source: BinlogFacts, stored: BinlogPlace) -> bool:
    """Whether the position's file is there and ends before it."""
    return stored.file in source.sizes and not file_available(source, stored.place)


def streams_elsewhere_by_file(case: BinlogCase) -> Evidence | None:
    """A connector that streams from a file or a place that this server has not reached."""
    pair = with_log(case.both)
    if pair is None:
        return None
    source, stored = pair
    reached = stored.place.comparable(source.current) and stored.place <= source.current
    return None if reached and not past_end(source, stored) else file_evidence(case)


def of_another_make(case: AnyCase, here: str, stored: str) -> Evidence | None:
    """MySQL's sets and MariaDB's positions cannot be compared."""
    if case.source is None or not case.source.log_bin or case.offset is None or not case.offset.foreign:
        return None
    text = f"the server's GTIDs are {here}, the offset's {stored}"
    return {
        **server_evidence(case, {"gtids": text}),
        **offset_evidence(case),
        **evidence(case, OFFSETS, {"gtids stored": case.offset.foreign}),
    }


# ---- how long it stays -------------------------------------------------------------------------


def at_risk(case: BinlogCase) -> Evidence | None:
    """The log from the stored position on may be purged within the time that the policy wants to be warned."""
    pair = case.both
    purge = None if pair is None else pair[0].purge_forecast(pair[1])
    if purge is None or purge.earliest_s is None:
        return None
    warn = case.seen.pipeline.policy.warn_before_purge
    if purge.earliest_s >= warn or (case.streams and purge.in_newest_file):
        return None
    shown = {
        "may be purged in": f"{purge.earliest_s:.0f} s or later",
        "policy.warn_before_purge": f"{warn} s",
        "why": purge.basis,
    }
    return {**server_evidence(case, shown), **offset_evidence(case), **state_evidence(case)}


def duplicate_server_id(case: AnyCase) -> Evidence | None:
    return failed_as(case, "DUPLICATE_SERVER_ID")


# for a connector that does not read, the evidence also says how long that may last
WHILE_NOT_READING = Beside(frozenset({52, 53}), lambda case: at_risk(case) or {})

FILE_PROBLEMS: tuple[Problem, ...] = (
    Problem("SOURCE_MISCONFIGURED", 25, "The source keeps no binary log.", log_off),
    Problem(
        "SOURCE_CHANGED",
        32,
        "The server that answers is not the one on which the position was taken; its file names mean something else.",
        source_changed,
        FULL_SNAPSHOT,
        about_position=True,
    ),
    Problem(
        "BINLOG_PURGED",
        33,
        "The binlog file at which the connector would continue was purged from the source.",
        binlog_purged,
        FULL_SNAPSHOT,
        about_position=True,
        on_request=("diff_repair", "skip"),
    ),
    Problem(
        "POSITION_PAST_END",
        34,
        "The stored position is beyond the end of its file: the server lost changes that the connector has read.",
        position_past_end,
        ("resume_next_file", "diff_repair", "full_snapshot"),
        about_position=True,
    ),
    Problem(
        "POSITION_MID_EVENT",
        35,
        "No event begins at the stored position: the file was truncated, or is another file.",
        position_mid_event,
        ("resume_next_file", "diff_repair", "full_snapshot"),
        about_position=True,
    ),
    Problem("SOURCE_MISCONFIGURED", 47, "The source's log does not hold whole rows.", rows_misconfigured),
    Problem(
        "DUPLICATE_SERVER_ID",
        50,
        "Another client reads the log with the connector's server id, and the server disconnects one of them.",
        duplicate_server_id,
        on_request=("restart",),
    ),
    Problem(
        "AT_RISK",
        54,
        "The log from the stored position on may be purged sooner than policy.warn_before_purge.",
        at_risk,
        WARNING,
        on_request=("full_snapshot", "diff_repair"),
        in_order=True,
    ),
    Problem(
        "SOURCE_MISCONFIGURED",
        92,
        "The source's log settings or its user's privileges do not suffice for a recovery.",
        retention_misconfigured,
        WARNING,
    ),
    Problem(
        "LOG_INCOMPLETE",
        71,
        "Foreign keys change rows of captured tables, and this server does not log these changes.",
        log_incomplete,
        WARNING,
        on_request=("full_snapshot", "diff_repair"),
    ),
)


def xa_rolled_back(case: AnyCase) -> Evidence | None:
    """Rows of a rolled back XA transaction may be in the sink: they were sent at its PREPARE (INV 32)."""
    source, control = case.source, case.seen.control
    if source is None or not isinstance(control, ControlFacts):
        return None
    doubts = {name: rollback_doubt(before, source.xa) for name, before in control.compared_xa.items()}
    shown = {f"since the last comparison of {name}": why for name, why in doubts.items() if why}
    return server_evidence(case, shown) if shown else None


XA_ROLLED_BACK = Problem(
    "XA_ROLLED_BACK",
    72,
    "XA transactions were rolled back after their rows may have been sent: such rows may be in the sink.",
    xa_rolled_back,
    WARNING,
    on_request=("full_snapshot", "diff_repair"),
)
