"""PostgreSQL's rows of the diagnosis: its slots, its log, its publications, and which server answers.

Debezium shows little of this. With a position before the slot's, or ahead of the server's log, it runs and silently
loses rows; with a lost slot it shows RUNNING and no task for half an hour. So these rows rely on the server's answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from airflow_cdc.core.observation import ControlFacts, Observation
from airflow_cdc.core.offset import Inside
from airflow_cdc.core.problem import FULL_SNAPSHOT, WARNING, Case, Evidence, Problem, Rules
from airflow_cdc.decisions.diagnosis.evidence import offset_evidence, server_evidence, state_evidence, tables_of
from airflow_cdc.decisions.diagnosis.strategy import DIFF_REPAIR, FULL
from airflow_cdc.sources.postgres.error_texts import TEXTS
from airflow_cdc.sources.postgres.facts import Identity, PgFacts, TableFacts
from airflow_cdc.sources.postgres.kind import PostgresSettings
from airflow_cdc.sources.postgres.position import PgPosition
from airflow_cdc.sources.postgres.slot import PLUGIN, Slot

PgCase: TypeAlias = Case[PgFacts, PgPosition]

_COMPARED = (DIFF_REPAIR, FULL)
_GB = 1024**3
# Debezium retries for a minute (slot.max.retries, slot.retry.delay.ms) while another reader has the slot
_UNREAD_AFTER_S = 120.0


# ---- the server --------------------------------------------------------------------------------


def wal_level(case: PgCase) -> Evidence | None:
    """Without wal_level = logical nothing can be decoded, and a slot cannot even be created."""
    source = case.source
    level = source.settings.get("wal_level", "logical") if source else "logical"
    return None if level == "logical" else server_evidence(case, {"wal_level": f"{level}, must be logical"})


def other_system(case: PgCase) -> Evidence | None:
    """The tables were read from another cluster: the same LSNs mean other changes here."""
    return _other(case, lambda known, now: known.partition("/")[0] != now.partition("/")[0])


def other_timeline(case: PgCase) -> Evidence | None:
    """The same cluster on another timeline: a standby was promoted, or a backup restored to a point in time.

    A slot that was synchronised from the primary exists here with all the log it needs: then nothing is wrong.
    """
    source = case.source
    if source is not None and source.slot is not None and source.slot.synced and not source.slot.invalidated:
        return None
    return _other(case, lambda known, now: known.partition("/")[0] == now.partition("/")[0] and known != now)


def lsn_ahead(case: PgCase) -> Evidence | None:
    """The server's log ends before the stored LSN: it was restored from older files, or another server answers."""
    found = case.both_of_one_server
    if found is None or found[0].log.standby:
        return None
    source, stored = found
    return _place(case, source.slot) if stored.lsn > source.log.lsn else None


# ---- the slot ----------------------------------------------------------------------------------


def slot_missing(case: PgCase) -> Evidence | None:
    source = case.source_of_offset
    if source is None or source.slot is not None:
        return None
    return {
        **server_evidence(case, {f"slot {source.slot_name}": "does not exist"}),
        **offset_evidence(case),
        **state_evidence(case),
    }


def slot_invalidated(case: PgCase) -> Evidence | None:
    """Invalidated by max_slot_wal_keep_size, idle_replication_slot_timeout, or as the server otherwise says."""
    source = case.source_of_offset
    if source is None or source.slot is None or not source.slot.invalidated:
        return None
    return _place(case, source.slot)


def slot_misfit(case: PgCase) -> Evidence | None:
    """The slot with that name is not the connector's: it has another database or plugin, or is a physical slot."""
    source = case.source
    if source is None or source.slot is None:
        return None
    misfit = source.slot.misfit(source.log.database, _plugin(case))
    return server_evidence(case, {f"slot {source.slot_name}": misfit}) if misfit else None


def lsn_behind_restart(case: PgCase) -> Evidence | None:
    """The log between the stored LSN and the slot's restart_lsn was removed."""
    found = _at_rest(case)
    if found is None:
        return None
    stored, slot = found
    return _place(case, slot) if slot.restart is not None and stored.lsn < slot.restart else None


