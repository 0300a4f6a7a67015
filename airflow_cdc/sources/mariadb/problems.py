"""MariaDB's rows of the diagnosis, which concern its GTIDs; rows about file and position are shared with MySQL.

A stored position is lost if in any domain the log's oldest file begins after it. It comes from another server if this
server never logged one of its transactions. MariaDB servers have only an id that their administrator chose, so that
id and the GTID position at which the file begins decide whose log a file and position belong to.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from airflow_cdc.core.error_texts import KnownText
from airflow_cdc.core.position import Availability
from airflow_cdc.core.problem import FULL_SNAPSHOT, Case, Evidence, Problem, Rules
from airflow_cdc.core.text import shorten
from airflow_cdc.decisions.diagnosis.evidence import OFFSETS, evidence, offset_evidence, server_evidence, state_evidence
from airflow_cdc.decisions.diagnosis.strategy import DETOUR, DIFF_REPAIR, FULL, TRANSLATE
from airflow_cdc.sources.mariadb.facts import MariaDbFacts, events_of
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.binlog_problems import (
    FILE_PROBLEMS,
    WHILE_NOT_READING,
    XA_ROLLED_BACK,
    file_evidence,
    newer_than_all,
    of_another_make,
    position_mid_event,
    position_past_end,
    streams_elsewhere_by_file,
    with_log,
)
from airflow_cdc.sources.mysql.error_texts import SHARED

# with which it refuses a connector: its own about GTIDs, MySQL's for the rest
TEXTS: Final[tuple[KnownText, ...]] = (
    *SHARED,
    KnownText(
        "GTID_PURGED",
        51,
        r"could not find GTID state requested by (slave|replica)",
        "transactions that were not read yet were purged",
        says="Could not find GTID state requested by slave in any binlog files",
    ),
    KnownText(
        "GTID_NOT_CONTAINED",
        61,
        r"requested to start from GTID [\d-]+, which is not in the (master|source|primary)'s binlog|"
        r"binlog on the (master|source|primary) is missing the GTID [\d-]+ requested",
        "the stored place names a transaction that this server never had, or lost",
        says="requested to start from GTID 0-1-100, which is not in the master's binlog",
    ),
)


MariaDbCase: TypeAlias = Case[MariaDbFacts, MariaDbPosition]


def purged(case: MariaDbCase) -> Evidence | None:
    """No log file still holds some of the transactions that the connector has not read."""
    found = with_log(case.both)
    if found is None or not found[1].domains or found[0].domains is None:
        return None
    lost = found[0].available(found[1]).state is Availability.LOST
    if not lost or not (found[0].lacks_purged(found[1]) or _torn(case)):
        return None
    begins, stored = found[0].domains.purged, found[1].domains
    return {
        **_told(case, stored, purged=begins, missing=(begins - stored) or found[0].domains.hole),
        **_only_the_rest_of_one(case, found[0], stored),
    }


def _only_the_rest_of_one(case: MariaDbCase, source: MariaDbFacts, stored: Domains) -> Evidence:
    """Evidence that only a part of one transaction can be missing: Debezium's offset names one only after its end.

    On a quiet server the offset therefore stays one transaction behind. That transaction's events are then the last in
    the topics, and only the rest of them can be missing; there is no gap of other changes.
    """
    lacks = () if source.domains is None else (source.domains.logged.position - stored).spans
    if (
        case.connector is None
        or len(lacks) != 1
        or lacks[0].count != 1
        or str(lacks[0].last) not in case.connector.sent
    ):
        return {}
    text = f"{lacks[0].last}, the newest of the log and the only one that the offset lacks: at most a part of it was not sent"
    return evidence(case, "topics", {"last event's transaction": text})


def _torn(case: MariaDbCase) -> bool:
    """Whether the end of a log file was cut off: the server passes over what stood there, and so does the connector.

    As long as the stored place is in that file, the rows about the place say so.
    """
    domains = case.source.domains if case.source else None
    return domains is not None and bool(domains.hole) and not (position_past_end(case) or position_mid_event(case))


def skips_ahead(case: MariaDbCase) -> Evidence | None:
    """The offset is behind a DDL, and counts the server's heartbeats since then as events that were read.

    Debezium (3.5.0) skips as many events when it starts there: those of the next transactions. While it streams, it
    moves on by itself.
    """
    found = with_log(case.both_of_one_server)
    if found is None or case.streams or not found[1].read or found[0].at_offset is None:
        return None
    own = events_of(found[0].at_offset)
    if own is None or found[1].read <= own:
        return None
    counted = {"events that it would skip": f"{found[1].read}, and {own} belong to the transaction at the position"}
    return {**evidence(case, OFFSETS, counted), **offset_evidence(case), **state_evidence(case)}


def ahead(case: MariaDbCase) -> Evidence | None:
    """The stored file is newer than any here, and the missing transactions have this server's id: it lost its log."""
    found = with_log(case.both_of_one_server)
    if found is None or not newer_than_all(*found):
        return None
    source, stored = found
    if not stored.domains:
        return file_evidence(case)
    if source.server_id not in source.unseen(stored).servers:
        return None
    return {**file_evidence(case), **(_unseen(case) or {})}


