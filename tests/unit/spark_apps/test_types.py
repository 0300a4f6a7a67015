from __future__ import annotations

import pytest

from airflow_cdc.connectors.debezium.events.mysql import DecodeModes
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.sources.mysql.types import TYPES, read_sql
from airflow_cdc.spark_apps.adapters.mysql_values import from_read
from airflow_cdc.spark_apps.types import sink_type
from tests.unit.tables import column

MODES = DecodeModes()
NUMBERS = {"precision": 9, "scale": 2}


@pytest.mark.parametrize(
    ("column_type", "more", "expected"),
    [
        ("tinyint(1)", {}, "int"),
        ("mediumint(8) unsigned", {}, "int"),
        ("int(11)", {}, "int"),
        ("int(10) unsigned", {}, "bigint"),
        ("bigint(20)", {}, "bigint"),
        ("bigint(20) unsigned", {}, "decimal(20,0)"),
        ("decimal(12,2)", {"precision": 12, "scale": 2}, "decimal(12,2)"),
        ("decimal(38,30)", {"precision": 38, "scale": 30}, "decimal(38,30)"),
        ("decimal(39,0)", {"precision": 39, "scale": 0}, "string"),
        ("float", {}, "double"),
        ("double(9,2)", {}, "double"),
        ("bit(1)", {"precision": 1}, "bigint"),
        ("bit(63)", {"precision": 63}, "bigint"),
        ("bit(64)", {"precision": 64}, "decimal(20,0)"),
        ("date", {}, "date"),
        ("datetime(6)", {"fsp": 6}, "timestamp_ntz"),
        ("timestamp", {"fsp": 0}, "timestamp"),
        ("time(6)", {"fsp": 6}, "bigint"),
        ("year(4)", {}, "int"),
        ("char(9)", {}, "string"),
        ("longtext", {}, "string"),
        ("varbinary(9)", {}, "binary"),
        ("enum('a')", {}, "string"),
        ("set('a')", {}, "string"),
        ("json", {}, "string"),
        ("geomcollection", {}, "struct<srid:int,wkb:binary>"),
    ],
)
def test_sink_types(column_type: str, more: dict[str, int], expected: str) -> None:
    assert sink_type(column("c", column_type, **more)) == expected


def test_a_type_that_is_not_in_the_table_is_refused_by_name() -> None:
    with pytest.raises(SchemaError, match=r"type vector\(3\) is not supported \(column embedding\)"):
        read_sql(column("embedding", "vector(3)"))


def test_no_name_stands_twice_in_the_table() -> None:
    names = [name for row in TYPES for name in row.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", [name for row in TYPES for name in row.names])
def test_each_type_has_balanced_expressions_over_the_quoted_column(name: str) -> None:
    strange = column("a`b", name, precision=9, scale=2, fsp=6, byte_length=4)
    for text in (read_sql(strange), from_read(strange)):
        assert "`a``b`" in text
        assert text.count("(") == text.count(")")
    assert "`a``b`" not in from_read(strange, "r.v")


def test_zero_dates_are_null_or_the_epoch() -> None:
    for name, epoch in (("date", "DATE'1970-01-01'"), ("datetime", "TIMESTAMP_NTZ'1970-01-01 00:00:00'")):
        assert epoch not in from_read(column("c", name, nullable=True))
        assert epoch in from_read(column("c", name, nullable=False))
    assert from_read(column("c", "timestamp", nullable=True)) == "timestamp_micros(nullif(`c`, 0L))"
    assert from_read(column("c", "timestamp", nullable=False)) == "timestamp_micros(`c`)"


def test_modes_are_read_from_the_connector() -> None:
    assert DecodeModes.from_config({"name": "shop"}) == DecodeModes()
    config = {
        "decimal.handling.mode": "STRING",
        "time.precision.mode": "connect",
        "bigint.unsigned.handling.mode": "precise",
        "binary.handling.mode": "hex",
        "value.converter.decimal.format": "NUMERIC",
    }
    assert DecodeModes.from_config(config) == DecodeModes("string", "connect", "precise", "hex", "numeric")


def test_an_unknown_mode_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SchemaError, match=r"binary\.handling\.mode=raw .* base64"):
        DecodeModes.from_config({"binary.handling.mode": "raw"})