def lsn_before_slot(case: PgCase) -> Evidence | None:
    """The slot was moved past the stored LSN: the server would start there and silently skip the changes between."""
    found = _at_rest(case)
    if found is None:
        return None
    stored, slot = found
    return _place(case, slot) if slot.confirmed is not None and stored.lsn < slot.confirmed else None


def streams_elsewhere(case: PgCase) -> Evidence | None:
    """The connector streams, so its server has its slot; but the server at our address is another one."""
    found = case.both
    if found is None or not case.streams or case.same_server:
        return None
    source, stored = found
    if source.slot is not None and not source.slot.invalidated and stored.lsn <= source.log.lsn:
        return None
    return _place(case, source.slot)


def slot_active_elsewhere(case: PgCase) -> Evidence | None:
    """Another client reads the slot while the connector does not: the connector never gets what that client confirms."""
    source, connector = case.source, case.connector
    if source is None or source.slot is None or not source.slot.active or connector is None:
        return None
    at_rest = connector.state == "STOPPED" or bool(case.failures)
    if not at_rest:
        return None
    reader = {f"slot {source.slot_name}": f"in use by process {source.slot.active_pid}"}
    return {**server_evidence(case, reader), **state_evidence(case)}


def no_wal_sender(case: PgCase) -> Evidence | None:
    """All WAL senders are in use, and the connector has none."""
    source = case.source
    limit = int(source.settings.get("max_wal_senders") or 0) if source else 0
    if source is None or not limit or source.wal_senders < limit or case.streams:
        return None
    return {
        **server_evidence(case, {"WAL senders": f"{source.wal_senders} of max_wal_senders {limit}"}),
        **state_evidence(case),
    }


def slot_unread(case: PgCase) -> Evidence | None:
    """The connector reports RUNNING, but nobody has read its slot for longer than a reconnect takes.

    Debezium retries every failure to connect, even a wrong password: every ten seconds, for ever, and shows RUNNING.
    Servers before 17 do not say how long a slot has been unread. During its own snapshot the connector reads no slot.
    """
    found = case.both_of_one_server
    slot = found[0].slot if found is not None else None
    if slot is None or slot.inactive_s is None or not case.streams or case.offset is None:
        return None
    if slot.inactive_s < _UNREAD_AFTER_S or case.offset.inside is Inside.SNAPSHOT:
        return None
    unread = {f"slot {slot.name}": f"nobody has read it for {slot.inactive_s:.0f} s"}
    return {**server_evidence(case, unread), **offset_evidence(case), **state_evidence(case)}


def at_risk(case: PgCase) -> Evidence | None:
    """The log that the slot needs may be removed soon."""
    source = case.source
    if source is None or source.forecast is None or source.slot is None or source.slot.invalidated:
        return None
    earliest = source.forecast.earliest_s
    if earliest is None or earliest >= case.seen.pipeline.policy.warn_before_purge:
        return None
    limits = ("max_slot_wal_keep_size", "idle_replication_slot_timeout")
    shown = {name: source.settings[name] for name in limits if source.settings.get(name, "0") not in ("0", "-1")}
    return {**server_evidence(case, {"forecast": source.forecast, **shown}), **_place(case, source.slot)}


def slot_grows(case: PgCase) -> Evidence | None:
    """Nothing limits how much log the slot keeps: the server's disk is at risk, not the slot."""
    source, own = case.source, case.seen.pipeline.source
    if source is None or source.forecast is None or not isinstance(own, PostgresSettings):
        return None
    kept = source.forecast.kept_bytes or 0
    if source.forecast.left_bytes is not None or kept < own.warn_kept_gb * _GB:
        return None
    return {**server_evidence(case, {"forecast": source.forecast}), **_place(case, source.slot)}


# ---- publication and tables --------------------------------------------------------------------


