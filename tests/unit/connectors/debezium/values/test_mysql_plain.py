"""MySQL's values in memory: what integration/test_events_agree.py compares with Spark, for values that no server writes."""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.debezium.values.mysql import DecodeModes
from airflow_cdc.connectors.debezium.values.mysql_plain import converter
from airflow_cdc.decisions.apply.plain import NotPlainError
from tests.unit.tables import column

SINGLE = converter(column("f", "float"), DecodeModes())
DOCUMENT = converter(column("doc", "json"), DecodeModes())


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ('{"b": 1.50, "a": [1e2, null, "é"]}', '{"a":[100,null,"é"],"b":1.5}'),
        ('"12:30:00"', '"12:30:00"'),
        ("12345678901234567890.123456789", "12345678901234567890.123456789"),
        ("null", "null"),
    ],
)
def test_a_document_is_kept_as_spark_keeps_it(value: str, kept: str) -> None:
    assert DOCUMENT is not None
    assert DOCUMENT(value) == kept


@pytest.mark.parametrize("value", ['"479:0-60:0-59"', '{"at": "-10:0-1:', "{", "", "NaN", "1e999", {"a": 1}, 7, True])
def test_what_is_no_document_and_a_time_that_debezium_garbles_are_left_to_spark(value: object) -> None:
    assert DOCUMENT is not None
    with pytest.raises(NotPlainError):
        DOCUMENT(value)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1.1, 1.100000023841858),
        (-0.0, -0.0),
        (3.4028235e38, 3.4028234663852886e38),
        (1e-45, 1.401298464324817e-45),
        (16777216.0, 16777216.0),
    ],
)
def test_a_single_precision_number_is_the_one_that_its_digits_mean(value: float, kept: float) -> None:
    assert SINGLE is not None
    assert repr(SINGLE(value)) == repr(kept)


@pytest.mark.parametrize("value", [1.000000059604644776, 16777217.0, 1e39, float("inf"), float("nan"), 1, "1.5", None])
def test_a_number_that_may_be_rounded_twice_or_is_no_float_is_left_to_spark(value: object) -> None:
    assert SINGLE is not None
    with pytest.raises(NotPlainError):
        SINGLE(value)


BITS = converter(column("b", "bit(12)", precision=12), DecodeModes())
LABEL = converter(column("e", "enum('x,y')", labels=("x,y", "a")), DecodeModes())
POINT = converter(column("p", "point"), DecodeModes())
WIDE = converter(column("d", "decimal(65,2)", precision=65, scale=2), DecodeModes())


@pytest.mark.parametrize(("value", "kept"), [("AQ==", 1), ("/w8=", 4095), ("AAE=", 256)])
def test_bits_are_a_little_endian_number(value: str, kept: int) -> None:
    assert BITS is not None
    assert BITS(value) == kept


@pytest.mark.parametrize("value", ["", "/x8=", "AAAA", "AQ", 1, True])
def test_bits_that_the_column_cannot_hold_are_left_to_spark(value: object) -> None:
    assert BITS is not None
    with pytest.raises((NotPlainError, ValueError)):
        BITS(value)


@pytest.mark.parametrize(
    ("value", "kept"), [(r"x\,y", "x,y"), (r"b\\c", r"b\c"), (r"\%\_", r"\%\_"), (r"a\nb", "a\nb"), ("a", "a")]
)
def test_a_label_is_what_the_quotes_of_its_ddl_mean(value: str, kept: str) -> None:
    assert LABEL is not None
    assert LABEL(value) == kept


@pytest.mark.parametrize(
    ("value", "srid"), [({"wkb": "AQ==", "srid": None}, 0), ({"wkb": "AQ==", "srid": 4326, "x": 1.0, "y": 2.0}, 4326)]
)
def test_a_geometry_is_its_bytes_and_its_reference_system(value: object, srid: int) -> None:
    assert POINT is not None
    assert POINT(value) == {"srid": srid, "wkb": b"\x01"}


@pytest.mark.parametrize("value", [{"wkb": "AQ=="}, {"wkb": None, "srid": 0}, {"wkb": "AQ==", "srid": "0"}, "AQ==", []])
def test_what_is_no_geometry_is_left_to_spark(value: object) -> None:
    assert POINT is not None
    with pytest.raises(NotPlainError):
        POINT(value)


@pytest.mark.parametrize(("value", "kept"), [("AA==", "0.00"), ("/w==", "-0.01"), ("ASw=", "3.00")])
def test_a_decimal_that_spark_has_no_number_for_is_written_in_full(value: str, kept: str) -> None:
    assert WIDE is not None
    assert WIDE(value) == kept
