"""Debezium PostgreSQL: the replication slot is dropped, and every supported type goes through snapshot and log."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stack
from stack import versions
from tests.integration.postgres.recovered import Followed, writing
from tests.systems.case import Case, Row
from tests.systems.two_tables import Kind, TwoTables, plain, same, stamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

NAME = "systems_postgres"
GONE = "no longer available on the server"


def truth(value: Any) -> str:
    return "true" if value else "false"


def listed(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def of_day(value: Any) -> str:
    """Microseconds since midnight as the server prints a time."""
    seconds, micros = divmod(value, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


TEXT, STAMP = "{c}::text", "to_char({c}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')"
KINDS: dict[str, Kind] = {
    "small": Kind("smallint", "({n} % 65536) - 32768", TEXT, same),
    "whole": Kind("integer", "2147483647 - {n}", TEXT, same),
    "total": Kind("numeric(12,2)", "{n} + 0.25", TEXT, plain),
    "wide": Kind("numeric(38,10)", "1234567890123456789012345678.0123456789 - {n}", TEXT, plain),
    "any_number": Kind("numeric", "CASE {n} % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN 1.10 ELSE 1e-20 END", TEXT, same),
    "price": Kind("money", "({n} + 0.10)::numeric::money", "{c}::numeric(19,2)::text", plain),
    "ratio": Kind("real", "({n} + 0.1)::real", "encode(float8send({c}::float8), 'hex')", lambda v: struct.pack(">d", v).hex()),
    "share": Kind("double precision", "CASE {n} % 3 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' ELSE {n} / 3.0 END", "encode(float8send({c}), 'hex')", lambda v: struct.pack(">d", v).hex()),
    "ok": Kind("boolean", "{n} % 2 = 0", TEXT, truth),
    "day": Kind("date", "DATE '0001-01-01' + {n}", "to_char({c}, 'YYYY-MM-DD')", lambda v: str(v.isoformat())),
    "at": Kind("timestamp", "TIMESTAMP '1969-12-31 23:59:59.999999' + {n} * INTERVAL '1 s'", STAMP, stamp),
    "seen": Kind("timestamptz", "TIMESTAMPTZ '2026-03-29 02:30:00.000001+02' + {n} * INTERVAL '1 h'", "to_char({c} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US')", stamp),
    "clock": Kind("time", "TIME '23:59:59.999999' - {n} * INTERVAL '1 s'", "to_char({c}, 'HH24:MI:SS.US')", of_day),
    "lasting": Kind("interval", "make_interval(days => ({n} % 9)::int, secs => ({n} % 7)::int)", "'P0Y0M' || extract(day FROM {c}) || 'DT0H0M' || extract(second FROM {c})::int || 'S'", same),
    "id2": Kind("uuid", "md5({n}::text)::uuid", TEXT, same),
    "raw": Kind("bytea", "decode(md5({n}::text) || '00ff', 'hex')", "encode({c}, 'hex')", lambda v: bytes(v).hex()),
    "word": Kind("varchar(40)", "'wörd |' || {n} || E'\\t\\\\ '", TEXT, same),
    "padded": Kind("char(12)", "'c' || {n}", "rtrim({c}::text)", same),
    "doc": Kind("jsonb", "jsonb_build_object('b', {n}, 'a', 12345678901234567890.10, 'c', NULL)", TEXT, same),
    "raw_doc": Kind("json", "('{{\"b\":' || {n} || ', \"a\" : 1.0}}')::json", TEXT, same),
    "mood": Kind("mood", "CASE {n} % 2 WHEN 0 THEN 'sad ''one''' ELSE 'happy' END::mood", TEXT, same),
    "age": Kind("positive", "{n} + 1", TEXT, same),
    "address": Kind("inet", "'10.0.0.0'::inet + {n}", "host({c})", same),
    "span": Kind("int4range", "int4range({n}::int, {n}::int + 5)", TEXT, same),
    "bits": Kind("bit(12)", "({n} % 4096)::int::bit(12)", "{c}::int::text", same),
    "numbers": Kind("integer[]", "ARRAY[{n}::int, NULL, -3]", "replace(array_to_json({c})::text, ' ', '')", listed),
    "tags": Kind("text[]", "ARRAY['a|b', '', NULL, 'N' || {n}]", "array_to_json({c})::text", listed),
    '"Qté ""x"': Kind("text", "CASE WHEN {n} % 5 = 0 THEN NULL ELSE '' END", TEXT, same),
}  # fmt: skip
SETTINGS = {
    "decimal.handling.mode": "string",
    "interval.handling.mode": "string",
    "provide.transaction.metadata": "true",
    "skipped.operations": "none",
}


VALUES = ", ".join(kind.value for kind in KINDS.values())


def rows(first: int, last: int) -> str:
    """SQL that adds rows of these numbers."""
    return f"INSERT INTO public.kinds SELECT i, {VALUES.format(n='i')} FROM generate_series({first}, {last}) i"


@dataclass(slots=True)
class DebeziumPostgres(TwoTables):
    """`kinds` has its default replica identity."""

    followed: Followed

    KINDS = KINDS
    TEXT = TEXT
    QUOTE = '"'

    def fill(self) -> None:
        """See System."""
        self.followed.follow(SETTINGS)
        self.followed.execute(
            rows(1, 2000),
            "INSERT INTO public.events SELECT i % 50, 'e' || i % 7 FROM generate_series(1, 2000) i",
        )
        self.followed.apply("before")

    def fail(self) -> str:
        """See System."""
        followed = self.followed
        followed.connector.stop(followed.database)
        followed.execute(
            f"SELECT pg_drop_replication_slot('{followed.database}')",
            "DELETE FROM public.kinds WHERE id BETWEEN 100 AND 399",
            "UPDATE public.kinds SET total = -1, day = NULL WHERE id BETWEEN 400 AND 450",
            rows(3001, 3100),
            "DELETE FROM public.events WHERE n < 10",
            "INSERT INTO public.events VALUES (7, 'gap'), (7, 'gap')",
        )
        followed.connector.resume(followed.database)
        text = followed.failure().splitlines()[0]
        if GONE not in text:
            raise AssertionError(f"another failure than the slot's: {text}")
        return text

    def writing(self) -> AbstractContextManager[Any]:
        """See System."""
        return writing(
            self.followed,
            f"INSERT INTO public.kinds SELECT 5000 + {{n}}, {VALUES.replace('{n}', '(5000 + {n})')}",
            "UPDATE public.kinds SET word = 'w{n}', total = total + 1 WHERE id = 500 + {n} % 50",
            "DELETE FROM public.kinds WHERE id = 5000 + {n} - 20",
            "INSERT INTO public.events VALUES ({n}, 'live'), ({n}, 'live')",
            "DELETE FROM public.events WHERE n = {n} - 30 AND t = 'live'",
        )

    def catch_up(self) -> None:
        """See System."""
        self.followed.execute("UPDATE public.kinds SET ok = NOT ok WHERE id < 50")
        self.followed.apply("after")

    def source_rows(self, table: str, columns: str) -> Sequence[Row]:
        """See TwoTables."""
        return self.followed.execute(f"SELECT {columns} FROM public.{table}")

    def spoil(self) -> None:
        """See System."""
        self.followed.execute(
            rows(9001, 9001),
            "DELETE FROM public.kinds WHERE id = 1",
            "UPDATE public.kinds SET tags = ARRAY['a', 'b'] WHERE id = 2",
        )


@contextmanager
def opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[DebeziumPostgres]:
    """A server, a broker and a worker of its own, and a database with both tables."""
    with stack.start(folder / "stack", ("kafka", "connect", "postgres")) as running:
        server, broker, worker = running.postgres["postgres"], running.kafka, running.connect
        if broker is None or worker is None:
            raise AssertionError("the stack has no Kafka or no Connect")
        server.execute(f"CREATE DATABASE {NAME}")
        columns = ", ".join(f"{name} {kind.declared}" for name, kind in KINDS.items())
        server.execute(
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO cdc, debezium",
            "CREATE TYPE mood AS ENUM ('sad ''one''', 'happy')",
            "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
            f"CREATE TABLE public.kinds (id bigint PRIMARY KEY, {columns})",
            "CREATE TABLE public.events (n int, t text)",
            "ALTER TABLE public.events REPLICA IDENTITY FULL",
            f"CREATE PUBLICATION {NAME} FOR TABLE public.kinds, public.events",
            dbname=NAME,
        )
        tables = ("kinds", "events")
        followed = Followed(server, spark, lake, broker.bootstrap, worker.url, folder, NAME, tables)
        ((version,),) = server.execute("SHOW server_version")
        yield DebeziumPostgres(followed, f"PostgreSQL {version}, Debezium {versions.DEBEZIUM}")


CASE = Case("Debezium PostgreSQL", "the replication slot was dropped", opened)
