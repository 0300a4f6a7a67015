"""Statements that keep a server busy for as long as a block lasts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import psycopg
import pymysql

from stack.process import wait_until

if TYPE_CHECKING:
    from stack.mysql import MySqlServer
    from stack.postgres import PostgresServer

SECONDS = 300


@contextmanager
def busy_mysql(server: MySqlServer, statements: int) -> Iterator[None]:
    """So many statements run on a MySQL or MariaDB server; they are ended with the block."""
    with ExitStack() as stack, ThreadPoolExecutor(statements) as pool:
        connections = [stack.enter_context(server.connect()) for _ in range(statements)]

        def sleep(connection: pymysql.connections.Connection[pymysql.cursors.Cursor]) -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT SLEEP({SECONDS})")

        sleeping = [pool.submit(sleep, connection) for connection in connections]
        asked = f"SELECT count(*) FROM information_schema.PROCESSLIST WHERE INFO = 'SELECT SLEEP({SECONDS})'"
        try:
            wait_until(lambda: server.execute(asked) == [(statements,)] or None, timeout=30, what="the statements")
            yield
        finally:
            server.execute(*(f"KILL QUERY {connection.thread_id()}" for connection in connections))
            for one in sleeping:
                one.exception(30)


@contextmanager
def busy_postgres(server: PostgresServer, statements: int) -> Iterator[None]:
    """So many statements run on a PostgreSQL server; they are ended with the block."""
    with ExitStack() as stack, ThreadPoolExecutor(statements) as pool:
        connections = [stack.enter_context(server.connect()) for _ in range(statements)]
        sleeping = [pool.submit(connection.execute, f"SELECT pg_sleep({SECONDS})") for connection in connections]
        asked = f"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep({SECONDS})'"
        try:
            wait_until(lambda: server.execute(asked) == [(statements,)] or None, timeout=30, what="the statements")
            yield
        finally:
            for connection, one in zip(connections, sleeping, strict=True):
                connection.cancel()
                assert isinstance(one.exception(30), psycopg.errors.QueryCanceled)
