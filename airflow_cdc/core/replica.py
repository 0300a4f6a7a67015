"""Reading on at a replica: which one may stand in for its source, and where the connector goes on afterwards (INV 27).

A replica logs what it replicates under the source's own GTIDs, so a connector can read there what the source has
purged. Three things would make that wrong: a replica that logs a GTID without its rows, transactions of the replica's
own, and a position that the source does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_cdc.core.diagnosis.evidence import executed, offset_of, shorten, source_of
from airflow_cdc.core.diagnosis.observation import (
    ControlFacts,
    Observation,
    ReplicaFacts,
    SchemaFacts,
    SourceFacts,
    Unknown,
)
from airflow_cdc.sources.mysql.gtid import GtidSet

DETOUR = "replica_detour"
TRANSLATE = "translate_gtid"
# These move the connector's position and no row of the sink, so they raise no epoch: every stamp stays a start.
POSITION_ONLY = frozenset({DETOUR, TRANSLATE})

# setting → what it must be, and how it is found
_SETTINGS: Mapping[str, tuple[str, Callable[[ReplicaFacts], str]]] = {
    "log_bin": ("ON", lambda replica: "ON" if replica.log_bin else "OFF"),
    "gtid_mode": ("ON", lambda replica: replica.gtid_mode),
    "log_replica_updates": ("ON", lambda replica: "ON" if replica.log_updates else "OFF"),
    "binlog_format": ("ROW", lambda replica: replica.binlog_format),
    "binlog_row_image": ("FULL", lambda replica: replica.row_image),
}


def detour_hindrance(obs: Observation) -> str:
    """Why no replica can stand in for the source, replica by replica; "" if one can, or a detour is under way."""
    if open_strategy(obs):
        return "" if open_strategy(obs) == DETOUR else f"the open recovery is a {open_strategy(obs)}"
    if not obs.pipeline.source.replicas:
        return "source.replicas in pipelines.yaml names no replica to read from"
    if chosen_replica(obs) is not None:
        return ""
    source, stored = source_of(obs), _stored(obs)
    if source is None or stored is None:
        return "the source or the stored position is not known"
    found = {conn_id: obs.replicas.get(conn_id, Unknown("it was not looked at")) for conn_id in _named(obs)}
    return "; ".join(f"{conn_id}: {', '.join(faults(facts, source, stored))}" for conn_id, facts in found.items())


def failover_hindrance(obs: Observation) -> str:
    """Why the connector cannot go on at the server that answers now; "" if it can, or it was begun already."""
    if open_strategy(obs):
        return "" if open_strategy(obs) == TRANSLATE else f"the open recovery is a {open_strategy(obs)}"
    source, stored = source_of(obs), _stored(obs)
    if source is None or stored is None:
        return "the source or the stored GTID set is not known"
    purged = source.gtid_purged or GtidSet()
    sets = {"the server does not have": stored - executed(source), "the server purged": purged - stored}
    return "; ".join(f"{told} {shorten(str(gtids))}" for told, gtids in sets.items() if gtids)


def keyless_hindrance(obs: Observation) -> str:
    """Tables whose rows would be counted twice if another server's log repeats a change.

    Without a key a repeat is told by its exact place in the log, and that is another one on another server (INV 19).
    """
    definitions = obs.schema.definitions if isinstance(obs.schema, SchemaFacts) else {}
    keyless = ", ".join(sorted(name for name, table in definitions.items() if table.keyless))
    return (
        f"{keyless} without a key: what another server's log repeats could not be told from a new row"
        if keyless
        else ""
    )


def chosen_replica(obs: Observation) -> ReplicaFacts | None:
    """The first named replica that still has every transaction that the source purged, and logged all of its rows."""
    source, stored = source_of(obs), _stored(obs)
    if source is None or stored is None:
        return None
    read = (obs.replicas.get(conn_id) for conn_id in _named(obs))
    return next((r for r in read if isinstance(r, ReplicaFacts) and not faults(r, source, stored)), None)


def faults(replica: ReplicaFacts | Unknown, source: SourceFacts, stored: GtidSet) -> tuple[str, ...]:
    """Why a connector that has read `stored` cannot read on at `replica`; () if it can.

    What could not be read is a fault: an unknown replica is never eligible.
    """
    if isinstance(replica, Unknown):
        return (f"could not be read: {replica.reason}",)
    return (*standing_faults(replica), *_set_faults(replica, source, stored))


def standing_faults(replica: ReplicaFacts) -> tuple[str, ...]:
    """Why a server is never fit to stand in for its source, whatever the connector has read; () if it may be."""
    found = [
        f"{name} is {value(replica) or 'not set'}, it must be {wanted}"
        for name, (wanted, value) in _SETTINGS.items()
        if value(replica).upper() != wanted
    ]
    return (*found, *_log_faults(replica))


def _log_faults(replica: ReplicaFacts) -> tuple[str, ...]:
    """A GTID may stand in its log without the rows of it."""
    alone = () if replica.sources else ("it replicates from no server, so what it left out cannot be told",)
    return (*alone, *(f"it leaves out rows and keeps their GTIDs: {text}" for text in replica.filters))


def _set_faults(replica: ReplicaFacts, source: SourceFacts, stored: GtidSet) -> tuple[str, ...]:
    purged = source.gtid_purged or GtidSet()
    sets = {
        "it never had": (purged - stored) - replica.gtid_executed,
        "it has not come as far as the connector, it lacks": stored - replica.gtid_executed,
        "it purged": (executed(source) - stored) & replica.gtid_purged,
    }
    return tuple(f"{told} {shorten(str(gtids))}" for told, gtids in sets.items() if gtids)


def own_transactions(replica: GtidSet, source: GtidSet) -> GtidSet:
    """What only the replica executed. Read the replica's set first, or the source's newest would be in it."""
    return replica - source


def start_there(stored: GtidSet, own: GtidSet, before: GtidSet | None = None) -> GtidSet:
    """The set to begin with at the replica: its own transactions count as read, so none of them is sent.

    `before` is what counted so in an earlier round: what has reached the source since is own no more, and was not sent.
    """
    return (stored - (before or GtidSet())) | own


def come_back(read: GtidSet, source: GtidSet, own: GtidSet | None = None) -> GtidSet:
    """The set to go on with at the source: nothing that only the replica has may stay in it (INV 27).

    A transaction of the replica's own in the connector's offset makes the source look as if it had lost something. What
    merely counted as read (`own`) goes too: where two servers replicate each other, the source may have it by now.
    """
    return (read - (own or GtidSet())) & source


def open_strategy(obs: Observation) -> str:
    """The strategy of the open recovery; "" if none is open."""
    control = obs.control
    found = control.recovery if isinstance(control, ControlFacts) else None
    return str(found.get("strategy") or "unknown") if found else ""


def _named(obs: Observation) -> tuple[str, ...]:
    return obs.pipeline.source.replicas


def _stored(obs: Observation) -> GtidSet | None:
    offset = offset_of(obs)
    return None if offset is None else offset.gtids


# ---- the connector's configuration -------------------------------------------------------------

# What a detour changes is kept beside it, under this prefix: the backup stands or falls with the change, and a password
# stays where it was. A connector passes over settings that it does not know.
WAS = "cdc.detour.was."
_ADDRESS = ("database.hostname", "database.port")
_LOGIN = ("database.user", "database.password")


def is_away(config: Mapping[str, str]) -> bool:
    """Whether this configuration is one that a detour changed."""
    return any(key.startswith(WAS) for key in config)


def pointed_at(config: Mapping[str, str], address: tuple[str, int], login: tuple[str, str] | None) -> dict[str, str]:
    """The configuration with another address, and with another login if one is given; what was there is kept in it."""
    values = dict(zip(_ADDRESS, (address[0], str(address[1])), strict=True))
    values |= dict(zip(_LOGIN, login, strict=True)) if login else {}
    home = pointed_back(config)
    return {**home, **values, **{WAS + key: home.get(key, "") for key in values}}


def pointed_back(config: Mapping[str, str]) -> dict[str, str]:
    """The configuration as it was before the detour. A setting that was absent is left out again."""
    kept = {key.removeprefix(WAS): value for key, value in config.items() if key.startswith(WAS)}
    rest = {key: value for key, value in config.items() if not key.startswith(WAS) and key not in kept}
    return {**rest, **{key: value for key, value in kept.items() if value}}
