"""What others do to the source at the worst moment: purge its log and change its tables while it is being read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pymysql

from demo.dataset import SCHEMA

if TYPE_CHECKING:
    from stack.mysql import MySqlServer

# from this version on LOCK INSTANCE FOR BACKUP keeps files from being purged; before, a purge would go through
_PURGE_IS_HELD = (8, 0, 28)
_WAITED = 1205


def disturb(server: MySqlServer) -> dict[str, str]:
    """Try an ALTER, and where the server can refuse it a PURGE; what became of each: done, refused or waited."""
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 2")
            found = {"ALTER TABLE": _try(cursor, f"ALTER TABLE {SCHEMA}.events COMMENT = 'meddled'")}
            if tuple(int(part) for part in re.findall(r"\d+", server.version)[:3]) >= _PURGE_IS_HELD:
                cursor.execute("FLUSH BINARY LOGS")
                cursor.execute("SHOW BINARY LOGS")
                newest = [str(row[0]) for row in cursor.fetchall()][-1]
                found["PURGE BINARY LOGS"] = _try(cursor, f"PURGE BINARY LOGS TO '{newest}'")
            return found
    finally:
        connection.close()


def held(tried: dict[str, str]) -> bool:
    """Whether nothing of it went through."""
    return bool(tried) and all(outcome != "done" for outcome in tried.values())


def _try(cursor: pymysql.cursors.Cursor, sql: str) -> str:
    try:
        cursor.execute(sql)
    except pymysql.MySQLError as error:
        code, text = error.args[0], error.args[1]
        return f"{'waited' if code == _WAITED else 'refused'}: {code} {text}"
    return "done"
