"""PostgreSQL's types as its documentation describes them (chapter 8, Data Types), and how their values are read and written as text.

What a server makes of the SQL: tests/integration/postgres/test_types.py and test_digests.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Table
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
    Json,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Unsupported,
    Uuid,
)
from airflow_cdc.sources.postgres.columns import PgColumn
from airflow_cdc.sources.postgres.encoding import key_text, row_text
from airflow_cdc.sources.postgres.types import (
    column_of,
    logical_type,
    read_sql,
    row_of,
    value_sql,
)


def native(kind: str, **words: Any) -> PgColumn:
    return PgColumn("c", 1, kind, kind, **words)


def _digits(precision: int, scale: int) -> int:
    return (precision << 16 | (scale & 0x7FF)) + 4


MICROS = '(EXTRACT(epoch FROM "c") * 1000000)::bigint'
TEXT = '"c"::text'
# the length of the text, so that no two rows of texts are the same, and the text
TEXT_PIECES = 'pg_catalog.octet_length("c"::text), "c"::text'

# name, more words, logical type, its value, its piece of the canonical text
TYPES: tuple[tuple[str, dict[str, Any], LogicalType, str, str], ...] = (
    # two, four and eight bytes; an oid has no sign, so 32 bits don't hold it
    ("int2", {}, Integer(16), '"c"', '"c"'),
    ("int4", {}, Integer(32), '"c"', '"c"'),
    ("int8", {}, Integer(64), '"c"', '"c"'),
    ("oid", {}, Integer(64), '"c"::bigint', '"c"::bigint'),
    ("bool", {}, Boolean(), '"c"', '"c"::int'),
    # an amount without its fraction where it fits 64 bits: it has one text
    ("numeric", {"modifier": _digits(10, 2)}, Decimal(10, 2), '"c"', '("c" * 100)::bigint'),
    ("numeric", {"modifier": _digits(30, 2)}, Decimal(30, 2), '"c"', '"c"::text'),
    # a scale below zero or above the precision is no one's but PostgreSQL's
    ("numeric", {"modifier": _digits(3, -2)}, Decimal(5, 0), '"c"', '("c" * 1)::bigint'),
    ("numeric", {"modifier": _digits(3, 5)}, Decimal(5, 5), '"c"', '("c" * 100000)::bigint'),
    ("numeric", {}, Text(), TEXT, TEXT_PIECES),
    # 64 bits of hundredths, which has 19 digits
    ("money", {}, Decimal(19, 2), '"c"::numeric(19,2)', '"c"::numeric(19,2)::text'),
    # -0 + 0 is 0: the two are equal
    ("float4", {}, Float(32), '("c"::float8 + 0)', "float8send"),
    ("float8", {}, Float(64), '("c" + 0)', "float8send"),
    ("bit", {"modifier": 12}, Bits(12), '"c"::bigint', '"c"::bigint'),
    ("bit", {}, Bits(1), '"c"::bigint', '"c"::bigint'),
    ("bit", {"modifier": 64}, Bits(64), "18446744073709551616", "18446744073709551616"),
    ("bit", {"modifier": 65}, Text(), TEXT, TEXT_PIECES),
    ("varbit", {"modifier": 5}, Text(), TEXT, TEXT_PIECES),
    ("date", {}, Date(), "(\"c\" - DATE '1970-01-01')", "(\"c\" - DATE '1970-01-01')"),
    ("time", {}, Time(), MICROS, MICROS),
    ("timetz", {}, Text(), TEXT, TEXT_PIECES),
    ("timestamp", {}, LocalDateTime(), MICROS, MICROS),
    ("timestamptz", {}, Instant(), MICROS, MICROS),
    ("interval", {}, Text(), "EXTRACT(year FROM \"c\")::int, 'Y'", "EXTRACT(hour FROM \"c\")::int, 'H'"),
    # up to a gigabyte: hashed in the text
    ("bytea", {}, Bytes(long=True), '"c"', "pg_catalog.encode(pg_catalog.sha256(\"c\"), 'hex')"),
    ("uuid", {}, Uuid(), TEXT, TEXT),
    ("json", {}, Text(), TEXT, TEXT_PIECES),
    ("jsonb", {}, Text(), TEXT, TEXT_PIECES),
    # the output function: a cast would add /32
    ("inet", {}, Text(), 'pg_catalog.concat("c")', 'pg_catalog.concat("c")'),
    ("cidr", {}, Text(), 'pg_catalog.concat("c")', 'pg_catalog.concat("c")'),
)
# what is text in PostgreSQL, or has a text that is always the same
AS_TEXT = [
    "text",
    "varchar",
    "bpchar",
    "char",
    "name",
    "xml",
    "macaddr",
    "macaddr8",
    "citext",
    "ltree",
    "tsvector",
    "int4range",
    "int8range",
    "numrange",
    "tsrange",
    "tstzrange",
    "daterange",
    "int4multirange",
    "int8multirange",
    "nummultirange",
    "tsmultirange",
    "tstzmultirange",
    "datemultirange",
]
# geometry has no order, an error of rounding in each of its texts; the others are PostgreSQL's own inner types
NOT_MIRRORED = [
    "point",
    "line",
    "lseg",
    "box",
    "path",
    "polygon",
    "circle",
    "tsquery",
    "pg_lsn",
    "pg_snapshot",
    "txid_snapshot",
    "regclass",
    "xid",
]


@pytest.mark.parametrize(("name", "words", "kind", "value", "piece"), TYPES, ids=[f"{one[0]}{one[1]}" for one in TYPES])
def test_each_type_is_what_the_documentation_says_and_has_one_text(
    name: str, words: dict[str, Any], kind: LogicalType, value: str, piece: str
) -> None:
    column = native(name, nullable=False, **words)
    assert logical_type(column) == kind
    assert value in value_sql(column_of(column))
    assert piece in row_text(Table("shop", "t", (column_of(column),), ()))


@pytest.mark.parametrize("name", AS_TEXT)
def test_the_others_are_their_text(name: str) -> None:
    assert logical_type(native(name)) == Text()
    assert value_sql(column_of(native(name))) == TEXT


@pytest.mark.parametrize("name", NOT_MIRRORED)
def test_what_has_no_text_of_its_own_is_named_as_not_supported(name: str) -> None:
    assert logical_type(native(name)) == Unsupported()
    with pytest.raises(SchemaError, match=f"type {name} is not supported"):
        value_sql(column_of(native(name)))


def test_an_extension_s_type_is_known_by_name_in_any_schema_and_a_user_s_is_not() -> None:
    """CREATE EXTENSION … SCHEMA puts it anywhere; a composite or a user's base type of the same name as a built-in one is another type."""
    for name, kind in (("hstore", Json()), ("citext", Text()), ("ltree", Text())):
        assert logical_type(native(name, type_schema="extensions")) == kind
    assert value_sql(column_of(native("hstore", type_schema="public"))) == '"c"::json::text'
    assert row_of("int4", "public", "b") is None
    assert row_of("citext", "public", "c") is None


