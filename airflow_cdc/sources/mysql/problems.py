"""MySQL's own rows of the diagnosis: GTID sets, a failover, XA. For file and position see binlog_problems.py."""

from __future__ import annotations

from typing import TypeAlias

from airflow_cdc.core.offset import Inside
from airflow_cdc.core.position import Availability
from airflow_cdc.core.problem import FULL_SNAPSHOT, Case, Evidence, Problem, Rules
from airflow_cdc.core.text import shorten
from airflow_cdc.decisions.diagnosis.evidence import (
    OFFSETS,
    evidence,
    offset_evidence,
    server_evidence,
    state_evidence,
)
from airflow_cdc.decisions.diagnosis.strategy import DETOUR, DIFF_REPAIR, FULL, NEXT_FILE, TRANSLATE
from airflow_cdc.sources.mysql.binlog_problems import (
    FILE_PROBLEMS,
    WHILE_NOT_READING,
    XA_ROLLED_BACK,
    file_evidence,
    known_servers,
    newer_than_all,
    of_another_make,
    streams_elsewhere_by_file,
    with_log,
)
from airflow_cdc.sources.mysql.detour import detour_blocker, failover_blocker
from airflow_cdc.sources.mysql.error_texts import TEXTS
from airflow_cdc.sources.mysql.facts import MySqlFacts
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition, file_after

MySqlCase: TypeAlias = Case[MySqlFacts, MySqlPosition]

_PERMISSIVE = frozenset({"ON_PERMISSIVE", "OFF_PERMISSIVE"})


def gtid_evidence(case: MySqlCase, stored: GtidSet, **sets: GtidSet) -> Evidence:
    """The stored set next to sets of the server, each with its number of transactions."""
    shown = {f"gtids {name}": f"{shorten(str(s)) or 'none'} ({s.count} transactions)" for name, s in sets.items()}
    return {
        **evidence(case, OFFSETS, {"gtids stored": shorten(str(stored))}),
        **server_evidence(case, shown),
        **state_evidence(case),
    }


def gtid_purged(case: MySqlCase) -> Evidence | None:
    pair = with_log(case.both)
    if pair is None or not pair[1].gtids:
        return None
    source, stored = pair[0], pair[1].gtids
    if source.available(pair[1]).state is not Availability.LOST or not stored.issubset(source.executed):
        return None
    purged = source.gtid_purged or GtidSet()
    missing = purged - stored
    return {**gtid_evidence(case, stored, purged=purged, missing=missing), **server_evidence(case, _replicas(source))}


def _replicas(source: MySqlFacts) -> dict[str, object]:
    """Who reads the server's log now: a replica among them may still have it. Anyone with a login there can add it."""
    return {f"log reader {n}": text for n, text in enumerate(source.replicas_seen, 1)}


def position_ahead(case: MySqlCase) -> Evidence | None:
    """The stored file is newer than any on the server: it lost, or never wrote, what the connector read."""
    pair = with_log(case.both_of_one_server)
    if pair is None or not newer_than_all(*pair):
        return None
    source, stored = pair[0], pair[1].gtids
    if not stored:
        return file_evidence(case)
    unseen = stored - source.executed
    lost_its_own = source.server_uuid in unseen.uuids  # a promoted replica would lack transactions of another server
    more = gtid_evidence(case, stored, executed=source.executed, unseen=unseen)
    return {**file_evidence(case), **more} if lost_its_own else None


def gtid_mode_mismatch(case: MySqlCase) -> Evidence | None:
    """The offset has GTIDs and the server may write transactions without them, or with the other make's."""
    if text := of_another_make(case, "MySQL's", "MariaDB's"):
        return text
    pair = with_log(case.both)
    if pair is None or not pair[1].gtids or pair[0].gtid_mode == "ON":
        return None
    mode = pair[0].gtid_mode
    note = "anonymous transactions are in no GTID set" if mode in _PERMISSIVE else "no GTIDs are written"
    return {**server_evidence(case, {"gtid_mode": f"{mode}: {note}"}), **offset_evidence(case)}


def gtid_not_contained(case: MySqlCase) -> Evidence | None:
    return None if with_log(case.both_of_one_server) is None else _unseen(case)


def streams_elsewhere(case: MySqlCase) -> Evidence | None:
    """The connector streams, so its server knows its position; but the server at our address is another one.

    Behind a proxy the facts may come from a lagging replica, so this does not justify a new snapshot.
    """
    pair = with_log(case.both)
    if pair is None or not case.streams or case.same_server:
        return None
    return _unseen(case) if pair[1].gtids else streams_elsewhere_by_file(case)


def _unseen(case: MySqlCase) -> Evidence | None:
    pair = case.both
    if pair is None:
        return None
    source, stored = pair[0], pair[1].gtids or GtidSet()
    unseen = stored - source.executed
    return None if unseen.is_empty else gtid_evidence(case, stored, executed=source.executed, unseen=unseen)


