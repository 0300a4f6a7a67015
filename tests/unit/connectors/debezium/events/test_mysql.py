"""MySQL's values in Debezium's events, as the server holds them: values that a golden does not say enough about."""

from __future__ import annotations

import base64
import json
import pickle
from decimal import Decimal
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.events.mysql import DecodeModes, MySqlValues
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column
from airflow_cdc.events.record import Unreadable
from airflow_cdc.events.value import WRONG, Shape, Wire
from airflow_cdc.events.wire.json import Json
from tests.unit.tables import column

BAD = "no value"
FLOAT = column("f", "float")
DOCUMENT = column("doc", "json")
BITS = column("b", "bit(12)", precision=12)
LABEL = column("e", "enum('x,y')", labels=("x,y", "a"))
POINT = column("p", "point")
WIDE = column("d", "decimal(65,2)", precision=65, scale=2)


def read(of: Column, text: str, modes: DecodeModes | None = None) -> Any:
    """What the JSON text of a field is in the column; BAD for what is no value of it."""
    value = MySqlValues(modes or DecodeModes()).value(of)
    try:
        (wire,) = Json().reader(Shape(Wire.STRUCT, (("x", value.shape),)), {})(f'{{"x":{text}}}'.encode(), ())
        return BAD if wire is WRONG else value.read(wire)
    except (Unreadable, ValueError, ArithmeticError):
        return BAD


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"b": 1.50, "a": [1e2, null, "é"]}', '{"a":[100,null,"é"],"b":1.5}'),
        ('"12:30:00"', '"12:30:00"'),
        ("12345678901234567890.123456789", "12345678901234567890.123456789"),
        ("null", "null"),
        ('"479:0-60:0-59"', BAD),
        ('{"at": "-10:0-1:', BAD),
        ("{", BAD),
        ("", BAD),
        ("NaN", BAD),
        ("1e999", BAD),
    ],
)
def test_a_document_is_kept_in_its_one_text_and_a_time_that_debezium_garbles_is_none(text: str, kept: str) -> None:
    assert read(DOCUMENT, json.dumps(text)) == kept


@pytest.mark.parametrize("text", ['{"a": 1}', "7", "true"])
def test_a_document_is_sent_as_a_text(text: str) -> None:
    assert read(DOCUMENT, text) == BAD


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("1.1", 1.100000023841858),
        ("-0.0", -0.0),
        ("3.4028235e38", 3.4028234663852886e38),
        ("1e-45", 1.401298464324817e-45),
        ("16777216.0", 16777216.0),
        # above the middle between 1 and its neighbour; its double is that middle
        ("1.000000059604644776", 1.0000001192092896),
        ("16777217.0", 16777216.0),
        ("1e39", BAD),
        ('"1.5"', BAD),
        ('"NaN"', BAD),
        ('"Infinity"', BAD),
    ],
)
def test_a_single_precision_number_is_the_one_that_its_digits_mean(text: str, kept: object) -> None:
    assert repr(read(FLOAT, text)) == repr(kept)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('"AQ=="', 1),
        ('"/w8="', 4095),
        ('"AAE="', 256),
        ('""', BAD),
        ('"/x8="', BAD),
        ('"AAAA"', BAD),
        ('"AQ"', BAD),
        ("1", BAD),
    ],
)
def test_bits_are_a_little_endian_number_that_the_column_can_hold(text: str, kept: object) -> None:
    assert read(BITS, text) == kept


@pytest.mark.parametrize(
    ("value", "kept"), [(r"x\,y", "x,y"), (r"b\\c", r"b\c"), (r"\%\_", r"\%\_"), (r"a\nb", "a\nb"), ("a", "a")]
)
def test_a_label_is_what_the_quotes_of_its_ddl_mean(value: str, kept: str) -> None:
    assert read(LABEL, json.dumps(value)) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"wkb":"AQ==","srid":null}', {"srid": 0, "wkb": b"\x01"}),
        ('{"wkb":"AQ=="}', {"srid": 0, "wkb": b"\x01"}),
        ('{"wkb":"AQ==","srid":4326,"x":1.0,"y":2.0}', {"srid": 4326, "wkb": b"\x01"}),
        ('{"wkb":null,"srid":0}', BAD),
        ('{"wkb":"AQ==","srid":"0"}', BAD),
        ('"AQ=="', BAD),
        ("[]", BAD),
    ],
)
def test_a_geometry_is_its_bytes_and_its_reference_system(text: str, kept: object) -> None:
    assert read(POINT, text) == kept


