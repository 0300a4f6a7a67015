"""Whether a MariaDB server can still send everything after a position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.core.position import Availability, Available
from airflow_cdc.sources.mysql.availability import file_available

if TYPE_CHECKING:
    from airflow_cdc.sources.mariadb.facts import MariaDbFacts
    from airflow_cdc.sources.mariadb.position import MariaDbPosition


def availability(facts: MariaDbFacts, position: MariaDbPosition) -> Available:
    """Whether the log still has all changes after `position`: by GTID if it has GTIDs, else by file and position.

    LOST: in some domain the oldest file begins after the position. NOT_YET: the server never logged one of the
    position's transactions.
    """
    if not facts.log_bin:
        return Available(Availability.LOST, "the binary log is off on this server")
    if not position.domains:
        return file_available(facts, position.place)
    if facts.domains is None:
        return Available(Availability.UNKNOWN, "the server says nothing of its GTIDs")
    if unseen := facts.unseen(position):
        return Available(Availability.NOT_YET, f"not logged on this server: {unseen}")
    missing = facts.domains.purged - position.domains
    if missing:
        return Available(Availability.LOST, f"purged before they were read: {missing}")
    return Available(Availability.AVAILABLE, "every transaction after the stored place is still in the log")
