"""Every type of PostgreSQL at its edges: the SQL's canonical text is that of the reference, or the type or value is refused.

The expected values are written here by hand, in Python: they do not come out of the code that is tested.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from decimal import Decimal as Number

import pytest

from airflow_cdc.core.errors import SchemaError, SourceError
from airflow_cdc.core.types import (
    Array,
    Bits,
    Boolean,
    Bytes,
    Date,
    Decimal,
    Float,
    Instant,
    Integer,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Unsupported,
    Uuid,
)
from airflow_cdc.decisions.compare.canonical import key_text as reference_key
from airflow_cdc.decisions.compare.canonical import row_text as reference
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.encoding import key_text, row_hash, row_text
from airflow_cdc.sources.postgres.odd_values import odd_values
from airflow_cdc.sources.postgres.quoting import quote_table
from airflow_cdc.sources.postgres.schema import read_definitions, read_pg_tables
from airflow_cdc.sources.postgres.session import Session
from stack.postgres import PostgresServer
from tests.integration.postgres.support import endpoint

LONG = "ü€😀|N\\'\"" * 20_000
UTC = dt.UTC


def local(*parts: int) -> dt.datetime:
    """A date and time of no time zone."""
    return dt.datetime(*parts)  # type: ignore[arg-type] # noqa: DTZ001


# declared type, what it is elsewhere, literals with the values they mean
CASES: list[tuple[str, LogicalType, list[tuple[str, object]]]] = [
    ("smallint", Integer(16), [("-32768", -32768), ("32767", 32767)]),
    ("integer", Integer(32), [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)]),
    ("bigint", Integer(64), [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    ("oid", Integer(64), [("0", 0), ("4294967295", 2**32 - 1)]),
    ("boolean", Boolean(), [("true", True), ("false", False)]),
    ("numeric(5,2)", Decimal(5, 2), [("-999.99", Number("-999.99")), ("0.10", Number("0.10")), ("0", Number(0))]),
    ("numeric(18,18)", Decimal(18, 18), [("0.000000000000000001", Number("1e-18"))]),
    ("numeric(38,10)", Decimal(38, 10), [("1234567890123456789012345678.0123456789", Number("1234567890123456789012345678.0123456789"))]),
    ("numeric(60,3)", Decimal(60, 3), [("-" + "9" * 57 + ".999", Number("-" + "9" * 57 + ".999")), ("0", Number(0))]),
    ("numeric(3,-2)", Decimal(5, 0), [("99900", Number(99900)), ("-149", Number(-100))]),
    ("numeric(2,5)", Decimal(5, 5), [("0.00012", Number("0.00012"))]),
    ("numeric", Text(), [("1.10", "1.10"), ("1e-20", "0.00000000000000000001"), ("'NaN'", "NaN"), ("'-Infinity'", "-Infinity"), ("1e400", "1" + "0" * 400)]),
    ("money", Decimal(19, 2), [("'-92233720368547758.08'", Number("-92233720368547758.08")), ("'0.10'", Number("0.10"))]),
    ("real", Float(32), [("'-0'", -0.0), ("1e-45", 1.401298464324817e-45), ("0.1", 0.10000000149011612), ("'NaN'", float("nan")), ("'-Infinity'", float("-inf"))]),
    ("double precision", Float(64), [("'-0'", 0.0), ("5e-324", 5e-324), ("1.7976931348623157e308", 1.7976931348623157e308), ("'NaN'", float("nan")), ("'Infinity'", float("inf"))]),
    ("bit(1)", Bits(1), [("B'1'", 1), ("B'0'", 0)]),
    ("bit(12)", Bits(12), [("B'000000000101'", 5), ("B'111111111111'", 4095)]),
    ("bit(64)", Bits(64), [("B'" + "1" * 64 + "'", 2**64 - 1), ("B'0" + "1" * 63 + "'", 2**63 - 1)]),
    ("bit(65)", Text(), [("B'" + "01" * 32 + "1'", "01" * 32 + "1")]),
    ("bit varying(70)", Text(), [("B'001'", "001"), ("B''", "")]),
    ("date", Date(), [("'0001-01-01'", dt.date(1, 1, 1)), ("'9999-12-31'", dt.date(9999, 12, 31)), ("'1582-10-10'", dt.date(1582, 10, 10))]),
    ("time", Time(), [("'00:00'", 0), ("'23:59:59.999999'", 86399999999), ("'24:00'", 86400000000)]),
    ("time(3)", Time(), [("'01:02:03.4567'", 3723457000)]),
    ("time with time zone", Text(), [("'23:59:59.999999-15:59'", "23:59:59.999999-15:59")]),
    ("timestamp", LocalDateTime(), [("'0001-01-01'", local(1, 1, 1)), ("'9999-12-31 23:59:59.999999'", local(9999, 12, 31, 23, 59, 59, 999999)), ("'2026-03-29 02:30'", local(2026, 3, 29, 2, 30))]),
    ("timestamptz", Instant(), [("'0001-01-01 00:00:00+00'", dt.datetime(1, 1, 1, tzinfo=UTC)), ("'2026-03-29 02:30:00.000001+02'", dt.datetime(2026, 3, 29, 0, 30, 0, 1, tzinfo=UTC)), ("'1969-12-31 23:59:59.999999Z'", dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))]),
    ("interval", Text(), [("'1 year 2 mons 3 days 04:05:06.78'", "P1Y2M3DT4H5M6.78S"), ("'-1 mon +1 day -00:00:00.000001'", "P0Y-1M1DT0H0M-0.000001S"), ("'0'", "P0Y0M0DT0H0M0S")]),
    ("char(5)", Text(), [("'ab'", "ab"), ("'ab   '", "ab"), ("'  '", "")]),
    ("varchar(9)", Text(), [("'ab  '", "ab  "), ("''", ""), ("'N'", "N")]),
    ("text", Text(), [("'a|b'", "a|b"), ("''", ""), ("E'\\\\ \\' \\n\\x01'", "\\ ' \n\x01"), ("'e\u0301'", "e\u0301"), (f"$x${LONG}$x$", LONG)]),
    ('"char"', Text(), [("'x'", "x")]),
    ("name", Text(), [("'x'", "x")]),
    ("bytea", Bytes(long=True), [("''", b""), ("'\\x00ff5c'", b"\x00\xff\\"), ("decode(repeat('61', 100000), 'hex')", b"a" * 100_000)]),
    ("uuid", Uuid(), [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"))]),
    ("json", Text(), [("'{\"b\":1, \"a\" : 1.0}'", '{"b":1, "a" : 1.0}')]),
    ("jsonb", Text(), [("'{\"b\":1,\"a\":12345678901234567890.10}'", '{"a": 12345678901234567890.10, "b": 1}')]),
    ("xml", Text(), [("'<a>1</a>'", "<a>1</a>")]),
    ("inet", Text(), [("'10.1.2.3'", "10.1.2.3"), ("'10.1.2.3/8'", "10.1.2.3/8"), ("'::1'", "::1")]),
    ("cidr", Text(), [("'10.0.0.0/8'", "10.0.0.0/8")]),
    ("macaddr", Text(), [("'08002B010203'", "08:00:2b:01:02:03")]),
    ("macaddr8", Text(), [("'08002B0102030405'", "08:00:2b:01:02:03:04:05")]),
    ("int4range", Text(), [("'[1,5]'", "[1,6)"), ("'empty'", "empty"), ("'(,)'", "(,)")]),
    ("tstzrange", Text(), [("'[2026-01-01 00:00+09,)'", '["2025-12-31 15:00:00+00",)')]),
    ("int4multirange", Text(), [("'{[1,3],[7,9)}'", "{[1,4),[7,9)}")]),
    ("tsvector", Text(), [("'b a:1'", "'a':1 'b'")]),
    ("public.mood", Text(), [("'sad ''one'''", "sad 'one'"), ("'happy'", "happy")]),
    ("public.positive", Integer(32), [("7", 7)]),
    ("public.small_money", Decimal(8, 3), [("1.5", Number("1.5"))]),
    ("public.citext", Text(), [("'AbC'", "AbC")]),
    ("public.ltree", Text(), [("'a.b'", "a.b")]),
    ("integer[]", Array(Integer(32)), [("'{}'", []), ("'{1,NULL,-3}'", [1, None, -3])]),
    ("text[]", Array(Text()), [("ARRAY['a|b', '', NULL, 'N']", ["a|b", "", None, "N"])]),
    ("numeric(6,2)[]", Array(Decimal(6, 2)), [("'{1.5,-0.01}'", [Number("1.50"), Number("-0.01")])]),
    ("timestamptz[]", Array(Instant()), [("'{2026-01-01 00:00+00}'", [dt.datetime(2026, 1, 1, tzinfo=UTC)])]),
    ("public.mood[]", Array(Text()), [("'{happy}'", ["happy"])]),
]  # fmt: skip

UNSUPPORTED = ["point", "box", "path", "polygon", "circle", "line", "lseg", "public.pair", "pg_lsn", "regclass", "public.pair[]", "tsquery"]  # fmt: skip

SETUP = (
    "CREATE TYPE public.mood AS ENUM ('sad ''one''', 'happy')",
    "CREATE DOMAIN public.positive0 AS int NOT NULL CHECK (VALUE > 0)",
    "CREATE DOMAIN public.positive AS public.positive0",
    "CREATE DOMAIN public.small_money AS numeric(8,3)",
    "CREATE TYPE public.pair AS (a int, b text)",
    "CREATE EXTENSION citext SCHEMA public",
    "CREATE EXTENSION ltree SCHEMA public",
    "CREATE EXTENSION hstore SCHEMA public",
)


@pytest.fixture
def typed(server: PostgresServer, database: str) -> str:
    server.execute(*SETUP, dbname=database)
    return database


def test_the_text_of_every_value_is_the_reference_s(server: PostgresServer, typed: str, session: Session) -> None:
    statements = []
    for number, (declared, _, values) in enumerate(CASES):
        null = "NOT NULL" if "positive" in declared else ""
        statements.append(f'CREATE TABLE public.t{number} (n int PRIMARY KEY, "V ""x" {declared} {null})')
        rows = [literal for literal, _ in values] + ([] if null else ["NULL"])
        statements += [f"INSERT INTO public.t{number} VALUES ({n}, {literal})" for n, literal in enumerate(rows)]
    server.execute(*statements, dbname=typed)
    tables = read_definitions(session, [f"public.t{number}" for number in range(len(CASES))])
    wrong = []
    for number, (declared, kind, values) in enumerate(CASES):
        table = tables[f"public.t{number}"]
        column = table.columns[1]
        assert column.type == kind, declared
        sql = f"SELECT n, {row_text(table)} AS text, {row_hash(table)} AS hash FROM {quote_table(table)} ORDER BY n"
        found = session.rows(sql, doing=f"read {declared}")
        wanted: list[object] = [value for _, value in values] + ([None] if column.nullable else [])
        assert len(found) == len(wanted), declared
        for row, value in zip(found, wanted, strict=True):
            text = reference([(Integer(32), row["n"]), (kind, value)])
            if row.text("text").encode() != text or row["hash"] != hashlib.sha256(text).hexdigest():
                wrong.append((declared, value, row.text("text")[:80], text[:80]))
    assert not wrong


@pytest.mark.parametrize(
    ("declared", "literal"),
    [
        ("date", "'infinity'"),
        ("date", "'0044-03-15 BC'"),
        ("date", "'10000-01-01'"),
        ("timestamp", "'-infinity'"),
        ("timestamptz", "'infinity'"),
        ("timestamptz", "'10000-01-01 00:00+00'"),
        ("numeric(5,2)", "'NaN'"),
        ("integer[]", "'{{1,2},{3,4}}'"),
    ],
)
def test_a_value_that_cannot_be_carried_is_named(
    server: PostgresServer, database: str, session: Session, declared: str, literal: str
) -> None:
    server.execute(
        f"CREATE TABLE public.t (id int PRIMARY KEY, odd {declared})",
        "INSERT INTO public.t VALUES (6, NULL)",
        dbname=database,
    )
    source = PostgresSource(endpoint(server, database))
    (look,) = odd_values(source.definitions(["public.t"])["public.t"], nan_shows=True)
    assert source.has_row("public.t", look.condition, 20) is False
    server.execute(f"INSERT INTO public.t VALUES (7, {literal})", dbname=database)
    assert source.has_row("public.t", look.condition, 20) is True
    table = source.definitions(["public.t"])["public.t"]
    assert source.key_of(table, look.condition, 20) == {"id": "7"}
    said = "NaN" if declared.startswith("numeric") else "column odd of type"
    with pytest.raises(SourceError, match=said):
        session.rows(f"SELECT {row_hash(table)} FROM public.t", doing="hash the rows")


def test_types_that_nothing_carries_are_refused_by_name(server: PostgresServer, typed: str, session: Session) -> None:
    for number, declared in enumerate(UNSUPPORTED):
        server.execute(f"CREATE TABLE public.u{number} (id int PRIMARY KEY, c {declared})", dbname=typed)
    tables = read_definitions(session, [f"public.u{number}" for number in range(len(UNSUPPORTED))])
    for number, declared in enumerate(UNSUPPORTED):
        table = tables[f"public.u{number}"]
        assert isinstance(table.columns[1].type, Unsupported), declared
        with pytest.raises(SchemaError, match=r"type .* is not supported \(column c\)"):
            row_hash(table)


def test_keys_and_definitions_of_odd_tables(server: PostgresServer, typed: str, session: Session) -> None:
    server.execute(
        'CREATE TABLE public."Or""ders" ("Id" uuid, "a|b" text, g int GENERATED ALWAYS AS (1) STORED, dropped int,'
        ' i int GENERATED BY DEFAULT AS IDENTITY, PRIMARY KEY ("a|b", "Id"))',
        'ALTER TABLE public."Or""ders" DROP COLUMN dropped',
        """INSERT INTO public."Or""ders" VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'x|1')""",
        "CREATE TABLE public.root (id int, at date NOT NULL, v text, PRIMARY KEY (at, id)) PARTITION BY RANGE (at)",
        "CREATE TABLE public.leaf PARTITION OF public.root DEFAULT",
        "CREATE TABLE public.parent (id int)",
        "CREATE TABLE public.child (more text) INHERITS (public.parent)",
        "CREATE TABLE public.loose (a int NOT NULL, b int, UNIQUE (b), UNIQUE (a, b))",
        "CREATE TABLE public.firm (b int NOT NULL, a int NOT NULL)",
        "CREATE UNIQUE INDEX z ON public.firm (b)",
        "CREATE UNIQUE INDEX y ON public.firm (a) WHERE a > 0",
        "CREATE UNIQUE INDEX x ON public.firm ((a + b))",
        "CREATE COLLATION public.ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE public.folded (v text COLLATE public.ignore_case PRIMARY KEY)",
        dbname=typed,
    )
    names = ['Or"ders', "root", "leaf", "parent", "child", "loose", "firm", "folded"]
    found = read_definitions(session, [f"public.{name}" for name in names])
    assert sorted(found) == sorted(f"public.{name}" for name in names)
    odd = found['public.Or"ders']
    assert [c.name for c in odd.columns] == ["Id", "a|b", "i"]
    assert [c.ordinal for c in odd.columns] == [1, 2, 5]
    assert odd.key == ("a|b", "Id")
    row = {"Id": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), "a|b": "x|1", "i": 1}
    read = session.row(f"SELECT {key_text(odd)} AS k FROM {quote_table(odd)}", doing="read the key")
    assert read["k"] == reference_key(odd, row)
    keys = {name: found[f"public.{name}"].key for name in names[1:]}
    assert keys == {
        "root": ("at", "id"),
        "leaf": ("at", "id"),
        "parent": (),
        "child": (),
        "loose": (),
        "firm": ("b",),
        "folded": (),
    }
    assert [c.name for c in found["public.child"].columns] == ["id", "more"]
    assert read_pg_tables(session, ["public.root"])["public.root"].partitioned


@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE public.t ADD c int",
        "ALTER TABLE public.t DROP b, ADD b text",
        "ALTER TABLE public.t ALTER b SET NOT NULL",
        "ALTER TABLE public.t ALTER b TYPE varchar(10)",
        "ALTER TABLE public.t RENAME b TO c",
        "ALTER TYPE public.mood ADD VALUE 'new'",
        "ALTER TYPE public.mood RENAME VALUE 'happy' TO 'glad'",
        "ALTER TABLE public.t DROP CONSTRAINT t_pkey",
        'ALTER TABLE public.t ALTER b TYPE text COLLATE "C"',
        "ALTER TABLE public.t ALTER n TYPE numeric(10,3)",
        "ALTER TABLE public.t ALTER g DROP EXPRESSION",
    ],
)
def test_ddl_that_matters_changes_the_fingerprint_and_other_does_not(
    server: PostgresServer, typed: str, session: Session, ddl: str
) -> None:
    server.execute(
        "CREATE TABLE public.t (a int PRIMARY KEY, b text, m public.mood, n numeric(10,2), g int GENERATED ALWAYS AS (1) STORED)",
        dbname=typed,
    )
    before = read_definitions(session, ["public.t"])["public.t"]
    server.execute("CREATE INDEX other ON public.t (b)", "ALTER TABLE public.t ALTER b SET DEFAULT 'x'", dbname=typed)
    same = read_definitions(session, ["public.t"])["public.t"]
    assert same.fingerprint == before.fingerprint
    server.execute(ddl, dbname=typed)
    after = read_definitions(session, ["public.t"])["public.t"]
    assert after.fingerprint != before.fingerprint
