from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import SchemaError
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
    type_from_json,
    type_to_json,
)
from airflow_cdc.sources.mysql.types import MySqlWords, with_words, words_of
from tests.unit.tables import column, table

ORDERS = table(
    column("id", "bigint(20) unsigned", nullable=False, precision=20, scale=0),
    column("status", "enum('new','unsigned')", labels=("new", "unsigned"), charset="utf8mb4", collation="utf8mb4_bin"),
    column("total", "decimal(12,2)", precision=12, scale=2),
    column("double_total", "decimal(13,2)", precision=13, scale=2, generated=True, expression="(`total` * 2)"),
    key=("id",),
)


def test_columns_are_kept_in_the_order_of_the_source() -> None:
    shuffled = Table("shop", "t", tuple(reversed(ORDERS.columns)), ("id",))
    assert [c.name for c in shuffled.columns] == ["id", "status", "total", "double_total"]
    assert shuffled == ORDERS


def test_json_round_trip() -> None:
    data = json.loads(json.dumps(ORDERS.to_json()))
    assert Table.from_json(data) == ORDERS
    assert Table.from_json(data).fingerprint == ORDERS.fingerprint


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "state"), ("ordinal", 9), ("data_type", "set"), ("column_type", "enum('x')"), ("nullable", False),
        ("charset", "latin1"), ("collation", "utf8mb4_general_ci"), ("char_length", 9), ("byte_length", 9),
        ("precision", 9), ("scale", 9), ("fsp", 3), ("generated", True), ("labels", ("unsigned", "new")),
        ("srid", 4326), ("expression", "(1)"),
    ],
)  # fmt: skip
def test_inv_12_every_detail_of_a_column_is_in_the_fingerprint(field: str, value: Any) -> None:
    columns = [changed(c, field, value) if c.name == "status" else c for c in ORDERS.columns]
    assert Table("shop", "t", tuple(columns), ("id",)).fingerprint != ORDERS.fingerprint


def changed(of: Column, field: str, value: Any) -> Column:
    """A column with one detail changed: its own, or one of its words."""
    if field in {"name", "ordinal", "nullable", "generated"}:
        return replace(of, **{field: value})
    return with_words(of, **{field: value})


def test_inv_12_name_and_key_are_in_the_fingerprint() -> None:
    others = [replace(ORDERS, schema="x"), replace(ORDERS, name="x"), replace(ORDERS, key=())]
    assert len({ORDERS.fingerprint, *(other.fingerprint for other in others)}) == 4


@pytest.mark.parametrize(
    ("column_type", "labels", "unsigned"),
    [
        ("int(10) unsigned", (), True),
        ("int unsigned", (), True),
        ("tinyint(3) zerofill", (), True),
        ("decimal(10,2) unsigned", (), True),
        ("bigint(20)", (), False),
        ("enum('unsigned')", ("unsigned",), False),
        ("enum('a) unsigned')", ("a) unsigned",), False),
    ],
)
def test_unsigned_is_read_from_the_type_and_not_from_labels(
    column_type: str, labels: tuple[str, ...], unsigned: bool
) -> None:
    assert words_of(column("c", column_type, labels=labels)).unsigned is unsigned


def test_inv_25_generated_columns_are_mirrored_and_compared() -> None:
    assert [c.name for c in ORDERS.mirrored] == ["id", "status", "total", "double_total"]
    assert ORDERS.compared == ORDERS.mirrored


def test_a_column_generated_from_a_timestamp_has_a_value_per_time_zone() -> None:
    made = (
        column("at", "timestamp", fsp=0),
        column("at2", "datetime", fsp=0),
        column("day", "date", generated=True, expression="cast(`at` as date)"),
        column("next_day", "date", generated=True, expression="(`day` + interval 1 day)"),
        column("day2", "date", generated=True, expression="cast(`at2` as date)"),
    )
    zoned = table(*made)
    assert [c.name for c in zoned.compared] == ["at", "at2", "day2"]


def test_key_columns_follow_the_key_and_keyless_has_none() -> None:
    composite = replace(ORDERS, key=("total", "id"))
    assert [c.name for c in composite.key_columns] == ["total", "id"]
    assert not composite.keyless
    assert replace(ORDERS, key=()).keyless


def test_a_key_or_a_name_that_is_no_column_is_an_error() -> None:
    with pytest.raises(SchemaError, match="key column 'nope'"):
        replace(ORDERS, key=("nope",))
    with pytest.raises(SchemaError, match=r"no column 'nope' \(shop.t\)"):
        ORDERS.column("nope")


@pytest.mark.parametrize("data", [{}, {"format": 2, "schema": "s", "name": "t", "columns": [{"nme": "x"}], "key": []}])
def test_text_that_is_no_definition_is_an_error(data: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match="not a table definition"):
        Table.from_json(data)


def test_types_are_lower_case_and_labels_a_tuple() -> None:
    made = MySqlWords("ENUM", "ENUM('a')", labels=["a"])  # type: ignore[arg-type]
    assert (made.data_type, made.labels) == ("enum", ("a",))
    assert hash(made) == hash(replace(made))


def test_a_definition_of_another_format_is_refused_by_name() -> None:
    flat = {"name": "id", "ordinal": 1, "data_type": "bigint", "column_type": "bigint", "nullable": False}
    old = {"schema": "shop", "name": "t", "columns": [flat], "key": ["id"]}
    for data, number in ((old, 1), (ORDERS.to_json() | {"format": 3}, 3)):
        with pytest.raises(SchemaError, match=rf"definition of format {number} cannot be read, only of format 2"):
            Table.from_json(data)


@pytest.mark.parametrize(
    "kind",
    [
        Integer(64, unsigned=True), Decimal(40, 2), Float(32), Boolean(), Text(), Text(long=True), Bytes(long=True), Date(),
        Time(), LocalDateTime(), Instant(), Json(), Uuid(), Bits(9), Geometry(), Array(Array(Decimal(9, 2))), Unsupported(),
    ],
    ids=str,
)  # fmt: skip
def test_every_type_survives_json(kind: LogicalType) -> None:
    assert type_from_json(json.loads(json.dumps(type_to_json(kind)))) == kind


def test_a_type_of_another_version_is_refused() -> None:
    with pytest.raises(SchemaError, match="not a type of a column"):
        type_from_json({"name": "Vector", "size": 3})


def test_a_column_that_cannot_be_carried_is_described_all_the_same() -> None:
    odd = column("embedding", "vector(3)")
    assert Column.from_json(odd.to_json()) == odd
    with pytest.raises(SchemaError, match=r"type vector\(3\) is not supported \(column embedding\)"):
        _ = odd.value_type


def test_words_of_another_source_are_not_taken_for_mysqls() -> None:
    foreign = Column("c", 1, Text(), NativeColumn("other", "text"))
    with pytest.raises(SchemaError, match="a type of other"):
        words_of(foreign)
