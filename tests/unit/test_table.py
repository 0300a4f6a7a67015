from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, Table
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
    columns = [replace(c, **{field: value}) if c.name == "status" else c for c in ORDERS.columns]
    assert Table("shop", "t", tuple(columns), ("id",)).fingerprint != ORDERS.fingerprint


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
    assert column("c", column_type, labels=labels).unsigned is unsigned


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
    zoned = Table("shop", "t", tuple(replace(c, ordinal=at) for at, c in enumerate(made)))
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


@pytest.mark.parametrize("data", [{}, {"schema": "s", "name": "t", "columns": [{"nme": "x"}], "key": []}])
def test_text_that_is_no_definition_is_an_error(data: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match="not a table definition"):
        Table.from_json(data)


def test_types_are_lower_case_and_labels_a_tuple() -> None:
    made = Column("c", 1, "ENUM", "ENUM('a')", labels=["a"])  # type: ignore[arg-type]
    assert (made.data_type, made.labels) == ("enum", ("a",))
    assert hash(made) == hash(replace(made))
