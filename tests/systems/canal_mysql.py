"""Canal with its cursor in ZooKeeper: MySQL's log was purged, and every supported type goes through snapshot and events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stack
from stack.canal import start_zookeeper
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import end
from tests.integration.canal.recovered import Followed
from tests.integration.recovering import writing
from tests.systems.case import Case, Row
from tests.systems.debezium_mariadb import KINDS as MARIADB_KINDS
from tests.systems.debezium_mariadb import TEXT, exact
from tests.systems.two_tables import Kind, TwoTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

NAME = "systems_canal"
GONE = "errno = 1236"


def document(value: Any) -> str:
    """A JSON document as this server prints it."""
    return json.dumps(json.loads(value), ensure_ascii=False)


ODD = '`Qté "``x`'
# no invisible columns in 8.0.15; Canal's events do not carry latin1, nor a backtick in a name
KINDS: dict[str, Kind] = {
    **{name: kind for name, kind in MARIADB_KINDS.items() if name not in ("latin", "hidden", ODD)},
    "ratio": Kind("float", "{n} + 0.1", "{c} + 0e0", exact),
    ODD.replace("``", ""): MARIADB_KINDS[ODD],
    "doc": Kind("json", "JSON_OBJECT('b', {n}, 'a', JSON_ARRAY('ü', NULL, TRUE))", TEXT, document),
}
STORED = {name: kind for name, kind in KINDS.items() if kind.value}
NAMES = ", ".join(["id", *STORED])
VALUES = ", ".join(kind.value for kind in STORED.values())


def rows(first: int, last: int) -> str:
    """SQL that adds rows of these numbers."""
    numbers = f"WITH RECURSIVE s(seq) AS (SELECT {first} UNION ALL SELECT seq + 1 FROM s WHERE seq < {last})"
    values = VALUES.format(n="CAST(seq AS SIGNED)")
    return f"INSERT INTO kinds ({NAMES}) {numbers} SELECT seq, {values} FROM s"


@dataclass(slots=True)
class CanalMySql(TwoTables):
    """`events` has a key of all its columns: tables without one are refused."""

    followed: Followed

    KINDS = KINDS
    TEXT = TEXT
    QUOTE = "`"

    def fill(self) -> None:
        """See System."""
        self.followed.follow()
        self.followed.execute(rows(1, 2000), *(f"INSERT INTO events VALUES ({n}, 'e{n % 7}')" for n in range(100)))
        self.followed.apply("before")

    def fail(self) -> str:
        """See System."""
        followed = self.followed
        followed.connector.stop(followed.database)
        followed.execute(
            "DELETE FROM kinds WHERE id BETWEEN 100 AND 399",
            "UPDATE kinds SET total = -1, day = NULL WHERE id BETWEEN 400 AND 450",
            "UPDATE kinds SET id = id + 10000 WHERE id BETWEEN 500 AND 510",
            rows(3001, 3100),
            "DELETE FROM events WHERE n < 10",
            "INSERT INTO events VALUES (7, 'gap'), (8, 'gap')",
        )
        followed.purge()
        followed.canal.start()
        said = [line for line in followed.failure().splitlines() if GONE in line]
        if not said:
            raise AssertionError("another failure than the purged log's")
        return said[0].strip()

    def writing(self) -> AbstractContextManager[Any]:
        """See System."""
        return writing(
            self.followed.server,
            self.followed.database,
            # far from every other key, however long the writer goes on
            f"INSERT INTO kinds ({NAMES}) SELECT 100000 + {{n}}, {VALUES.replace('{n}', '(5000 + {n})')}",
            "UPDATE kinds SET word = 'w{n}', total = total + 1 WHERE id = 600 + {n} % 50",
            "UPDATE kinds SET id = id + 20000 WHERE id = 700 + {n} % 50",
            "DELETE FROM kinds WHERE id = 100000 + {n} - 20",
            "INSERT INTO events VALUES ({n}, 'live'), ({n}, 'Live ')",
            "DELETE FROM events WHERE n = {n} - 30 AND t = 'live'",
        )

    def catch_up(self) -> None:
        """See System."""
        self.followed.execute("UPDATE kinds SET ok = 1 - ok WHERE id < 50")
        self.followed.apply("after")

    def source_rows(self, table: str, columns: str) -> Sequence[Row]:
        """See TwoTables."""
        found = self.followed.execute(f"SELECT {columns} FROM {table}")
        return [tuple(None if value is None else _text(value) for value in row) for row in found]

    def spoil(self) -> None:
        """See System."""
        self.followed.execute(
            rows(9001, 9001), "DELETE FROM kinds WHERE id = 1", "UPDATE kinds SET story = 'another' WHERE id = 2"
        )


def _text(value: Any) -> str:
    """What PyMySQL made of a value of the server's."""
    if isinstance(value, float):
        return exact(value)
    return value.decode() if isinstance(value, bytes) else str(value)


def create_tables(server: MySqlServer, database: str) -> None:
    """A database with both tables, empty."""
    columns = ", ".join(f"{name} {kind.declared}" for name, kind in KINDS.items())
    server.execute(
        f"CREATE DATABASE {database} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        f"USE {database}",
        f"CREATE TABLE kinds (id bigint PRIMARY KEY, {columns})",
        "CREATE TABLE events (n int, t varchar(40), PRIMARY KEY (n, t))",
    )


@contextmanager
def opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[CanalMySql]:
    """Servers of its own, and a database with both tables."""
    with stack.start(
        folder / "stack", ("kafka", "mysql"), mysql_settings=[MySqlSettings(max_binlog_size=4194304)]
    ) as running:
        server, broker = running.mysql["mysql"], running.kafka
        if broker is None:
            raise AssertionError("the stack has no Kafka")
        create_tables(server, NAME)
        zookeeper = start_zookeeper(folder / "zookeeper")
        try:
            followed = Followed(
                server, spark, lake, broker.bootstrap, zookeeper.address, folder, NAME, ("kinds", "events")
            )
            try:
                yield CanalMySql(followed, f"MySQL {server.version}, Canal 1.1.7, ZooKeeper 3.5.6")
            finally:
                followed.canal.stop()
        finally:
            end(zookeeper.child)


CASE = Case("Canal/ZooKeeper MySQL", "the log was purged past the cursor's GTIDs", opened)