@pytest.mark.parametrize(
    ("kind", "known"), [("b", True), ("r", True), ("m", True), ("c", False), ("p", False), ("d", False)]
)
def test_base_types_and_ranges_are_read_and_composites_are_not(kind: str, *, known: bool) -> None:
    assert (row_of("int4range", "pg_catalog", kind) is not None) == known


def test_an_enum_is_text_whatever_its_name() -> None:
    assert logical_type(native("mood", type_schema="shop", type_kind="e", labels=("ok", "sad"))) == Text()


@pytest.mark.parametrize(
    ("element", "kind"),
    [
        ("int4", Array(Integer(32))),
        ("text", Array(Text())),
        ("bytea", Array(Bytes(long=True))),
        ("point", Unsupported()),
    ],
)
def test_an_array_is_one_of_its_elements(element: str, kind: LogicalType) -> None:
    assert logical_type(native(f"_{element}", element=element, element_schema="pg_catalog", element_kind="b")) == kind


def test_what_no_day_of_the_calendar_is_stops_the_read() -> None:
    """infinity, and years that other engines don't know: a nearby value, or NULL, would be a silent difference."""
    for name, first in (
        ("date", "DATE '0001-01-01'"),
        ("timestamp", "TIMESTAMP '0001-01-01'"),
        ("timestamptz", "TIMESTAMPTZ '0001-01-01"),
    ):
        column = column_of(native(name))
        for text in (read_sql(column), row_text(Table("shop", "t", (column,), ()))):
            assert f'CASE WHEN "c" NOT BETWEEN {first}' in text
            assert "holds what no day from 0001-01-01 to 9999-12-31 is" in text


@pytest.mark.parametrize("name", ["numeric", "bit"])
def test_exact_numbers_are_read_as_text(name: str) -> None:
    column = column_of(native(name, modifier=_digits(10, 2) if name == "numeric" else 64))
    assert read_sql(column).endswith("::text")
    assert read_sql(column_of(native("int8"))) == '"c"'


def test_an_array_of_several_dimensions_stops_the_read_and_bytes_are_in_hexadecimal() -> None:
    one = native("_bytea", element="bytea", element_schema="pg_catalog", element_kind="b")
    assert 'pg_catalog.array_ndims("c") > 1' in read_sql(column_of(one))
    assert "pg_catalog.encode(u.e, 'hex')" in read_sql(column_of(one))
    ints = native("_int4", element="int4", element_schema="pg_catalog", element_kind="b")
    assert "(u.e)::text" in read_sql(column_of(ints))


def test_a_key_of_short_bytes_is_in_hexadecimal_and_a_null_is_no_text() -> None:
    """A long value is known by its hash in a row, and whole in a key, where rows are looked up by it."""
    column = column_of(PgColumn("c", 1, "bytea", "bytea", nullable=False))
    assert "pg_catalog.upper(pg_catalog.encode(\"c\", 'hex'))" in key_text(Table("shop", "t", (column,), ("c",)))
    maybe = column_of(PgColumn("c", 1, "int4", "int4"))
    assert """COALESCE(("c")::text, 'N')""" in row_text(Table("shop", "t", (maybe,), ()))