def not_contained(case: MariaDbCase) -> Evidence | None:
    return None if with_log(case.both_of_one_server) is None else _unseen(case)


def streams_elsewhere(case: MariaDbCase) -> Evidence | None:
    """A connector that streams reads from a server that knows its position; our connection reaches another server."""
    found = with_log(case.both)
    if found is None or not case.streams or case.same_server:
        return None
    return _unseen(case) if found[1].domains else streams_elsewhere_by_file(case)


def other_make(case: MariaDbCase) -> Evidence | None:
    return of_another_make(case, "MariaDB's", "MySQL's")


def missing_in_offset(case: MariaDbCase) -> Evidence | None:
    """Debezium's MariaDB connector (3.5.0) asks only by GTID: it cannot start from file and position."""
    found = with_log(case.both)
    if found is None or found[1].domains or found[0].domains is None or found[0].domains.logged.position.is_empty:
        return None
    return {
        **server_evidence(case, {"gtids logged": shorten(str(found[0].domains.logged))}),
        **offset_evidence(case),
    }


def _unseen(case: MariaDbCase) -> Evidence | None:
    """The stored position names transactions that this server lost or never logged."""
    found = case.both
    if found is None or not found[1].domains:
        return None
    source, stored = found
    lacks = source.unseen(stored)
    if not lacks or source.domains is None:
        return None
    return _told(case, found[1].domains, logged=source.domains.logged, unseen=lacks)


def _told(case: MariaDbCase, stored: Domains, **said: object) -> Evidence:
    shown = {f"gtids {name}": shorten(str(value)) or "none" for name, value in said.items()}
    return {
        **evidence(case, OFFSETS, {"gtids stored": shorten(str(stored))}),
        **server_evidence(case, shown),
        **state_evidence(case),
    }


PROBLEMS = (
    *FILE_PROBLEMS,
    Problem(
        "GTID_PURGED",
        30,
        "Transactions that the connector has not read were purged from the source's binlog.",
        purged,
        (DETOUR, FULL),
        about_position=True,
        on_request=("diff_repair", "skip"),
    ),
    Problem(
        "POSITION_AHEAD",
        31,
        "The stored file is newer than any on the server: it was reset, rebuilt or restored from a backup.",
        ahead,
        FULL_SNAPSHOT,
        about_position=True,
        on_request=("diff_repair",),
    ),
    Problem(
        "GTID_MODE_MISMATCH",
        36,
        "The stored offset's GTIDs are MySQL's, and this server's are MariaDB's.",
        other_make,
        about_position=True,
        on_request=("full_snapshot",),
    ),
    Problem(
        "GTID_NOT_CONTAINED",
        37,
        "The stored place names transactions that this server does not have: a lagging replica was promoted, or it was restored.",
        not_contained,
        (TRANSLATE, FULL),
        about_position=True,
    ),
    Problem(
        "UNKNOWN",
        38,
        "The connector streams from a position that this server has not reached: another server answers.",
        streams_elsewhere,
    ),
    Problem(
        "TRANSACTION_HALF_SENT",
        48,
        "The stored offset counts more events than belong to its transaction: a connector that starts there skips changes.",
        skips_ahead,
        (DIFF_REPAIR, FULL),
        about_position=True,
    ),
    Problem(
        "GTID_MISSING_IN_OFFSET",
        44,
        "The server counts by GTID and the stored offset has none: its connector cannot start from file and position.",
        missing_in_offset,
        FULL_SNAPSHOT,
        about_position=True,
    ),
    XA_ROLLED_BACK,
)

RULES = Rules(PROBLEMS, beside=(WHILE_NOT_READING,), texts=TEXTS)
