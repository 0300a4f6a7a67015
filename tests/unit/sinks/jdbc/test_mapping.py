"""How a source's column and its copy are compared: as one type, or not at all and by name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from airflow_cdc.core.table import Column, NativeColumn, Table
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
from airflow_cdc.decisions.compare.canonical import text_of
from airflow_cdc.sinks.jdbc.mapping import common, paired

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)


def same(value: Any) -> Any:
    return value


# source, copy, a value of the source, the value that the sink connector writes
ALIKE: tuple[tuple[LogicalType, LogicalType, Any, Callable[[Any], Any]], ...] = (
    (Integer(8), Integer(16), -128, same),
    (Integer(64, unsigned=True), Decimal(20), 18446744073709551615, same),
    (Integer(32), Decimal(10), 7, same),
    (Decimal(12, 2), Decimal(12, 2), "-0.01", same),
    (Decimal(12, 2), Decimal(30, 2), "-0.01", same),
    (Decimal(38, 10), Decimal(38, 10), "12345678901234567890123456.0123456789", same),
    (Float(32), Float(32), 0.5, same),
    (Float(32), Float(64), 0.5, same),
    (Bits(1), Boolean(), 1, bool),
    (Bits(1), Integer(8), 1, same),
    (Boolean(), Integer(8), True, int),
    (Text(), Text(), "ü|1", same),
    (Text(long=True), Text(), "ü|1", same),
    (Text(), Text(long=True), "ü|1", same),
    (Uuid(), Text(), "0b7a9f26-96a5-4e7e-8f6e-7f8f6e0c1a11", same),
    (Bytes(), Bytes(long=True), b"\x00\xff", same),
    (Date(), Date(), MOMENT.date(), same),
    (Time(), Time(), 86_399_999_999, same),
    (LocalDateTime(), LocalDateTime(), MOMENT.replace(tzinfo=None), same),
    (Instant(), Instant(), MOMENT, same),
)
LOST: tuple[tuple[LogicalType, LogicalType, str], ...] = (
    (Float(64), Float(32), "rounded"),
    (Decimal(12, 4), Decimal(12, 2), "cut"),
    (Bits(8), Bits(1), "1 of 8 bits"),
    (Bits(8), Boolean(), "one bit"),
    (Integer(), Text(), "another form"),
    (Instant(), LocalDateTime(), "another form"),
    (Array(Integer()), Text(), "another form"),
    (Geometry(), Bytes(), "another form"),
    (Unsupported(), Text(), "not compared"),
)


@pytest.mark.parametrize(("source", "copy", "value", "written"), ALIKE)
def test_a_value_that_was_carried_whole_has_one_text_on_both_sides(
    source: LogicalType, copy: LogicalType, value: Any, written: Callable[[Any], Any]
) -> None:
    types = common(source, copy)
    assert not isinstance(types, str)
    assert text_of(types[0])(value) == text_of(types[1])(written(value))


@pytest.mark.parametrize(("source", "copy", "why"), LOST)
def test_a_loss_is_named(source: LogicalType, copy: LogicalType, why: str) -> None:
    said = common(source, copy)
    assert isinstance(said, str)
    assert why in said


def column(name: str, number: int, kind: LogicalType) -> Column:
    return Column(name, number, kind, NativeColumn("x", type(kind).__name__.lower()))


def test_columns_are_paired_by_name_and_a_documents_text_is_a_document() -> None:
    source = Table(
        "shop",
        "orders",
        (column("Id", 1, Integer()), column("doc", 2, Json()), column("gone", 3, Text()), column("d", 4, Float(64))),
        ("Id",),
    )
    copy = Table("c", "o", (column("d", 1, Float(32)), column("doc", 2, Text()), column("id", 3, Integer())), ("id",))
    pair = paired(source, copy, str.lower)
    assert [one.name for one in pair.source.columns] == ["Id", "doc"]
    assert [(one.name, one.type) for one in pair.copy.columns] == [("id", Integer()), ("doc", Json())]
    assert (pair.source.key, pair.copy.key) == (("Id",), ("id",))
    assert [name for name, _ in pair.losses] == ["gone", "d"]


def test_a_key_that_cannot_be_compared_is_no_key() -> None:
    source, copy = (
        Table("a", "b", (column("k", 1, Integer()),), ("k",)),
        Table("a", "b", (column("k", 1, Text()),), ("k",)),
    )
    assert paired(source, copy, str).source.key == ()


@pytest.mark.parametrize(("native", "lost"), [("longtext", True), ("char(5)", False), ("character(5)", False)])
def test_a_text_that_is_sent_filled_up_with_blanks_is_not_compared_where_they_stay(native: str, lost: bool) -> None:
    """PostgreSQL's char(5), in a column of MySQL, or of PostgreSQL's own."""
    words = (("type", "bpchar"),)
    source = Column("c", 1, Text(), NativeColumn("postgres", "character(5)", words))
    copy = Column("c", 1, Text(), NativeColumn("x", native, words if native == "character(5)" else ()))
    pair = paired(Table("a", "b", (source,)), Table("a", "b", (copy,)), str)
    assert pair.losses == ((("c", f"character(5) is {native} in the sink: blanks fill it up"),) if lost else ())
    assert len(pair.source.columns) == (0 if lost else 1)
