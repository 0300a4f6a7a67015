"""Debezium and Kafka into Hudi: MySQL's log was purged, and every type that Hudi takes goes through snapshot and log.

It runs in the environment of Hudi's Spark (elsewhere.py). The tables are read by Hudi's own reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stack
from airflow_cdc.sinks.hudi.endpoint import COPY_ON_WRITE
from stack import versions
from stack.mysql import MySqlSettings
from tests.integration.recovering import writing
from tests.on_hudi.followed import IntoHudi
from tests.systems import debezium_mariadb as mariadb
from tests.systems.canal_mysql import document
from tests.systems.case import Case, Differences, Recovered, Row, differences
from tests.systems.debezium_mariadb import TEXT, as_text, exact
from tests.systems.two_tables import Kind, same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake
    from stack.mysql import MySqlServer

NAME = "systems_hudi"
GONE = "no longer available on the server"
# names of Avro have no backticks; 8.0.15 has no invisible columns, and keeps a JSON document in its own order
KINDS = {
    **{name: kind for name, kind in mariadb.KINDS.items() if name != "hidden" and not name.startswith("`")},
    "ratio": Kind("float", "{n} + 0.1", "{c} + 0e0", exact),
    "doc": Kind("json", "JSON_OBJECT('b', {n}, 'a', JSON_ARRAY('ü', NULL, TRUE))", TEXT, document),
}
STORED = {name: kind for name, kind in KINDS.items() if kind.value}
NAMES = ", ".join(["id", *STORED])
VALUES = ", ".join(kind.value for kind in STORED.values())
WORDS = {
    "lang": Kind("varchar(20)", "", TEXT, same),
    "n": Kind("int", "", TEXT, same),
    "t": Kind("text", "", TEXT, same),
}


def numbers(first: int, last: int) -> str:
    """SQL in front of a SELECT of these numbers, as `s.seq`."""
    return f"WITH RECURSIVE s(seq) AS (SELECT {first} UNION ALL SELECT seq + 1 FROM s WHERE seq < {last})"


def rows_of_kinds(names: str, values: str, first: int, last: int) -> str:
    """SQL that adds rows of these numbers to `kinds`: its columns, and their values in row {n}."""
    selected = values.format(n="CAST(seq AS SIGNED)")
    return f"INSERT INTO kinds ({names}) {numbers(first, last)} SELECT seq, {selected} FROM s"


rows = partial(rows_of_kinds, NAMES, VALUES)


@dataclass(slots=True)
class DebeziumHudi:
    """Two tables: `kinds` with a column of each type, `words` with a key of two columns."""

    followed: IntoHudi
    version: str

    def fill(self) -> None:
        """See System."""
        self.followed.follow()
        self.followed.execute(
            "SET SESSION cte_max_recursion_depth = 100000",
            rows(1, 2000),
            f"INSERT INTO words {numbers(1, 500)} SELECT CONCAT('é:', seq % 7), seq, CONCAT('w', seq) FROM s",
        )
        self.followed.apply("before")

    def fail(self) -> str:
        """See System."""
        followed = self.followed
        followed.connector.stop(followed.database)
        followed.execute(
            "DELETE FROM kinds WHERE id BETWEEN 100 AND 399",
            "UPDATE kinds SET total = -1, day = NULL WHERE id BETWEEN 400 AND 450",
            rows(3001, 3100),
            "DELETE FROM words WHERE n < 50",
            "UPDATE words SET lang = 'moved' WHERE n = 60",
        )
        followed.purge()
        followed.connector.resume(followed.database)
        said = [line for line in followed.failure().splitlines() if GONE in line]
        if not said:
            raise AssertionError(f"another failure than the purged log's: {followed.failure()}")
        return said[0].strip()

    def writing(self) -> AbstractContextManager[Any]:
        """See System."""
        return writing(
            self.followed.server,
            self.followed.database,
            # far from every other key, however long the writer goes on
            f"INSERT INTO kinds ({NAMES}) SELECT 100000 + {{n}}, {VALUES.replace('{n}', '(5000 + {n})')}",
            "UPDATE kinds SET word = 'w{n}', total = total + 1 WHERE id = 500 + {n} % 50",
            "DELETE FROM kinds WHERE id = 100000 + {n} - 20",
            "INSERT INTO words VALUES ('live', {n}, 'a')",
            "DELETE FROM words WHERE n = {n} - 30 AND lang = 'live'",
        )

    def recover(self) -> Recovered:
        """See System."""
        done = self.followed.recover("recovery")
        return Recovered(done["decision"]["diagnosis"]["code"], done["verify"]["verdict"])

    def catch_up(self) -> None:
        """See System. A deleted row comes back, and one is deleted that was there all the time."""
        self.followed.execute(
            "UPDATE kinds SET ok = 1 - ok WHERE id < 50", rows(100, 100), "DELETE FROM kinds WHERE id IN (60, 700)"
        )
        self.followed.apply("after")

    def differences(self) -> Differences:
        """See System."""
        kinds = {"id": Kind("bigint", "", TEXT, same), **KINDS}
        return self._compared("kinds", kinds, 1) + self._compared("words", WORDS, 2)

    def _compared(self, table: str, kinds: Mapping[str, Kind], key: int) -> Differences:
        columns = ", ".join(kind.server.replace("{c}", name) for name, kind in kinds.items())
        source = self.followed.execute(f"SELECT {columns} FROM {table}")
        theirs = [tuple(None if value is None else as_text(value) for value in row) for row in source]
        return differences(theirs, [_row(kinds, row) for row in self.followed.sink_rows(table)], key)

    def spoil(self) -> None:
        """See System."""
        self.followed.execute(
            rows(9001, 9001), "DELETE FROM kinds WHERE id = 1", "UPDATE kinds SET story = 'another' WHERE id = 2"
        )


def _row(kinds: Mapping[str, Kind], row: Mapping[str, Any]) -> Row:
    return tuple(None if row[name] is None else kind.sink(row[name]) for name, kind in kinds.items())


def create(server: MySqlServer, name: str) -> None:
    """A database with both tables."""
    columns = ", ".join(f"{column} {kind.declared}" for column, kind in KINDS.items())
    server.execute(
        f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        f"USE {name}",
        f"CREATE TABLE kinds (id bigint PRIMARY KEY, {columns})",
        "CREATE TABLE words (lang varchar(20), n int, t text, PRIMARY KEY (lang, n))",
    )


@contextmanager
def opened(folder: Path, spark: SparkSession, lake: Lake, table_type: str = COPY_ON_WRITE) -> Iterator[DebeziumHudi]:
    """A server, a broker and a worker of its own, and a database with both tables."""
    with stack.start(
        folder / "stack", ("kafka", "connect", "mysql"), mysql_settings=[MySqlSettings(max_binlog_size=4194304)]
    ) as running:
        server, broker, worker = running.mysql["mysql"], running.kafka, running.connect
        if broker is None or worker is None:
            raise AssertionError("the stack has no Kafka or no Connect")
        create(server, NAME)
        tables = ("kinds", "words")
        followed = IntoHudi(server, spark, lake, broker.bootstrap, worker.url, folder, NAME, tables, table_type)
        version = f"MySQL {server.version}, Debezium {versions.DEBEZIUM}, Hudi {versions.HUDI}"
        yield DebeziumHudi(followed, version)


PURGED = "the log was purged past the stored GTIDs"
CASES = tuple(
    Case(f"Debezium to Hudi ({kind})", PURGED, partial(opened, table_type=kind), elsewhere=True)
    for kind in (COPY_ON_WRITE, "merge-on-read")
)
