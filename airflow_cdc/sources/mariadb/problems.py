"""Predicates about MariaDB's GTIDs: the counterparts of those about GTID sets in problems_source.py.

A stored position is lost when the log's oldest file begins behind it in any domain; it is not this server's when the
server never logged one of its transactions. MariaDB names no server but by an id that somebody gave it, so whose log
file and position are of is told by that id, and by the place at which the file begins.
"""

from __future__ import annotations

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlOffset
from airflow_cdc.core.diagnosis.evidence import (
    Evidence,
    evidence,
    file_evidence,
    offset_evidence,
    server,
    shorten,
    state_evidence,
)
from airflow_cdc.core.diagnosis.observation import DomainFacts, Observation, SourceFacts
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition


def purged(obs: Observation, source: SourceFacts, offset: MySqlOffset) -> Evidence | None:
    """Transactions that were not read are in no file any more."""
    domains, stored = _both(source, offset)
    if domains is None or domains.logged.lacks(stored):
        return None
    missing = domains.purged - stored
    return _told(obs, source, stored, purged=domains.purged, missing=missing) if missing else None


def unseen(obs: Observation, source: SourceFacts, offset: MySqlOffset) -> Evidence | None:
    """The stored position names transactions that this server never logged, or lost."""
    domains, stored = _both(source, offset)
    lacks = MariaDbPosition() if domains is None else domains.logged.lacks(stored)
    return _told(obs, source, stored, logged=domains and domains.logged, unseen=lacks) if lacks else None


def ahead(obs: Observation, source: SourceFacts, offset: MySqlOffset) -> Evidence | None:
    """The stored file is newer than any, and what is unseen was written by this very server id: it lost its own."""
    domains, stored = _both(source, offset)
    if domains is None or source.server_id not in domains.logged.lacks(stored).servers:
        return None
    return {**file_evidence(obs, source, offset), **(unseen(obs, source, offset) or {})}


def missing_in_offset(obs: Observation, source: SourceFacts) -> Evidence | None:
    """Debezium's MariaDB connector (3.5.0) asks by GTID alone: it cannot start from file and position."""
    if source.domains is None or source.domains.logged.position.is_empty:
        return None
    return {
        **evidence(obs, server(source), {"gtids logged": shorten(str(source.domains.logged))}),
        **offset_evidence(obs),
    }


def own_log(source: SourceFacts, offset: MySqlOffset) -> bool:
    """Whether file and position are of this server's log: written under its id, in a file that begins before them.

    After a failover the file of that name is another one; that it holds the stored place too would prove nothing, because
    servers that take the same changes rotate at about the same time.
    """
    domains, stored = _both(source, offset)
    begins = None if domains is None else domains.begins
    return begins is not None and begins.issubset(stored) and offset.may_be_on(source.server_id)


def read_all(source: SourceFacts, offset: MySqlOffset) -> bool:
    """Whether nothing was logged behind the stored position."""
    domains, stored = _both(source, offset)
    return domains is not None and domains.logged.position.issubset(stored)


def _both(source: SourceFacts, offset: MySqlOffset) -> tuple[DomainFacts | None, MariaDbPosition]:
    return source.domains, offset.domains or MariaDbPosition()


def _told(obs: Observation, source: SourceFacts, stored: MariaDbPosition, **said: object) -> Evidence:
    shown = {f"gtids {name}": shorten(str(value)) or "none" for name, value in said.items()}
    return {
        **evidence(obs, "connector offsets", {"gtids stored": shorten(str(stored))}),
        **evidence(obs, server(source), shown),
        **state_evidence(obs),
    }
