"""The place of a change in MariaDB's log, in the neutral form: ordered by its number within the domain.

The order holds whichever server wrote the change. A change without a GTID is ordered by the files of the server that
wrote it, as in MySQL.
"""

from __future__ import annotations

from airflow_cdc.core.errors import PositionError
from airflow_cdc.core.position import Covered, Place, Watermark
from airflow_cdc.sources.mariadb.gtid import MariaDbGtid
from airflow_cdc.sources.mariadb.position import mariadb_position
from airflow_cdc.sources.mysql import events


def covered(watermark: Watermark | None) -> Covered:
    """The changes at or before W: those up to W's number in each domain. Raises PositionError for a W without GTIDs."""
    if watermark is None:
        return Covered()
    position = mariadb_position(watermark.position)
    if not position.domains:
        raise PositionError(f"a watermark without GTIDs: {position}", todo="Recover again, with a new watermark.")
    return Covered(numbers={str(gtid.domain): [(1, gtid.number)] for gtid in position.domains.gtids})


def place_of(gtid: object, server_id: object, file: object, pos: object) -> tuple[str, Place] | None:
    """(origin, place) of a statement, as reported by a connector; None if the report has no place."""
    if not gtid:
        return events.place_of(None, server_id, file, pos)
    try:
        named = MariaDbGtid.parse(str(gtid))
    except PositionError:
        return None
    return str(named.domain), (named.number, 0, 0)
