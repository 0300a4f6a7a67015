"""Debezium PostgreSQL and Debezium's JDBC sink into MySQL: the slot was dropped, and the copies are put right through the topics.

Each column is compared as text that both databases make of it in SQL of the test's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from stack import versions
from tests.integration.jdbc.fed import started
from tests.integration.jdbc.fed_postgres import FromPostgres
from tests.integration.recovering import meanwhile
from tests.systems.case import Case
from tests.systems.debezium_jdbc import CHARS, DebeziumJdbc, Kind, exact

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


@dataclass(slots=True)
class DebeziumJdbcPostgres(DebeziumJdbc):
    """See DebeziumJdbc."""

    kinds: ClassVar[Mapping[str, Kind]] = {"id": ID, **KINDS}
    words: ClassVar[Mapping[str, Kind]] = WORDS
    turned: ClassVar[str] = "ok = NOT ok"

    def rows(self, first: int, last: int) -> str:
        """See DebeziumJdbc."""
        return f"INSERT INTO kinds SELECT i, {VALUES.replace('{n}', 'i')} FROM generate_series({first}, {last}) i"

    def row(self, key: str, number: str) -> str:
        """See DebeziumJdbc."""
        return f"INSERT INTO kinds SELECT {key}, {VALUES.replace('{n}', number)}"

    def first_rows(self) -> tuple[str, ...]:
        """See DebeziumJdbc."""
        return (
            self.rows(1, 2000),
            "INSERT INTO words SELECT 'é:' || i % 7, i, 'w' || i FROM generate_series(1, 500) i",
        )

    def writing(self) -> AbstractContextManager[Any]:
        """See System."""
        server, name = self.fed.servers.postgres, self.fed.name

        def write(stop: Any) -> None:
            with server.connect(dbname=name) as connection:
                n = 0
                while not stop.wait(0.05):
                    n += 1
                    with connection.transaction():
                        for statement in self.statements():
                            connection.execute(statement.replace("{n}", str(n)))

        return meanwhile(write)


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
