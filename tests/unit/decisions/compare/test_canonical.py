"""The one text of a row: what it is, that different rows never share one, and that a key's text is read back."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable
from decimal import Decimal as Number
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import (
    Array,
    Bits,
    Boolean,
    Bytes,
    Date,
    Decimal,
    Float,
    Geometry,
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
from airflow_cdc.decisions.compare.canonical import parse_key_text, row_hash, row_text, text_of
from tests.unit.tables import column, table

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - LocalDateTime has no zone


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Integer(), -5, "-5"),
        (Integer(64, unsigned=True), 2**64 - 1, "18446744073709551615"),
        (Bits(64), 2**64 - 1, "18446744073709551615"),
        (Time(), -500_000, "-500000"),
        (Boolean(), True, "1"),
        (Boolean(), False, "0"),
        (Decimal(9, 2), Number("-1.23"), "-123"),
        (Decimal(18, 18), Number("0.000000000000000001"), "1"),
        (Decimal(19, 2), Number("1.5"), "1.50"),
        (Decimal(38, 30), Number("1E-30"), "0.000000000000000000000000000001"),
        (Decimal(60, 0), "9" * 60, "9" * 60),
        (Float(), 1.5, "3FF8000000000000"),
        (Float(), -0.0, "0000000000000000"),
        (Float(32), 0.5, "3FE0000000000000"),
        (Date(), dt.date(1, 1, 1), "-719162"),
        (LocalDateTime(), _EPOCH - dt.timedelta(microseconds=1), "-1"),
        (Instant(), dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), "0"),
        (Text(), "a|1", "3|a|1"),
        (Text(), "ü", "2|ü"),
        (Text(), "", "0|"),
        (Text(long=True), "", hashlib.sha256(b"").hexdigest()),
        (Bytes(), b"\x00\xff", "00FF"),
        (Bytes(), b"", ""),
        (Bytes(long=True), b"|", hashlib.sha256(b"|").hexdigest()),
        (Uuid(), "6F9619FF-8B86-D011-B42D-00C04FC964FF", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        (Geometry(), (4326, b"wkb"), f"4326|{hashlib.sha256(b'wkb').hexdigest()}"),
        (Array(Text()), ["a|", None, ""], "3|2|a||N|0|"),
        (Array(Array(Integer())), [[], [1, None]], "2|0||2|1|N"),
        (Array(Integer()), [], "0|"),
        (Text(), None, "N"),
        (Geometry(), None, "N"),
        (Array(Integer()), None, "N"),
    ],
)  # fmt: skip
def test_how_a_value_is_written(kind: LogicalType, value: object, text: str) -> None:
    assert row_text([(kind, value)]).decode() == text


@pytest.mark.parametrize("kind", [Json(), Unsupported()])
def test_a_type_without_a_text_is_refused(kind: LogicalType) -> None:
    with pytest.raises(SchemaError, match="no text that all engines write alike"):
        text_of(kind)


def test_the_examples_of_the_module() -> None:
    assert row_text([(Text(), "a|1"), (Text(), "b")]) == b"3|a|1|1|b"
    assert row_text([(Text(), "a"), (Text(), "1|b")]) == b"1|a|3|1|b"


def test_the_hash_of_a_row_is_over_its_compared_columns() -> None:
    mixed = table(column("id", "int", nullable=False), column("doc", "json"), column("v", "text"), key=("id",))
    assert row_hash(mixed, {"id": 7, "v": None}) == hashlib.sha256(b"7|N").hexdigest()


# --- no two rows share a text: whatever is written can be read back, so it stands for one row only -------------------

_MICROS = st.integers(-(2**55), 2**55)
_ALPHABET = st.text("01|aN-ü", max_size=6)
PLAIN: list[tuple[LogicalType, st.SearchStrategy[Any]]] = [
    (Integer(64), st.integers(-(2**63), 2**63 - 1)),
    (Bits(3), st.integers(0, 7)),
    (Time(), _MICROS),
    (Boolean(), st.booleans()),
    (Decimal(9, 2), st.decimals(-9_999_999, 9_999_999, places=2)),
    (Decimal(30, 3), st.decimals(-(10**20), 10**20, places=3)),
    (Float(), st.floats(allow_nan=False).map(lambda number: number + 0.0)),
    (Date(), st.dates()),
    (LocalDateTime(), st.datetimes()),
    (Text(), _ALPHABET),
    (Bytes(), st.binary(max_size=3)),
    (Uuid(), st.uuids().map(str)),
]
scalars = st.sampled_from(PLAIN)


def with_lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return inner.map(lambda pair: (Array(pair[0]), st.lists(st.none() | pair[1], max_size=3)))


kinds = st.recursive(scalars, with_lists, max_leaves=2)


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[LogicalType], list[Any]]:
    """The types of a table's columns and one row of it."""
    columns = draw(st.lists(kinds, min_size=1, max_size=4))
    return [kind for kind, _ in columns], [draw(st.none() | values) for _, values in columns]


