"""What others do to the source at the worst moment: purge its log and change its tables while it is being read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql

from airflow_cdc.sources.mysql.capabilities import Capability, ServerVersion
from stack.shop.dataset import SCHEMA
from stack.shop.gap import binlog_files

if TYPE_CHECKING:
    from stack.mysql import MySqlServer

_WAITED = 1205


def interfere(server: MySqlServer) -> dict[str, str]:
    """Try an ALTER, and where the server can refuse it a PURGE; what became of each: done, refused or waited."""
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 2")
            outcomes = {"ALTER TABLE": _try(cursor, f"ALTER TABLE {SCHEMA}.events COMMENT = 'meddled'")}
            # before that capability, a purge would go through
            if ServerVersion.parse(server.version).can(Capability.INSTANCE_LOCK_BLOCKS_PURGE):
                cursor.execute("FLUSH BINARY LOGS")
                outcomes["PURGE BINARY LOGS"] = _try(cursor, f"PURGE BINARY LOGS TO '{binlog_files(cursor)[-1]}'")
            return outcomes
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
