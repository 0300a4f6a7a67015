"""Debezium MariaDB: the log was purged, and every supported type goes through snapshot and log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stack
from stack import versions
from stack.mysql import MySqlSettings
from tests.integration.mariadb.recovered import Followed
from tests.integration.recovering import writing
from tests.systems.case import Case, Row
from tests.systems.two_tables import Kind, TwoTables, plain, same, stamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

GONE = "Could not find GTID state requested by slave in any binlog files"


def exact(value: float) -> str:
    return repr(float(value))


def digits(value: Any) -> str:
    return bytes(value).hex().upper()


def lasting(value: int) -> str:
    """Signed microseconds as the server prints a TIME(6)."""
    seconds, micros = divmod(abs(value), 1_000_000)
    sign = "-" if value < 0 else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


def shape(value: Any) -> str:
    return f"{value['srid']}:{digits(value['wkb'])}"


TEXT, HEX, STAMP = "CAST({c} AS CHAR)", "HEX({c})", "DATE_FORMAT({c}, '%Y-%m-%dT%H:%i:%s.%f')"
NUMBER = "CAST({c} + 0 AS CHAR)"
KINDS: dict[str, Kind] = {
    "tiny": Kind("tinyint", "{n} % 256 - 128", TEXT, same),
    "ok": Kind("tinyint(1)", "{n} % 2", TEXT, same),
    "small": Kind("smallint unsigned", "{n} % 65536", TEXT, same),
    "medium": Kind("mediumint", "-8388608 + {n}", TEXT, same),
    "whole": Kind("int unsigned", "4294967295 - {n}", TEXT, same),
    "huge": Kind("bigint unsigned", "18446744073709551615 - {n}", TEXT, plain),
    "total": Kind("decimal(12,2)", "{n} + 0.25", TEXT, plain),
    "wide": Kind("decimal(38,10)", "1234567890123456789012345678.0123456789 - {n}", TEXT, plain),
    "widest": Kind("decimal(65,30)", "12345678901234567890123456789012345.123456789 - {n}", TEXT, same),
    "ratio": Kind("float", "{n} + 0.1", "CAST({c} AS DOUBLE)", exact),
    "share": Kind("double", "{n} / 3e0", "{c}", exact),
    "flags": Kind("bit(12)", "{n} % 4096", NUMBER, same),
    "day": Kind("date", "DATE'1000-01-01' + INTERVAL {n} DAY", TEXT, lambda v: str(v.isoformat())),
    "at": Kind("datetime(6)", "TIMESTAMP'1969-12-31 23:59:59.999999' + INTERVAL {n} SECOND", STAMP, stamp),
    "seen": Kind("timestamp(6) NULL", "TIMESTAMP'2026-03-29 00:30:00.000001' + INTERVAL {n} HOUR", STAMP, stamp),
    "clock": Kind("time(6)", "ADDTIME('-500:00:00.000001', SEC_TO_TIME({n} % 3000 * 601))", TEXT, lasting),
    "since": Kind("year", "1901 + {n} % 250", NUMBER, same),
    "word": Kind("varchar(40)", "CONCAT('wörd |', {n}, '\\t\\\\ ')", TEXT, same),
    "latin": Kind("varchar(40) CHARACTER SET latin1", "CONCAT('é€', {n})", "CONVERT({c} USING utf8mb4)", same),
    "padded": Kind("char(12)", "CONCAT('c', {n}, '  ')", TEXT, same),
    "story": Kind("mediumtext", "REPEAT(CONCAT('😀', {n}), 50)", TEXT, same),
    "doc": Kind("json", "CONCAT('{{\"b\":  1.0, \"a\": [', {n}, ']}}')", "{c}", same),
    "mood": Kind("enum('sad ''one''','happy')", "{n} % 2 + 1", TEXT, same),
    "tags": Kind("set('a','b|','ü')", "{n} % 8", TEXT, same),
    "fixed": Kind("binary(6)", "CONCAT(X'00ff', CHAR({n} % 7))", HEX, digits),
    "raw": Kind("varbinary(40)", "UNHEX(CONCAT(MD5({n}), '00ff00'))", HEX, digits),
    "blob_": Kind("blob", "UNHEX(REPEAT(MD5({n}), 20))", HEX, digits),
    "place": Kind("point", "POINT({n}, -{n} / 7)", "CONCAT(ST_SRID({c}), ':', HEX(ST_AsWKB({c})))", shape),
    "twice": Kind("bigint AS (`tiny` * 2) STORED", "", TEXT, same),
    "hidden": Kind("int INVISIBLE", "{n}", TEXT, same),
    '`Qté "``x`': Kind("text", "IF({n} % 5 = 0, NULL, '')", TEXT, same),
}  # fmt: skip
STORED = {name: kind for name, kind in KINDS.items() if kind.value}
NAMES = ", ".join(["id", *STORED])
VALUES = ", ".join(kind.value for kind in STORED.values())


# 11.8 leaves generated columns out of what it logs of an UPDATE or DELETE; the product refuses a table with one by name
WITHOUT_GENERATED = {name: kind for name, kind in KINDS.items() if name != "twice"}


def rows(first: int, last: int) -> str:
    """SQL that adds rows of these numbers."""
    return (
        f"INSERT INTO kinds ({NAMES}) SELECT seq, {VALUES.format(n='CAST(seq AS SIGNED)')} FROM seq_{first}_to_{last}"
    )


@dataclass(slots=True)
class DebeziumMariaDb(TwoTables):
    """On a server of MariaDB's own make."""

    followed: Followed

    KINDS = KINDS
    TEXT = TEXT
    QUOTE = "`"

    def fill(self) -> None:
        """See System."""
        self.followed.follow({})
        self.followed.execute(
            rows(1, 2000),
            "INSERT INTO events SELECT seq % 50, CONCAT('e', seq % 7) FROM seq_1_to_2000",
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
            "DELETE FROM events WHERE n < 10",
            "INSERT INTO events VALUES (7, 'gap'), (7, 'gap')",
        )
        followed.purge()
        followed.connector.resume(followed.database)
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
            "UPDATE kinds SET word = 'w{n}', total = total + 1 WHERE id = 500 + {n} % 50",
            "DELETE FROM kinds WHERE id = 100000 + {n} - 20",
            "INSERT INTO events VALUES ({n}, 'live'), ({n}, 'live')",
            "DELETE FROM events WHERE n = {n} - 30 AND t = 'live'",
        )

    def catch_up(self) -> None:
        """See System."""
        self.followed.execute("UPDATE kinds SET ok = 1 - ok WHERE id < 50")
        self.followed.apply("after")

    def source_rows(self, table: str, columns: str) -> Sequence[Row]:
        """See TwoTables."""
        rows = self.followed.execute(f"SELECT {columns} FROM {table}")
        return [tuple(None if value is None else as_text(value) for value in row) for row in rows]

    def spoil(self) -> None:
        """See System."""
        self.followed.execute(
            rows(9001, 9001), "DELETE FROM kinds WHERE id = 1", "UPDATE kinds SET story = 'another' WHERE id = 2"
        )