class Reading:
    """Reads a text piece by piece, knowing only the types: that it can is the proof."""

    def __init__(self, text: bytes) -> None:
        self.rest: bytes | None = text

    def piece(self) -> bytes:
        assert self.rest is not None
        piece, separator, after = self.rest.partition(b"|")
        self.rest = after if separator else None
        return piece

    def take(self, size: int) -> bytes:
        assert self.rest is not None
        taken, after = self.rest[:size], self.rest[size:]
        assert after[:1] in {b"", b"|"}
        self.rest = after[1:] if after else None
        return taken

    def value(self, kind: LogicalType) -> Any:
        first = self.piece()
        if first == b"N":
            return None
        if isinstance(kind, Text):
            return self.take(int(first)).decode()
        if isinstance(kind, Array):
            if first == b"0":
                assert self.take(0) == b""
            return [self.value(kind.of) for _ in range(int(first))]
        return READ[type(kind)](kind, first.decode())


READ: dict[type, Callable[[Any, str], Any]] = {
    Integer: lambda _k, t: int(t),
    Bits: lambda _k, t: int(t),
    Time: lambda _k, t: int(t),
    Boolean: lambda _k, t: t == "1",
    Decimal: lambda k, t: Number(t) if "." in t else Number(t).scaleb(-k.scale),
    Float: lambda _k, t: bytes.fromhex(t),
    Date: lambda _k, t: _EPOCH.date() + dt.timedelta(days=int(t)),
    LocalDateTime: lambda _k, t: _EPOCH + dt.timedelta(microseconds=int(t)),
    Bytes: lambda _k, t: bytes.fromhex(t),
    Uuid: lambda _k, t: t,
}


def plain(kind: LogicalType, value: Any) -> Any:
    """A value as `Reading` gives it back: a float by its bytes."""
    if value is None:
        return None
    if isinstance(kind, Array):
        return [plain(kind.of, each) for each in value]
    if isinstance(kind, Float):
        import struct

        return struct.pack(">d", value)
    return value


@given(rows())
def test_a_text_stands_for_one_row_only(row: tuple[list[LogicalType], list[Any]]) -> None:
    columns, values = row
    reading = Reading(row_text(list(zip(columns, values, strict=True))))
    back = [reading.value(kind) for kind in columns]
    assert reading.rest is None
    assert back == [plain(kind, value) for kind, value in zip(columns, values, strict=True)]


# --- keys ------------------------------------------------------------------------------------------------------------

KEYED = table(
    column("n", "bigint", nullable=False),
    column("t", "varchar(20)", nullable=False, charset="utf8mb4"),
    column("b", "varbinary(9)", nullable=False),
    key=("n", "t", "b"),
)


@given(st.integers(-(2**63), 2**64), st.text(), st.binary())
def test_key_text_reads_back(number: int, text: str, data: bytes) -> None:
    written = f"{number}|{len(text.encode())}|{text}|{data.hex().upper()}"
    assert parse_key_text(KEYED, written) == (number, text, data)


@pytest.mark.parametrize(
    ("column_type", "precision", "scale", "written", "value"),
    [
        ("decimal(9,2)", 9, 2, "-123", Number("-1.23")),
        ("decimal(40,2)", 40, 2, "-1.23", Number("-1.23")),
        ("double", None, None, "3FF8000000000000", 1.5),
        ("date", None, None, "-719162", "0001-01-01"),
        ("date", None, None, "2932896", "9999-12-31"),
        ("datetime(6)", None, None, "-1", "1969-12-31 23:59:59.999999"),
        ("timestamp", None, None, "1635638400000000", "2021-10-31 00:00:00.000000"),
        ("time(6)", None, None, "-500000", "-00:00:00.500000"),
        ("time", None, None, "3020399000000", "838:59:59.000000"),
        ("bit(64)", 64, None, "18446744073709551615", 2**64 - 1),
        ("enum('a|b')", None, None, "3|a|b", "a|b"),
        ("blob", None, None, "00FF", b"\x00\xff"),
    ],
)
def test_key_values_of_each_kind(
    column_type: str, precision: int | None, scale: int | None, written: str, value: object
) -> None:
    one = table(column("k", column_type, nullable=False, precision=precision, scale=scale), key=("k",))
    assert parse_key_text(one, written) == (value,)


@pytest.mark.parametrize(
    "text", ["", "x", "1|2", "1|9|a|00", "1|1|ab|00", "1|1|a|0", "1|1|a|00|1", "1|-1|a|00", "1;DROP"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="not a key text"):
        parse_key_text(KEYED, text)
