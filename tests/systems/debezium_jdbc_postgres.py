"""Debezium PostgreSQL and Debezium's JDBC sink into MySQL: the slot was dropped, and the copies are put right through the topics.

Each column is compared as text that both databases make of it in SQL of the test's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stack import versions
from tests.integration.jdbc.fed import started
from tests.integration.jdbc.fed_postgres import FromPostgres
from tests.integration.recovering import meanwhile
from tests.systems.case import Case, Differences
from tests.systems.debezium_jdbc import CHARS, DebeziumJdbc, Kind, exact
from tests.systems.debezium_postgres import GONE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

TEXT = "{c}::text"
STAMP, STAMPED = "to_char({c}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')", "DATE_FORMAT({c}, '%Y-%m-%dT%H:%i:%s.%f')"
HEXED, HEX = "upper(encode({c}, 'hex'))", "HEX({c})"
KINDS: Final[Mapping[str, Kind]] = {
    "small": Kind("smallint", "{n} % 65536 - 32768", TEXT, CHARS),
    "whole": Kind("integer", "2147483647 - {n}", TEXT, CHARS),
    "big": Kind("bigint", "9223372036854775807 - {n}", TEXT, CHARS),
    "money": Kind("numeric(12,2)", "{n} - 0.75", TEXT, CHARS),
    "wide": Kind("numeric(38,10)", "1234567890123456789012345678.0123456789 - {n}", TEXT, CHARS),
    "f": Kind("real", "{n} + 0.1", "{c}::float8", "{c} + 0e0", exact),
    "d": Kind("double precision", "{n} / 3.0", "{c}", "{c}", exact),
    "ok": Kind("boolean", "{n} % 2 = 0", "{c}::int", "{c} + 0"),
    "v": Kind("varchar(40)", "'wörd |' || {n} || E'\\t\\\\ '", TEXT, CHARS),
    "note": Kind("text", "repeat('😀' || {n}, 50)", TEXT, CHARS),
    "b": Kind("bytea", "decode(repeat(md5({n}::text), 20), 'hex')", HEXED, HEX),
    "day": Kind("date", "DATE '1000-01-01' + {n}", "to_char({c}, 'YYYY-MM-DD')", CHARS),
    "clock": Kind("time", "TIME '23:59:59.000001' - {n} * INTERVAL '1 s'", "to_char(date '2000-01-01' + {c}, 'HH24:MI:SS.US')", "TIME_FORMAT({c}, '%H:%i:%s.%f')"),
    "at": Kind("timestamp", "TIMESTAMP '1969-12-31 23:59:59.999999' + {n} * INTERVAL '1 s'", STAMP, STAMPED),
    "seen": Kind("timestamptz", "TIMESTAMPTZ '2026-03-29 00:30:00.000001+00' + {n} * INTERVAL '1 h'", STAMP, STAMPED),
    "mark": Kind("uuid", "md5({n}::text)::uuid", TEXT, CHARS),
    "void": Kind("varchar(9)", "CASE WHEN {n} % 5 = 0 THEN NULL ELSE '' END", TEXT, CHARS),
}  # fmt: skip
WORDS: Final[Mapping[str, Kind]] = {
    "lang": Kind("varchar(20)", "", TEXT, CHARS),
    "n": Kind("int", "", TEXT, CHARS),
    "t": Kind("text", "", TEXT, CHARS),
}
ID: Final = Kind("bigint", "", TEXT, CHARS)
VALUES: Final = ", ".join(kind.value for kind in KINDS.values())


def rows(first: int, last: int) -> str:
    """SQL that adds rows of these numbers."""
    return f"INSERT INTO kinds SELECT i, {VALUES.replace('{n}', 'i')} FROM generate_series({first}, {last}) i"


@dataclass(slots=True)
class DebeziumJdbcPostgres(DebeziumJdbc):
    """See DebeziumJdbc."""

    def fill(self) -> None:
        """See System."""
        columns = ", ".join(f"{name} {kind.declared}" for name, kind in KINDS.items())
        self.fed.create(
            f"CREATE TABLE kinds (id {ID.declared} PRIMARY KEY, {columns})",
            "CREATE TABLE words (lang varchar(20), n int, t text, PRIMARY KEY (lang, n))",
        )
        self.fed.follow({"topic.creation.default.partitions": "4", "topic.creation.default.replication.factor": "1"})
        self.fed.feed()
        self.fed.execute(
            rows(1, 2000), "INSERT INTO words SELECT 'é:' || i % 7, i, 'w' || i FROM generate_series(1, 500) i"
        )
        self.fed.wait_target("SELECT count(*) FROM kinds", [(2000,)])
        self.fed.wait_target("SELECT count(*) FROM words", [(500,)])

    def fail(self) -> str:
        """See System."""
        fed = self.fed
        fed.stop_source()
        fed.purge()
        fed.execute(
            "DELETE FROM kinds WHERE id BETWEEN 100 AND 399",
            "UPDATE kinds SET money = -1, day = NULL WHERE id BETWEEN 400 AND 450",
            rows(3001, 3100),
            "DELETE FROM words WHERE n < 50",
            "UPDATE words SET lang = 'moved' WHERE n = 60",
        )
        text = next((line for line in fed.failure().splitlines() if GONE in line), "")
        if not text:
            raise AssertionError("another failure than the slot's")
        return text.strip()

    def writing(self) -> AbstractContextManager[Any]:
        """See System."""
        server, name = self.fed.servers.postgres, self.fed.name
        statements = (
            f"INSERT INTO kinds SELECT 100000 + {{n}}, {VALUES.replace('{n}', '(5000 + {n})')}",
            "UPDATE kinds SET v = 'w{n}', money = money + 1 WHERE id = 500 + {n} % 50",
            "DELETE FROM kinds WHERE id = 100000 + {n} - 20",
            "INSERT INTO words VALUES ('live', {n}, 'a')",
            "DELETE FROM words WHERE n = {n} - 30 AND lang = 'live'",
        )

        def write(stop: Any) -> None:
            with server.connect(dbname=name) as connection:
                n = 0
                while not stop.wait(0.05):
                    n += 1
                    with connection.transaction():
                        for statement in statements:
                            connection.execute(statement.replace("{n}", str(n)))

        return meanwhile(write)

    def change(self) -> None:
        """See DebeziumJdbc."""
        self.fed.execute(
            "UPDATE kinds SET ok = NOT ok WHERE id < 50", rows(100, 100), "DELETE FROM kinds WHERE id IN (60, 700)"
        )

    def differences(self) -> Differences:
        """See System."""
        return self._compared("kinds", {"id": ID, **KINDS}, 1) + self._compared("words", WORDS, 2)

    def spoil(self) -> None:
        """See DebeziumJdbc."""
        self.fed.stop_source()
        self.fed.execute(
            rows(9001, 9001), "DELETE FROM kinds WHERE id = 1", "UPDATE kinds SET note = 'another' WHERE id = 2"
        )


@contextmanager
def opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[DebeziumJdbcPostgres]:
    """Servers of its own, with a worker that has Debezium's three connectors."""
    with started(folder) as servers:
        fed = FromPostgres(servers)
        about = (
            f"PostgreSQL {servers.postgres.version}, Debezium {versions.DEBEZIUM}, JDBC sink {versions.DEBEZIUM_SINK}"
        )
        try:
            yield DebeziumJdbcPostgres(fed, spark, folder, f"{about}, MySQL {servers.mysql.version}")
        finally:
            fed.close()


CASE = Case("Debezium PostgreSQL and its JDBC sink into MySQL", "the replication slot was dropped", opened)