@pytest.mark.parametrize(("text", "kept"), [('"AA=="', "0.00"), ('"/w=="', "-0.01"), ('"ASw="', "3.00")])
def test_a_decimal_that_a_sink_has_no_number_for_is_written_in_full(text: str, kept: str) -> None:
    assert read(WIDE, text) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("0.1", "0.10"), ("1.0E7", BAD), ("9999999.99", "9999999.99"), ("-0.01", "-0.01"), ("-0.0", "0.00"),
        ("0.29", "0.29"), ("0.125", BAD), ('"NaN"', BAD),
    ],
)  # fmt: skip
def test_a_decimal_comes_back_from_its_nearest_double_or_not_at_all(text: str, kept: object) -> None:
    """Not of the column's scale, or of more digits: then it was another column's, as before DDL."""
    seen = read(column("d", "decimal(9,2)", **NUMBERS), text, DecodeModes(decimal="double"))
    assert seen == (kept if kept is BAD else Decimal(str(kept)))
    assert not isinstance(seen, Decimal) or (seen.as_tuple().exponent, seen.is_signed()) == (-2, seen < 0)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp(6)"])
def test_the_instant_0_is_a_zero_date_where_the_column_may_be_null(kind: str) -> None:
    zero = '"1970-01-01T00:00:00Z"'
    assert read(column("ts", kind, nullable=True), zero) is None
    assert read(column("ts", kind, nullable=False), zero) == 0
    assert read(column("ts", kind, nullable=True), '"1970-01-01T00:00:00.5Z"') == 500_000


NUMBERS = {"precision": 9, "scale": 2}


@pytest.mark.parametrize(
    ("column_type", "more", "modes", "setting"),
    [
        ("decimal(16,2)", {"precision": 16, "scale": 2}, {"decimal": "double"}, "decimal.handling.mode=double"),
        ("decimal(9,2)", NUMBERS, {"decimal_format": "numeric"}, "value.converter.decimal.format=NUMERIC"),
        ("time(6)", {"fsp": 6}, {"time": "connect"}, "time.precision.mode=connect"),
        ("time", {"fsp": 0}, {"time": "isostring"}, "time.precision.mode=isostring"),
        ("time(3)", {"fsp": 3}, {"time": "connect"}, "time.precision.mode=connect"),
        ("datetime(4)", {"fsp": 4}, {"time": "connect"}, "time.precision.mode=connect"),
        ("datetime", {"fsp": 0}, {"time": "nanoseconds"}, "time.precision.mode=nanoseconds"),
    ],
)
def test_inv_31_modes_that_lose_precision_are_refused_with_column_and_setting(
    column_type: str, more: dict[str, int], modes: dict[str, str], setting: str
) -> None:
    with pytest.raises(SchemaError) as refused:
        MySqlValues(DecodeModes(**modes)).value(column("total", column_type, **more))
    assert setting in str(refused.value)
    assert "total" in str(refused.value) or modes == {"decimal_format": "numeric"}


@pytest.mark.parametrize(
    ("column_type", "more", "modes"),
    [
        ("datetime(3)", {"fsp": 3}, {"time": "connect"}),
        ("date", {}, {"time": "nanoseconds"}),
        ("timestamp(6)", {"fsp": 6}, {"time": "connect"}),
        ("varchar(9)", {}, {"decimal": "double"}),
        ("decimal(15,15)", {"precision": 15, "scale": 15}, {"decimal": "double"}),
    ],
)
def test_modes_are_refused_only_for_the_columns_they_harm(
    column_type: str, more: dict[str, int], modes: dict[str, str]
) -> None:
    assert MySqlValues(DecodeModes(**modes)).value(column("c", column_type, **more))


def test_an_unknown_mode_is_named() -> None:
    with pytest.raises(SchemaError, match=r"time\.precision\.mode=lunar cannot be decoded"):
        MySqlValues.from_config({"time.precision.mode": "lunar"})


def test_the_values_travel_to_executors() -> None:
    values = MySqlValues(DecodeModes(decimal="string"))
    assert pickle.loads(pickle.dumps(values)) == values  # noqa: S301 - its own


def test_a_decimal_of_more_digits_than_python_prints_is_no_value_of_the_column() -> None:
    """str() of an integer stops at 4,300 digits, with an error: such a record failed every apply of its table."""
    raw = base64.b64encode(b"\x01" * 1_800).decode()
    assert read(WIDE, json.dumps(raw)) == BAD
    assert read(WIDE, json.dumps("9" * 4_301), DecodeModes(decimal="string")) == BAD
    assert read(column("n", "bigint"), "9" * 4_301) == BAD


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"ab", b"ab\0\0"),  # the log leaves out what the server fills a BINARY(4) up with
        (b"", b"\0\0\0\0"),
        (b"abcd", b"abcd"),
        (b"abcde", BAD),
    ],
)
def test_a_binary_of_fixed_length_has_the_zeros_that_the_log_leaves_out(sent: bytes, kept: Any) -> None:
    fixed, free = column("b", "binary(4)", byte_length=4), column("b", "varbinary(4)", byte_length=4)
    text = json.dumps(base64.b64encode(sent).decode())
    assert read(fixed, text) == kept
    assert read(free, text) == sent
