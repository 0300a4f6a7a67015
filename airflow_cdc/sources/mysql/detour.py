"""Continue reading at a replica: which one may replace its source, and where the connector continues later (INV 27).

A replica logs what it replicates under the source's own GTIDs, so a connector can read there what the source has
purged. Three things would make that wrong: a replica that logs a GTID without its rows, transactions of the replica's
own, and a position that the source does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from airflow_cdc.core.observation import ReplicaFacts, Unknown
from airflow_cdc.core.problem import Case
from airflow_cdc.core.text import shorten
from airflow_cdc.decisions.diagnosis.strategy import DETOUR, TRANSLATE, open_strategy
from airflow_cdc.sources.mysql.facts import MySqlFacts, MySqlReplicaFacts
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition

MySqlCase: TypeAlias = Case[MySqlFacts, MySqlPosition]

# setting → what it must be, and how it is found
_SETTINGS: Mapping[str, tuple[str, Callable[[MySqlReplicaFacts], str]]] = {
    "log_bin": ("ON", lambda replica: "ON" if replica.log_bin else "OFF"),
    "gtid_mode": ("ON", lambda replica: replica.gtid_mode),
    "log_replica_updates": ("ON", lambda replica: "ON" if replica.log_updates else "OFF"),
    "binlog_format": ("ROW", lambda replica: replica.binlog_format),
    "binlog_row_image": ("FULL", lambda replica: replica.row_image),
}


def detour_blocker(case: MySqlCase) -> str:
    """Why no replica can stand in for the source, replica by replica; "" if one can, or a detour is under way."""
    if open_strategy(case.seen):
        return "" if open_strategy(case.seen) == DETOUR else f"the open recovery is a {open_strategy(case.seen)}"
    if not case.seen.pipeline.source.replicas:
        return "source.replicas in pipelines.yaml lists no replica"
    if chosen_replica(case) is not None:
        return ""
    source, stored = _both(case)
    if source is None or stored is None:
        return "the source or the stored position is not known"
    replicas = {conn_id: case.seen.replicas.get(conn_id, Unknown("it was not examined")) for conn_id in _named(case)}
    return "; ".join(f"{conn_id}: {', '.join(faults(facts, source, stored))}" for conn_id, facts in replicas.items())


def failover_blocker(case: MySqlCase) -> str:
    """Why the connector cannot go on at the server that answers now; "" if it can, or it was begun already."""
    if open_strategy(case.seen):
        return "" if open_strategy(case.seen) == TRANSLATE else f"the open recovery is a {open_strategy(case.seen)}"
    source, stored = _both(case)
    if source is None or stored is None:
        return "the source or the stored GTID set is not known"
    purged = source.gtid_purged or GtidSet()
    sets = {"the server does not have": stored - source.executed, "the server purged": purged - stored}
    return "; ".join(f"{label} {shorten(str(gtids))}" for label, gtids in sets.items() if gtids)


def chosen_replica(case: MySqlCase) -> MySqlReplicaFacts | None:
    """The first named replica that still has every transaction that the source purged, and logged all of its rows."""
    source, stored = _both(case)
    if source is None or stored is None:
        return None
    read = (case.seen.replicas.get(conn_id) for conn_id in _named(case))
    return next((r for r in read if isinstance(r, MySqlReplicaFacts) and not faults(r, source, stored)), None)


def faults(replica: ReplicaFacts | Unknown, source: MySqlFacts, stored: GtidSet) -> tuple[str, ...]:
    """Why a connector that has read `stored` cannot read on at `replica`; () if it can.

    What could not be read is a fault: an unknown replica is never eligible.
    """
    if isinstance(replica, Unknown):
        return (f"could not be read: {replica.reason}",)
    if not isinstance(replica, MySqlReplicaFacts):
        return ("it is no MySQL server",)
    return (*standing_faults(replica), *_set_faults(replica, source, stored))


def standing_faults(replica: MySqlReplicaFacts) -> tuple[str, ...]:
    """Why a server is never fit to stand in for its source, whatever the connector has read; () if it may be."""
    unfit = [
        f"{name} is {value(replica) or 'not set'}, it must be {wanted}"
        for name, (wanted, value) in _SETTINGS.items()
        if value(replica).upper() != wanted
    ]
    return (*unfit, *_log_faults(replica))


def _log_faults(replica: MySqlReplicaFacts) -> tuple[str, ...]:
    """Its log may contain a GTID without the transaction's rows."""
    alone = () if replica.sources else ("it replicates from no server, so it is unknown what it left out",)
    return (*alone, *(f"it filters rows but logs their GTIDs: {text}" for text in replica.filters))


def _set_faults(replica: MySqlReplicaFacts, source: MySqlFacts, stored: GtidSet) -> tuple[str, ...]:
    purged = source.gtid_purged or GtidSet()
    sets = {
        "it never had": (purged - stored) - replica.gtid_executed,
        "it is behind the connector and lacks": stored - replica.gtid_executed,
        "it purged": (source.executed - stored) & replica.gtid_purged,
    }
    return tuple(f"{label} {shorten(str(gtids))}" for label, gtids in sets.items() if gtids)


def _named(case: MySqlCase) -> tuple[str, ...]:
    return case.seen.pipeline.source.replicas


def _both(case: MySqlCase) -> tuple[MySqlFacts | None, GtidSet | None]:
    return case.source, case.stored.gtids if case.stored else None
