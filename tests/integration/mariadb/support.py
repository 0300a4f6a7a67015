"""What the MariaDB tests share: an offset at the log's end, a rotated log, a purged one."""

from __future__ import annotations

from typing import Any

from airflow_cdc.connectors.debezium.offsets.mariadb import MariaDbCodec
from airflow_cdc.sources.mariadb.facts import MariaDbFacts
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from stack.mysql import MySqlServer
from stack.process import wait_until

_ROW_EVENTS = (23, 24, 25)  # WRITE, UPDATE and DELETE_ROWS_EVENT_V1, which are what MariaDB writes


def endpoint(server: MySqlServer) -> MySqlEndpoint:
    return MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password)


def here(server: MySqlServer, *, gtids: bool = True) -> dict[str, Any]:
    """The offset of a connector that has read everything."""
    ((file, pos, *_),) = server.execute("SHOW MASTER STATUS")
    ((held,),) = server.execute("SELECT @@gtid_binlog_pos")
    offset = {"file": file, "pos": pos, "ts_sec": 1, "server_id": server.settings.server_id}
    return {**offset, "gtids": held} if gtids else offset


def position_in(offset: dict[str, Any]) -> MariaDbPosition | None:
    """Where a connector with this offset would read on."""
    position = MariaDbCodec().read(offset, {}).position
    return position if isinstance(position, MariaDbPosition) else None


def end_of(facts: MariaDbFacts) -> MariaDbPosition:
    """The end of the log, by file and position."""
    return MariaDbPosition(facts.current.file, facts.current.pos)


def rotate(server: MySqlServer, table: str, times: int = 1) -> None:
    for _ in range(times):
        server.execute(f"INSERT INTO {table} (v) VALUES ('x')", "FLUSH BINARY LOGS")


def purge(server: MySqlServer) -> None:
    """All but the newest file."""
    server.execute("FLUSH BINARY LOGS")
    purge_to(server, str(server.execute("SHOW BINARY LOGS")[-1][0]))


def columns_logged(file: bytes) -> list[int]:
    """Of how many columns each row event of a log file holds values (of the row before it, for an UPDATE)."""
    counts, at = [], 4  # after the file's magic number
    while at < len(file):
        kind, length = file[at + 4], int.from_bytes(file[at + 9 : at + 13], "little")
        if kind in _ROW_EVENTS:
            columns = at + 27  # after the event's head, the table's number and the flags
            bitmap = file[columns + 1 : columns + 1 + (file[columns] + 7) // 8]
            counts.append((int.from_bytes(bitmap, "little") & (1 << file[columns]) - 1).bit_count())
        at += length
    return counts


def purge_to(server: MySqlServer, file: str) -> None:
    """What is before a file. One that is still being read, or needed after a crash, is passed over without an error."""

    def gone() -> bool | None:
        server.execute(f"PURGE BINARY LOGS TO '{file}'")
        return server.execute("SHOW BINARY LOGS")[0][0] == file or None

    wait_until(gone, timeout=30, what=f"all before {file} are purged")
