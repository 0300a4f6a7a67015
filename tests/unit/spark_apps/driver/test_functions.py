from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.decisions.compare.json_text import json_canonical

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(documents)
def test_equal_documents_have_one_canonical_text(document: object) -> None:
    texts = {
        json_canonical(json.dumps(document, indent=indent, ensure_ascii=ascii_only, sort_keys=order))
        for indent, ascii_only, order in ((None, True, False), (2, False, True), (1, True, True))
    }
    assert len(texts) == 1
    (text,) = texts
    assert text is not None
    assert json.loads(text) == document
    assert json_canonical(text) == text


def test_canonical_json() -> None:
    assert json_canonical('{"b": 1.0, "a": [1, 2e3, -0.0]}') == '{"a":[1,2000,0],"b":1}'
    assert json_canonical("null") == "null"
    assert json_canonical('"\\ud800"') == '"\\ud800"'
    assert json_canonical("12345678901234567890") == "12345678901234567890"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("12345678901234567890.1234567890123456789", "12345678901234567890.1234567890123456789"),
        ("0.12345678901234567", "0.12345678901234567"),
        ("0.12345678901234568", "0.12345678901234568"),
        ("0.000000000000000000000000000001", "1e-30"),
        ("4.9E-324", "5e-324"),  # as Java prints it
        ("5.6843418860808015E-14", "5.684341886080802e-14"),
        ("1.234567890123456789012E-5", "0.00001234567890123456789012"),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.1"),
        ("-99999999999999999999999999999999999.999999999999999999999999999999",) * 2,
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854774784", "9223372036854774784"),  # a double holds it, and prints 9.223372036854775e18
        ("100.00", "100"),
        ("-0.00", "0"),
        ("1e999999999", None),
        ("1e-999999999", "0"),
    ],
)
def test_inv_29_a_number_keeps_every_digit(text: str, wanted: str | None) -> None:
    assert json_canonical(text) == wanted
    nested = None if wanted is None else f'{{"a":[{wanted},"{text}"]}}'
    assert json_canonical(f'{{"a": [{text}, "{text}"]}}') == nested


def as_debezium_prints(number: float) -> str:
    """All digits of the binary value where Java would write an exponent."""
    return f"{Decimal(number):f}" if number and not 1e-3 <= abs(number) < 1e7 else repr(number)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_inv_29_a_double_has_one_text_whoever_printed_it(number: float) -> None:
    shortest = json_canonical(repr(number))
    assert shortest == json_canonical(as_debezium_prints(number))
    assert shortest is not None
    assert float(shortest) == number


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=30))
def test_inv_29_different_decimals_have_different_texts(number: Decimal) -> None:
    text = json_canonical(f"{number:f}")
    assert text is not None
    # no text of a decimal tells it from a double with the very same value, whose text is the shortest
    assert Decimal(text) == number or Decimal(float(text)) == number


@pytest.mark.parametrize("text", ["", "{", "nope", "NaN", "[Infinity]", "1e999", "[" * 100_000])
def test_what_is_no_json_is_none(text: str) -> None:
    assert json_canonical(text) is None


EXACT = "0.12345678901234567890123456789"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"[1.0, {EXACT}, [{EXACT}, null]]", f"[1,{EXACT},[{EXACT},null]]"),
        (
            f'{{"b": [{EXACT}, "x"], "a": {{"d": {EXACT}, "c": true}}}}',
            f'{{"a":{{"c":true,"d":{EXACT}}},"b":[{EXACT},"x"]}}',
        ),
        (f"[{EXACT}00]", f"[{EXACT}]"),
    ],
)
def test_a_number_keeps_all_its_digits_wherever_it_stands_in_a_document(text: str, kept: str) -> None:
    assert json_canonical(text) == kept
