"""Decimals that were sent as doubles."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.events.wire.decimals import DOUBLE_DIGITS, of_double


@given(st.integers(-(10**DOUBLE_DIGITS) + 1, 10**DOUBLE_DIGITS - 1), st.integers(0, DOUBLE_DIGITS))
def test_every_decimal_of_so_few_digits_comes_back(unscaled: int, scale: int) -> None:
    number = Decimal(unscaled).scaleb(-scale)
    assert of_double(float(number), scale) == number


def test_one_digit_more_is_too_much() -> None:
    """Two decimals of 16 digits share their nearest double: which of them it was, nobody can say."""
    assert float(Decimal(9007199254740993)) == float(Decimal(9007199254740992))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 0.125, 1e300])
def test_a_double_that_is_none_of_them_is_no_value(number: float) -> None:
    if number == 1e300:
        assert of_double(number, 2) == Decimal(number)  # within its column it does not fit
        return
    with pytest.raises(ValueError, match=r".*"):
        of_double(number, 2)