class WithoutGenerated(DebeziumMariaDb):
    """On a server whose log lacks generated columns."""

    KINDS = WITHOUT_GENERATED


def as_text(value: Any) -> str:
    """What PyMySQL made of a value of the server's."""
    if isinstance(value, float):
        return exact(value)
    return value.decode() if isinstance(value, bytes) else str(value)


@contextmanager
def opened(series: str, folder: Path, spark: SparkSession, lake: Lake) -> Iterator[DebeziumMariaDb]:
    """A server of this series, a broker and a worker of its own, and a database with both tables."""
    database = f"systems_{series.replace('.', '')}"  # the rows share a lake
    settings = MySqlSettings(name="mariadb", server_id=103, series=series, max_binlog_size=4194304)
    with stack.start(folder / "stack", ("kafka", "connect", "mysql"), mysql_settings=[settings]) as running:
        server, broker, worker = running.mysql["mariadb"], running.kafka, running.connect
        if broker is None or worker is None:
            raise AssertionError("the stack has no Kafka or no Connect")
        kind_of = DebeziumMariaDb if series == "mariadb" else WithoutGenerated
        columns = ", ".join(f"{name} {kind.declared}" for name, kind in kind_of.KINDS.items())
        server.execute(
            f"CREATE DATABASE {database} CHARACTER SET utf8mb4",
            f"USE {database}",
            f"CREATE TABLE kinds (id bigint PRIMARY KEY, {columns})",
            "CREATE TABLE events (n int, t text)",
        )
        followed = Followed(server, spark, lake, broker.bootstrap, worker.url, folder, database, ("kinds", "events"))
        yield kind_of(followed, f"MariaDB {server.version}, Debezium {versions.DEBEZIUM_MARIADB}")


PURGED = "the log was purged past the stored GTID"
CASES = tuple(
    Case(f"Debezium MariaDB {versions.MYSQL_TESTED[series]}", PURGED, partial(opened, series))
    for series in sorted(versions.MARIADB)
)
