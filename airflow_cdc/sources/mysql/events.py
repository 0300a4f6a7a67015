"""Where a change stands in MySQL's log, in the neutral form: whose numbering orders it, and its place there.

A change with a GTID is ordered by the numbers of the server that committed it (with its tag); one without by the files
of the server that wrote it, named "<server id>/<base name>".
"""

from __future__ import annotations

from airflow_cdc.core.errors import PositionError
from airflow_cdc.core.position import Covered, Place, Watermark
from airflow_cdc.core.text import number_in
from airflow_cdc.sources.mysql.position import BinlogPosition, mysql_position


def log_name(server_id: str, base: str) -> str:
    """The name of a server's series of files."""
    return f"{server_id}/{base}"


def covered(watermark: Watermark | None) -> Covered:
    """The changes at or before W: by GTID where W has a set, else by place in the files of W's own server."""
    if watermark is None:
        return Covered()
    position = mysql_position(watermark.position)
    if position.gtids is None:
        below = {log_name(str(position.server_id), position.place.base): (position.place.file_number, position.pos)}
        return Covered(below=below, taken_ms=int(watermark.taken_at.timestamp() * 1000))
    return Covered(numbers={f"{uuid}:{tag}" if tag else uuid: spans for uuid, tag, spans in position.gtids.items})


def place_of(gtid: object, server_id: object, file: object, pos: object) -> tuple[str, Place] | None:
    """(origin, place) of a statement, as reported by a connector; None where the report has no place."""
    if gtid:
        source, _, number = str(gtid).rpartition(":")
        n = number_in(number)
        return None if n is None or not source else (source.lower(), (n, 0, 0))
    try:
        at = BinlogPosition(str(file), int(str(pos)))
    except (PositionError, ValueError):
        return None
    return log_name(str(server_id), at.base), (at.file_number, at.pos, 0)
