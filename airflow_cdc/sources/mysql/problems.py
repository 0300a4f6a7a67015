"""Predicates about the source and the connector's position in its log.

A position is lost only by facts of the server. While a connector streams, some server knows its position; if that may be
another server than the one that answers here (a proxy, a replica), nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlOffset
from airflow_cdc.core.diagnosis.evidence import (
    Evidence,
    both,
    connector_address,
    connector_of,
    evidence,
    executed,
    file_evidence,
    gtid_evidence,
    known_servers,
    offset_evidence,
    offset_of,
    runs,
    same_address,
    server,
    source_of,
    state_evidence,
)
from airflow_cdc.core.diagnosis.forecast import Outlook, outlook
from airflow_cdc.core.diagnosis.observation import ControlFacts, Observation, Place, SourceFacts
from airflow_cdc.core.xa import rollback_doubt
from airflow_cdc.sources.mariadb import problems as domains
from airflow_cdc.sources.mysql.gtid import GtidSet

# a heartbeat is committed at least every 49 s on an idle connector (0.8 × connect.keep.alive.interval.ms)
_STUCK_AFTER_S = 120
_PERMISSIVE = frozenset({"ON_PERMISSIVE", "OFF_PERMISSIVE"})


def log_off(obs: Observation) -> Evidence | None:
    """Without a log there is no position to judge."""
    source = source_of(obs)
    return None if source is None or source.log_bin else evidence(obs, server(source), {"log_bin": "OFF, must be ON"})


def rows_misconfigured(obs: Observation) -> Evidence | None:
    """The log does not hold whole rows: what comes from it cannot be applied, and no recovery could end."""
    source = source_of(obs)
    if source is None:
        return None
    wrong = source.log_faults
    return evidence(obs, server(source), wrong) if wrong else None


def retention_misconfigured(obs: Observation) -> Evidence | None:
    """Rights a recovery needs and has not, or a retention that ends before a recovery (or its warning) does."""
    source = source_of(obs)
    if source is None:
        return None
    wrong = {f"missing privilege {n}": need for n, need in enumerate(source.missing_privileges, 1)}
    kept = source.retention.expire_s if source.retention else 0
    warn = obs.pipeline.policy.warn_before_purge
    read = obs.control.read_seconds if isinstance(obs.control, ControlFacts) else None
    if kept and kept < warn:
        wrong["log retention"] = f"{kept} s, shorter than policy.warn_before_purge of {warn} s"
    if kept and read is not None and kept < read:
        wrong["log retention for a snapshot"] = f"{kept} s, shorter than the last reading of the source, {read:.0f} s"
    return evidence(obs, server(source), wrong) if wrong else None


def gtid_purged(obs: Observation) -> Evidence | None:
    found = both(obs)
    if found is None or not found[1].by_gtid:
        return None
    source, stored = found[0], found[1].gtids
    if not stored:
        return domains.purged(obs, *found)
    purged = source.gtid_purged
    if purged is None or not stored.issubset(executed(source)):
        return None
    missing = purged - stored
    if missing.is_empty:
        return None
    shown = gtid_evidence(obs, source, stored, purged=purged, missing=missing)
    return {**shown, **evidence(obs, server(source), _replicas_seen(source))}


def _replicas_seen(source: SourceFacts) -> dict[str, object]:
    """Replicas that the server itself lists: they may still have the log; whoever has a login there can name them."""
    return {f"replica {n}": text for n, text in enumerate(source.replicas_seen, 1)}


def binlog_purged(obs: Observation) -> Evidence | None:
    found = both(obs)
    if found is None or found[1].by_gtid or not found[0].binlog_files:
        return None
    source, offset = found
    older = offset.position.comparable(source.current) and offset.position < source.current
    return file_evidence(obs, source, offset) if older and not _listed(source, offset) else None


def position_ahead(obs: Observation) -> Evidence | None:
    """The stored file is newer than any on the server, which therefore lost, or never wrote, what was read from it."""
    found = _settled(obs)
    if found is None:
        return None
    source, offset = found
    current = source.current
    newer = offset.position.comparable(current) and offset.position.file_number > current.file_number
    if not newer or _listed(source, offset):
        return None
    if not offset.by_gtid:
        return file_evidence(obs, source, offset)
    if not offset.gtids:
        return domains.ahead(obs, source, offset)
    unseen = offset.gtids - executed(source)
    lost_its_own = source.server_uuid in unseen.uuids  # a promoted replica would lack another server's
    more = gtid_evidence(obs, source, offset.gtids, executed=executed(source), unseen=unseen)
    return {**file_evidence(obs, source, offset), **more} if lost_its_own else None


def source_changed(obs: Observation) -> Evidence | None:
    """Another server under the old address: without GTID its files may have the same names and mean something else."""
    found = both(obs)
    if found is None or found[1].by_gtid:
        return None
    source, offset = found
    known = known_servers(obs)
    differs: dict[str, object] = {}
    if known and source.server_uuid not in known:
        differs["server_uuid before"] = ", ".join(sorted(known))
    if not offset.position.comparable(source.current):
        differs["file names"] = f"{offset.position.base} stored, {source.current.base} on the server"
    if not differs or (runs(obs) and not same_address(obs)):
        return None
    shown = {"server_uuid now": source.server_uuid or "none", **differs}
    return {**evidence(obs, server(source), shown), **file_evidence(obs, source, offset)}


def position_past_end(obs: Observation) -> Evidence | None:
    """The file is shorter than what was read from it: the server lost transactions that the connector saw (INV 26)."""
    found = _settled(obs)
    if found is None or not _own_log(obs, *found):
        return None
    source, offset = found
    return file_evidence(obs, source, offset) if _past_end(source, offset) else None


def position_mid_event(obs: Observation) -> Evidence | None:
    found = _settled(obs)
    if found is None or not _own_log(obs, *found):
        return None
    source, offset = found
    look = source.at_offset
    if look is None or look.place is not Place.INSIDE:
        return None
    said = evidence(obs, server(source), {"the server says": look.said or "no event begins at the position"})
    return {**said, **file_evidence(obs, source, offset)}


def gtid_not_contained(obs: Observation) -> Evidence | None:
    found = _settled(obs)
    return None if found is None else _unseen(obs, *found)


def streams_elsewhere(obs: Observation) -> Evidence | None:
    """A connector that streams has a server that knows its position; here another one answers.

    Behind a proxy the facts may come from a lagging replica, so this is no ground for a new snapshot.
    """
    found = both(obs)
    if found is None or not runs(obs) or same_address(obs):
        return None
    source, offset = found
    if offset.by_gtid:
        return _unseen(obs, source, offset)
    reached = offset.position.comparable(source.current) and offset.position <= source.current
    return None if reached and not _past_end(source, offset) else file_evidence(obs, source, offset)


def failed_over(obs: Observation) -> Evidence | None:
    """A server that this pipeline was never read from answers, and the connector has failed.

    Whether that server holds all that was read, and kept all that was not, the rows before this one have found.
    """
    found, connector = both(obs), connector_of(obs)
    if found is None or connector is None or not found[1].gtids:
        return None
    source = found[0]
    known, states = known_servers(obs), {connector.state, *(task.state for task in connector.tasks)}
    if not known or source.server_uuid in known or "FAILED" not in states:
        return None
    shown = {
        "server_uuid now": source.server_uuid,
        "server_uuid before": ", ".join(sorted(known)),
        "source is at": source.address or "not known",
        "connector reads at": connector_address(obs),
    }
    return {**evidence(obs, server(source), shown), **offset_evidence(obs), **state_evidence(obs)}


def gtid_mode_mismatch(obs: Observation) -> Evidence | None:
    """The offset speaks of GTIDs and the server writes (or may write) transactions without any, or with the other kind."""
    found = both(obs)
    if found is None or not found[1].by_gtid:
        return None
    source, offset = found
    if source.domains is not None or offset.domains is not None:
        return _other_kind(obs, source, offset)
    if source.gtid_mode == "ON":
        return None
    note = "anonymous transactions are in no GTID set" if source.gtid_mode in _PERMISSIVE else "no GTIDs are written"
    return {**evidence(obs, server(source), {"gtid_mode": f"{source.gtid_mode}: {note}"}), **offset_evidence(obs)}


def gtid_missing_in_offset(obs: Observation) -> Evidence | None:
    """On a GTID server the connector asks by set: without one it starts from whatever is oldest."""
    found = both(obs)
    if found is None or found[1].by_gtid:
        return None
    source = found[0]
    if source.domains is not None:
        return domains.missing_in_offset(obs, source)
    if source.gtid_mode != "ON" or not source.gtid_executed:
        return None
    modes = {"gtid_mode": source.gtid_mode, "gtids executed": source.gtid_executed}
    return {**evidence(obs, server(source), modes), **offset_evidence(obs)}


def log_incomplete(obs: Observation) -> Evidence | None:
    source = source_of(obs)
    if source is None or not source.cascades:
        return None
    shown = {f"cascade {n}": f"{key}: not in the log of {source.version}" for n, key in enumerate(source.cascades, 1)}
    return evidence(obs, server(source), shown)


def xa_rolled_back(obs: Observation) -> Evidence | None:
    """Rows of a rolled back XA transaction may stand in the sink: they were sent at its PREPARE (INV 32)."""
    source, control = source_of(obs), obs.control
    if source is None or not isinstance(control, ControlFacts):
        return None
    doubts = {name: rollback_doubt(before, source.xa) for name, before in control.checked_xa.items()}
    shown = {f"since the last check of {name}": why for name, why in doubts.items() if why}
    return evidence(obs, server(source), shown) if shown else None


def at_risk(obs: Observation) -> Evidence | None:
    """The log from the stored position on may be purged within the time that the policy wants to be warned."""
    source, offset = source_of(obs), offset_of(obs)
    seen = None if source is None or offset is None else risk(source, offset)
    if source is None or seen is None or seen.earliest_s is None:
        return None
    warn = obs.pipeline.policy.warn_before_purge
    if seen.earliest_s >= warn or (runs(obs) and seen.in_newest_file):
        return None
    shown = {
        "may be purged in": f"{seen.earliest_s:.0f} s or later",
        "policy.warn_before_purge": f"{warn} s",
        "why": seen.basis,
    }
    return {**evidence(obs, server(source), shown), **offset_evidence(obs), **state_evidence(obs)}


def with_risk(row: Callable[[Observation], Evidence | None]) -> Callable[[Observation], Evidence | None]:
    """A row about a connector that does not read, which also says how long that may last."""

    def found(obs: Observation) -> Evidence | None:
        evidence_of_row = row(obs)
        return None if evidence_of_row is None else {**evidence_of_row, **(at_risk(obs) or {})}

    return found


def seems_stuck(obs: Observation) -> bool:
    """Whether a connector that claims to run should have moved: a change stands right ahead of it, for long.

    Without heartbeats an offset may rest although all is well, so that is not judged.
    """
    found, connector = both(obs), connector_of(obs)
    if found is None or connector is None or not runs(obs) or found[1].in_snapshot:
        return False
    source, offset = found
    beats = connector.config.get("heartbeat.interval.ms", "0").strip() not in ("", "0")
    ahead = source.at_offset is not None and source.at_offset.place is Place.BOUNDARY
    if not beats or source.retention is None or source.at_offset is None or not ahead or offset.ts_sec is None:
        return False
    return not source.at_offset.read_to_the_end and source.retention.now - offset.ts_sec > _STUCK_AFTER_S


def risk(source: SourceFacts, offset: MySqlOffset) -> Outlook | None:
    """How long the stored position stays available at least; None where that cannot be told."""
    if source.retention is None or not _listed(source, offset):
        return None
    look = source.at_offset
    newest = offset.file == source.newest_file
    # by GTID a file that was read to its end is not needed any more; by name it is
    done = offset.by_gtid and not newest and look is not None and look.read_to_the_end
    return outlook(source.retention, in_newest_file=newest or done)


def _settled(obs: Observation) -> tuple[SourceFacts, MySqlOffset] | None:
    """Source and offset, unless the connector streams from what may be another server."""
    return None if runs(obs) and not same_address(obs) else both(obs)


def _own_log(obs: Observation, source: SourceFacts, offset: MySqlOffset) -> bool:
    """Whether file and position are of this very server's log: with GTIDs a failover leaves another server's there."""
    if not offset.by_gtid:
        return True
    if not offset.gtids:
        return domains.own_log(source, offset)
    return source.server_uuid in known_servers(obs) and offset.may_be_on(source.server_id)


def _past_end(source: SourceFacts, offset: MySqlOffset) -> bool:
    """Whether the position's file is there and ends before it."""
    sizes = {file.name: file.size for file in source.binlog_files}
    if offset.file not in sizes:
        return False
    # the size of the newest file is of an earlier moment than its current position
    return offset.pos > max(sizes[offset.file], source.current.pos if source.current.file == offset.file else 0)


def _listed(source: SourceFacts, offset: MySqlOffset) -> bool:
    return any(file.name == offset.file for file in source.binlog_files)


def _unseen(obs: Observation, source: SourceFacts, offset: MySqlOffset) -> Evidence | None:
    if offset.domains:
        return domains.unseen(obs, source, offset)
    stored = offset.gtids or GtidSet()
    unseen = stored - executed(source)
    if unseen.is_empty:
        return None
    return gtid_evidence(obs, source, stored, executed=executed(source), unseen=unseen)


def _other_kind(obs: Observation, source: SourceFacts, offset: MySqlOffset) -> Evidence | None:
    """MySQL's sets and MariaDB's positions say nothing to each other."""
    if (source.domains is None) != (offset.domains is None):
        kinds = ("MySQL's", "MariaDB's")
        said = f"the server's GTIDs are {kinds[source.domains is not None]}, the offset's {kinds[offset.domains is not None]}"
        return {**evidence(obs, server(source), {"gtids": said}), **offset_evidence(obs)}
    return None