def publication_missing(case: PgCase) -> Evidence | None:
    """Changes written while the publication was missing, or did not include a table, are not sent afterwards."""
    source, connector = case.source, case.connector
    begun = case.offset is not None or (connector is not None and bool(connector.offset_unseen))
    if source is None or not begun or not source.publication_name or _plugin(case) != PLUGIN:
        return None
    if source.publication is None:
        return server_evidence(case, {f"publication {source.publication_name}": "does not exist in this database"})
    absent = source.unpublished()
    return (
        server_evidence(case, {f"publication {source.publication_name}": f"lacks {', '.join(absent)}"})
        if absent
        else None
    )


def published_in_part(case: PgCase) -> Evidence | None:
    source = case.source
    if source is None or _plugin(case) != PLUGIN:
        return None
    faults = {name: text for name, text in source.log_faults.items() if name != "wal_level"}
    return server_evidence(case, faults) if faults else None


def replica_identity(case: PgCase) -> Evidence | None:
    """Tables whose deletes and updates do not identify the changed row, or carry too little of the row."""
    source = case.source
    wrong = {f"replica identity of {one.name}": why for one in _tables(source) if (why := identity_fault(one))}
    return server_evidence(case, wrong) if wrong else None


def identity_fault(table: TableFacts) -> str:
    """What is wrong with a table's replica identity; "" if every change identifies its row."""
    if not table.tells_rows_apart:
        what = "NOTHING" if table.identity is Identity.NOTHING else "DEFAULT, and the table has no primary key"
        return f"{what}: the server refuses UPDATE and DELETE of a published table, the application's own too"
    if table.identity is Identity.INDEX and table.has_key:
        return "an index, while the table has a primary key: a delete does not carry the key"
    return ""


def log_incomplete(case: PgCase) -> Evidence | None:
    """Changed rows for which there is no event."""
    unlogged = {
        f"table {one.name}": "is UNLOGGED: its changes are in no log" for one in _tables(case.source) if one.unlogged
    }
    parents = {
        f"table {one.name}": "has tables that inherit from it: a SELECT shows their rows, its events do not"
        for one in _tables(case.source)
        if one.has_children
    }
    found = {**unlogged, **parents}
    return server_evidence(case, found) if found else None


def rights_missing(case: PgCase) -> Evidence | None:
    source = case.source
    lacks = {f"missing privilege {n}": need for n, need in enumerate(source.missing_privileges, 1)} if source else {}
    return server_evidence(case, lacks) if lacks else None


def _plugin(case: PgCase) -> str:
    """The output plugin that the connector reads with; the older ones, wal2json and decoderbufs, need no publication."""
    return (case.connector.config.get("plugin.name", "").strip() if case.connector else "") or PLUGIN


# ---- what they share ---------------------------------------------------------------------------


def known_servers(seen: Observation) -> frozenset[str]:
    """Servers ("system/timeline") the sink's tables were last read from, and those the connector was moved to since."""
    stamps = [facts.stamp for facts in (tables_of(seen) or {}).values() if facts.stamp]
    marks = [stamp.watermark for stamp in stamps if stamp.watermark]
    led_to = seen.control.servers if isinstance(seen.control, ControlFacts) else ()
    return frozenset([*(str(mark["server"]) for mark in marks if mark.get("server")), *led_to])


def _other(case: PgCase, differs: Callable[[str, str], bool]) -> Evidence | None:
    found = case.both_of_one_server
    known = known_servers(case.seen)
    if found is None or not known:
        return None
    now = found[0].log.name
    if now in known or not all(differs(one, now) for one in known):
        return None
    shown = {"system/timeline now": now, "system/timeline before": ", ".join(sorted(known))}
    return {**server_evidence(case, shown), **_place(case, found[0].slot)}


def _at_rest(case: PgCase) -> tuple[PgPosition, Slot] | None:
    """The stored LSN and a slot that can be compared with it.

    None while the connector streams, because its stored offset is older than what it has confirmed. Also None inside
    its own snapshot, whose offset is no place to compare.
    """
    found = case.both_of_one_server
    if found is None or case.streams or case.offset is None or case.offset.inside is Inside.SNAPSHOT:
        return None
    source, stored = found
    return None if source.slot is None or source.slot.invalidated else (stored, source.slot)


