"""The kill matrix's world on MySQL: its binlog is purged behind the connector."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import pymysql

from airflow_cdc.sources.mysql.client import MySqlEndpoint
from demo.world import NAMESPACE, World, writer
from stack import cluster
from stack.process import wait_until
from stack.shop import connectors, dataset
from stack.shop.check import TableCheck, check
from stack.shop.gap import binlog_files
from tests.faults.proxy import HOST, Proxy
from tests.faults.world import FULL_NAMES, PIPELINE, ROWS, TABLES, ConnectWorld, proxy_of, worker_of

_PASSWORD = "password"
_GAP = (
    "DELETE FROM customers WHERE CRC32(code) % 40 = {n}",
    "DELETE FROM orders WHERE id % 40 = {n}",
    "DELETE FROM events WHERE kind = 'click' LIMIT 7",
    "UPDATE orders SET amount = amount + 1 WHERE id % 30 = {n}",
    "UPDATE customers SET name = CONCAT('gap ', {n}) WHERE CRC32(code) % 30 = {n}",
    "INSERT INTO orders (customer, status, amount, placed_at) VALUES ('gap', 'new', {n}, NOW(3))",
    "INSERT INTO events VALUES ('2026-01-01 00:00:00', 'view', 'gap'), ('2026-01-01 00:00:00', 'view', 'gap')",
)


class MySqlWorld(ConnectWorld):
    """A shop on MySQL."""

    server: ClassVar[str] = "mysql"

    def source_settings(self) -> dict[str, Any]:
        """See FaultWorld."""
        return {"kind": "mysql"}

    def source_endpoint(self) -> MySqlEndpoint:
        """See FaultWorld."""
        login = self.demo.mysql.cdc
        return MySqlEndpoint(HOST, self.source.port, login.user, login.password, ssl={"mode": "disabled"})

    def restart_server(self) -> None:
        """See FaultWorld."""
        self.stack.restart_mysql()

    def writing(self) -> AbstractContextManager[Path]:
        """See FaultWorld: the demo's writer, about 200 changes a second."""
        return writer(self.demo)

    def change_and_lose(self) -> None:
        """See FaultWorld."""
        alter = "ADD COLUMN extra VARCHAR(8) NULL" if self.gaps % 2 else "DROP COLUMN extra"
        with closing(self.demo.mysql.connect(database=dataset.SCHEMA)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = ''")
            for sql in (*_GAP, f"ALTER TABLE customers {alter}"):
                cursor.execute(sql.format(n=self.gaps % 30).replace("%", "%"))
            connection.commit()
            purge(cursor)

    def purge(self) -> None:
        """Purge every file but a fresh one."""
        with closing(self.demo.mysql.connect()) as connection, connection.cursor() as cursor:
            purge(cursor)

    def execute(self, *statements: str) -> None:
        """Carry out statements in the shop, as root."""
        with closing(self.demo.mysql.connect(database=dataset.SCHEMA)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def lock_out(self, user: str) -> None:
        """Refuse a user, and end its connections."""
        self.execute(f"ALTER USER '{user}'@'%' ACCOUNT LOCK")
        with closing(self.demo.mysql.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT id FROM information_schema.processlist WHERE user = '{user}'")
            for (number,) in cursor.fetchall():
                with suppress(pymysql.MySQLError):  # it has ended by itself
                    cursor.execute(f"KILL {number}")

    def let_in(self, user: str) -> None:
        """Let a user in again."""
        self.execute(f"ALTER USER '{user}'@'%' ACCOUNT UNLOCK")

    @contextmanager
    def beating(self) -> Iterator[None]:
        """See FaultWorld. Without heartbeats its offset stays a transaction behind once nobody writes."""
        worker = worker_of(self.stack)
        config = worker.call("GET", f"/connectors/{PIPELINE}/config")
        worker.call("PUT", f"/connectors/{PIPELINE}/config", {**config, "heartbeat.interval.ms": "1000"})
        yield
        worker.call("PUT", f"/connectors/{PIPELINE}/config", config)

    def settle(self) -> None:
        """See FaultWorld."""
        connectors.wait_read(worker_of(self.stack), PIPELINE, self.demo.mysql)

    def compare(self) -> list[TableCheck]:
        """See FaultWorld."""
        return check(self.demo.admin, self.demo.lake, dataset.SCHEMA, NAMESPACE, list(TABLES))

    def left_behind(self) -> str:
        """See FaultWorld. A lock ends with the connection that holds it, so there is nothing to look for."""
        return ""


def write_secret(folder: Path, password: str) -> None:
    """The file from which the connector takes its password whenever its task starts."""
    _secret(folder).write_text(f"{_PASSWORD}={password}\n")


def _secret(folder: Path) -> Path:
    return folder / "connector.properties"


def purge(cursor: Any) -> None:
    """Rotate, and purge every file but the newest."""
    cursor.execute("FLUSH BINARY LOGS")
    cursor.execute(f"PURGE BINARY LOGS TO '{binlog_files(cursor)[-1]}'")


@contextmanager
def world(folder: Path, rows: int = ROWS) -> Iterator[MySqlWorld]:
    """Servers, proxies, a shop of `rows` rows and its connector; all ends with the block."""
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable})
    with ExitStack() as ends:
        stack = ends.enter_context(cluster.start(folder))
        demo, worker = World(folder, stack), worker_of(stack)
        with closing(demo.mysql.connect(autocommit=False)) as connection:
            dataset.create(connection)
            dataset.fill(connection, rows)
        mysql = ends.enter_context(Proxy((demo.mysql.host, demo.mysql.port)))
        connect = ends.enter_context(proxy_of(worker))
        write_secret(folder, demo.mysql.debezium.password)
        connectors.create(worker, PIPELINE, _settings(demo))
        wait_until(lambda: connectors.stored(worker, PIPELINE) or None, timeout=120, what="the first offset")
        yield MySqlWorld(folder, stack, mysql, rows // 4, connect=connect)


def _settings(demo: World) -> Mapping[str, str]:
    """The demo's connector without a heartbeat, so that a recovery has a setting to put back at its end."""
    secret = f"${{file:{_secret(demo.folder)}:{_PASSWORD}}}"
    more = {"table.include.list": ",".join(FULL_NAMES), "database.password": secret}
    made = connectors.config(PIPELINE, demo.mysql, demo.bootstrap, **more)
    return {**made, "snapshot.mode": "no_data", "heartbeat.interval.ms": "0"}
