"""Updates that the log holds only in part, because a session has set binlog_row_value_options=PARTIAL_JSON (INV 31).

No connector's reader of the log knows such events: Debezium and Canal leave them out without an error. The server's
variable shows what is set for all, and no statement shows what a session sets for itself, so the log is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from airflow_cdc.core.errors import MissingPrivilegeError
from airflow_cdc.core.ports import LogLook
from airflow_cdc.sources.mysql.capabilities import Capability
from airflow_cdc.sources.mysql.position import BinlogPosition
from airflow_cdc.sources.mysql.server_log import list_binlog_files, read_identity, read_status
from airflow_cdc.sources.row import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_cdc.sources.mysql.session import Session

# about a second of the server's and ours
MOST_EVENTS: Final = 200_000
_WHAT: Final = (
    "JSON documents were changed by updates that the log holds only in part (a session has set"
    " binlog_row_value_options=PARTIAL_JSON), and the connector sends no events of them"
)
_TODO: Final = "Remove binlog_row_value_options=PARTIAL_JSON from that session."
_AT_ONCE: Final = 10_000
_FIRST_EVENT: Final = 4
_PARTIAL: Final = "Update_rows_partial"
_MAP: Final = re.compile(r"table_id: (\d+) \((.*)\)$", re.DOTALL)
_ID: Final = re.compile(r"table_id: (\d+)")


def partial_updates(session: Session, since: str, most: int = MOST_EVENTS) -> LogLook | None:
    """The tables with such updates since the place `since`, an earlier look's `upto`; "" only says where the log ends.

    None: this server has no such events, or the user lacks REPLICATION SLAVE. `upto` is the end of what was looked at;
    after more than `most` events, or from a place that is gone, it is the log's end, and `why` says so.
    """
    if not session.version.can(Capability.PARTIAL_JSON):
        return None
    server, end = read_identity(session).server_uuid, read_status(session).position
    if not since:
        return LogLook(frozenset(), _text(server, end))
    before, place = _read(since)
    names = [file.name for file in list_binlog_files(session)]
    if before != server or place.file not in names:
        return LogLook(frozenset(), _text(server, end), why=f"{place} of server {before} is no longer in the log")
    look = _Look(session, most)
    try:
        for file in names[names.index(place.file) :]:
            place = look.through(place if file == place.file else BinlogPosition(file, _FIRST_EVENT))
    except MissingPrivilegeError:
        return None
    why = f"more than {most} events came since the last look" if look.events >= most else ""
    return LogLook(frozenset(look.tables), _text(server, end if why else place), look.events, why, _WHAT, _TODO)


class _Look:
    """Reads events in their order. A table has a number in the log, which the event before its rows explains."""

    def __init__(self, session: Session, most: int) -> None:
        self.session = session
        self.most = most
        self.events = 0
        self.tables: set[str] = set()
        self._numbers: dict[str, str] = {}

    def through(self, place: BinlogPosition) -> BinlogPosition:
        """Look at the rest of a file; returns where that ends."""
        while self.events < self.most and (rows := self._rows(place)):
            self.events += len(rows)
            self.tables.update(self._partial(rows))
            place = BinlogPosition(place.file, rows[-1].number("End_log_pos"))
        return place

    def _rows(self, place: BinlogPosition) -> list[Row]:
        sql = f"SHOW BINLOG EVENTS IN '{place.file}' FROM {place.pos} LIMIT {_AT_ONCE}"
        return self.session.rows(sql, doing="look for updates that are logged in part")

    def _partial(self, rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
        for row in rows:
            kind, info = str(row["Event_type"]), str(row["Info"])
            if kind == "Table_map" and (named := _MAP.search(info)):
                self._numbers[named[1]] = named[2]
            elif kind == _PARTIAL and (number := _ID.search(info)):
                yield self._numbers.get(number[1], "")


def _text(server: str, place: BinlogPosition) -> str:
    return f"{server} {place}"


def _read(text: str) -> tuple[str, BinlogPosition]:
    server, _, place = text.partition(" ")
    return server, BinlogPosition.parse(place)