def _place(case: PgCase, slot: Slot | None) -> Evidence:
    """The stored LSN, together with the slot's and the end of the log."""
    shown: dict[str, object] = {"end of the log": case.source.newest} if case.source else {}
    if slot is not None:
        told = {
            "restart_lsn": slot.restart or "none",
            "confirmed_flush_lsn": slot.confirmed or "none",
            "wal_status": slot.wal_status or "none",
            **({"invalidation_reason": slot.invalidated} if slot.invalidated else {}),
        }
        shown |= {f"slot {slot.name} {name}": value for name, value in told.items()}
    return {**offset_evidence(case), **server_evidence(case, shown), **state_evidence(case)}


def _tables(source: PgFacts | None) -> Iterable[TableFacts]:
    return source.tables.values() if source else ()


PROBLEMS: tuple[Problem, ...] = (
    Problem("WAL_LEVEL", 25, "The server's log does not hold what logical decoding needs.", wal_level),
    Problem(
        "SLOT_MISSING", 30, "The connector's replication slot does not exist on this server.", slot_missing, FULL_SNAPSHOT,
        about_position=True,
    ),
    Problem(
        "SLOT_INVALIDATED", 31, "The server gave up the log that the slot needed.", slot_invalidated, FULL_SNAPSHOT,
        about_position=True,
    ),
    Problem(
        "OTHER_SYSTEM", 32, "Another cluster answers than the one that the tables were read from.", other_system,
        FULL_SNAPSHOT, about_position=True,
    ),
    Problem(
        "OTHER_TIMELINE", 33, "The server is on another timeline: a standby was promoted, or a backup restored.",
        other_timeline, FULL_SNAPSHOT, about_position=True,
    ),
    Problem(
        "LSN_AHEAD", 34, "The stored LSN is beyond the end of the server's log: the server lost what the connector has read.",
        lsn_ahead, _COMPARED, about_position=True,
    ),
    Problem(
        "LSN_BEHIND_RESTART", 35, "The log after the stored LSN was removed: the slot begins later.", lsn_behind_restart,
        FULL_SNAPSHOT, about_position=True,
    ),
    Problem(
        "LSN_BEFORE_SLOT", 36,
        "The stored LSN is behind the slot's: the server would skip what lies between, without an error.",
        lsn_before_slot, _COMPARED, about_position=True,
    ),
    Problem(
        "PUBLICATION_MISSING", 37, "The publication is missing, or lacks a captured table: its changes are not sent.",
        publication_missing, FULL_SNAPSHOT,
    ),
    Problem(
        "UNKNOWN", 38, "The connector streams from a slot that this server does not have: another server answers.",
        streams_elsewhere,
    ),
    Problem("SOURCE_MISCONFIGURED", 47, "The publication does not send all changes of all rows.", published_in_part),
    Problem("SOURCE_MISCONFIGURED", 48, "The slot of that name is not one that the connector can read.", slot_misfit),
    Problem("SLOT_ACTIVE_ELSEWHERE", 49, "Another reader uses the connector's slot.", slot_active_elsewhere),
    Problem("MAX_WAL_SENDERS", 50, "The server has no WAL sender to spare for the connector.", no_wal_sender),
    Problem("AT_RISK", 54, "The log that the slot needs may be given up soon.", at_risk, WARNING, in_order=True),
    Problem(
        "CONNECTOR_LOOPING", 58, "The connector claims to run, and nobody reads its slot.", slot_unread,
        on_request=("restart", "full_snapshot", "diff_repair"), in_order=True,
    ),
    Problem("REPLICA_IDENTITY", 72, "Updates or deletes of a table do not say which row they changed.", replica_identity, WARNING),
    Problem("SLOT_GROWS", 73, "Nothing limits the log that the slot keeps: it may fill the server's disk.", slot_grows, WARNING),
    Problem("LOG_INCOMPLETE", 71, "Rows of a captured table are in no event.", log_incomplete, WARNING),
    Problem("SOURCE_MISCONFIGURED", 96, "The reading role lacks rights that a recovery needs.", rights_missing, WARNING),
)  # fmt: skip

RULES = Rules(PROBLEMS, texts=TEXTS)