def gtid_missing_in_offset(case: MySqlCase) -> Evidence | None:
    """On a GTID server the connector asks by set: without one it starts from the oldest file that exists."""
    pair = with_log(case.both)
    if pair is None or pair[1].gtids or pair[0].gtid_mode != "ON" or not pair[0].gtid_executed:
        return None
    if pair[1].by_file:
        return None  # this connector never asks by set
    modes = {"gtid_mode": pair[0].gtid_mode, "gtids executed": pair[0].gtid_executed}
    return {**server_evidence(case, modes), **offset_evidence(case)}


def half_sent(case: MySqlCase) -> Evidence | None:
    """The stored set lists the transaction that the offset is inside of: a start from there skips the rest of it.

    Debezium lists it after it lost its connection inside it and read it again. A start skips as many events of the next
    transactions as the offset counts, too. While the connector streams, it sends the rest and moves on by itself.
    """
    pair = with_log(case.both_of_one_server)
    if pair is None or case.streams or case.offset is None or case.offset.inside is not Inside.TRANSACTION:
        return None
    look, stored = pair[0].at_offset, pair[1].gtids
    if look is None or not look.transaction or not stored:
        return None
    transaction = GtidSet.parse(look.transaction)
    if not transaction.issubset(stored):
        return None
    return {
        **server_evidence(case, {"transaction at the position": look.transaction}),
        **evidence(case, OFFSETS, {"gtids stored": shorten(str(stored))}),
        **offset_evidence(case),
        **state_evidence(case),
    }


def failed_over(case: MySqlCase) -> Evidence | None:
    """The server that answers is not one that this pipeline was read from, and the connector has failed.

    The rows before this one judge whether that server holds all that was read, and kept all that was not.
    """
    pair, connector = with_log(case.both), case.connector
    if pair is None or connector is None or not pair[1].gtids:
        return None
    source = pair[0]
    known, states = known_servers(case.seen), {connector.state, *(task.state for task in connector.tasks)}
    if not known or source.server_uuid in known or "FAILED" not in states:
        return None
    shown = {
        "server_uuid now": source.server_uuid,
        "server_uuid before": ", ".join(sorted(known)),
        "source is at": source.address or "not known",
        "connector reads at": connector.address,
    }
    return {**server_evidence(case, shown), **offset_evidence(case), **state_evidence(case)}


# ---- what blocks a strategy --------------------------------------------------------------------


def not_begun(case: MySqlCase) -> str:
    """After a RESET, until the first write: Debezium asks for the log by set, and its client fails on an empty one."""
    source = case.source
    if source is None or source.gtid_mode != "ON" or source.gtid_executed:
        return ""
    return "gtid_executed is empty, and a connector cannot start at an empty set: a transaction must be written first"


def no_next_file(case: MySqlCase) -> str:
    pair = case.both
    if pair is None:
        return ""  # a failed read is reported elsewhere
    source, stored = pair
    return "" if file_after(source.sizes, stored.file) else f"no file follows {stored.file}"


PROBLEMS = (
    *FILE_PROBLEMS,
    Problem(
        "GTID_PURGED",
        30,
        "Transactions that the connector has not read were purged from the source's binlog.",
        gtid_purged,
        (DETOUR, FULL),
        about_position=True,
        on_request=("diff_repair", "skip"),
    ),
    Problem(
        "POSITION_AHEAD",
        31,
        "The stored file is newer than any on the server: it was reset, rebuilt or restored from a backup.",
        position_ahead,
        FULL_SNAPSHOT,
        about_position=True,
        on_request=("diff_repair",),
    ),
    Problem(
        "GTID_MODE_MISMATCH",
        36,
        "The stored offset holds GTIDs and the server writes transactions without GTIDs.",
        gtid_mode_mismatch,
        about_position=True,
        on_request=("full_snapshot",),
    ),
    Problem(
        "GTID_NOT_CONTAINED",
        37,
        "The stored set holds transactions that this server does not have: a lagging replica was promoted, or it was restored.",
        gtid_not_contained,
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
        "The stored set lists a transaction of which only a part was sent: a connector that starts there skips the rest.",
        half_sent,
        (DIFF_REPAIR, FULL),
        about_position=True,
    ),
    Problem(
        "GTID_MISSING_IN_OFFSET",
        44,
        "The server uses GTIDs and the stored offset has none: the connector would start at the oldest transaction, or not at all.",
        gtid_missing_in_offset,
        FULL_SNAPSHOT,
        about_position=True,
    ),
    Problem(
        "SOURCE_FAILED_OVER",
        49,
        "Another server took over; it has everything that was read, and still has everything that was not.",
        failed_over,
        (TRANSLATE, FULL),
        on_request=("restart", "full_snapshot", "diff_repair"),
        in_order=True,
    ),
    XA_ROLLED_BACK,
)

RULES = Rules(
    PROBLEMS,
    beside=(WHILE_NOT_READING,),
    blockers={
        TRANSLATE: (failover_blocker, not_begun),
        DETOUR: (detour_blocker, not_begun),
        NEXT_FILE: (no_next_file, not_begun),
        DIFF_REPAIR: (not_begun,),
        FULL: (not_begun,),
    },
    offers=frozenset({TRANSLATE, DETOUR, NEXT_FILE}),
    texts=TEXTS,
)
