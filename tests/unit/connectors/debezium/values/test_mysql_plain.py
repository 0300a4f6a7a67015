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
