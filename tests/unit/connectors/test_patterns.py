"""Regular expressions of other people's settings end in time, and mean what they meant."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_cdc.connectors.canal.capture import matches
from airflow_cdc.connectors.debezium.routing import full_match, is_listed
from airflow_cdc.connectors.patterns import SlowPatternError, fits
from airflow_cdc.core.errors import ConfigError

SLOW = "(a+)+b"
NAME = "a" * 40


@pytest.mark.parametrize("pattern", [SLOW, "(a|a)*b", r"(\w*)*\.", "(?:.*)+!", "a*a*a*a*a*a*a*a*a*a*a*b"])
def test_an_expression_that_takes_for_ever_is_ended(pattern: str) -> None:
    began = time.monotonic()
    with pytest.raises(SlowPatternError, match="longer than 2 s"):
        fits(re.compile(pattern), NAME * 3)
    assert time.monotonic() - began < 15.0


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(shop|bank)+\.t", "shopbank.t"),
        (r"(a+)+b", "aab"),
        (r"(a)\1", "aa"),
        ("(?i)(x)+", "XX"),
        (r"a.*b.*c.*d.*", "abcd"),
    ],
)
def test_what_may_be_slow_means_the_same_in_a_process_of_its_own(pattern: str, text: str) -> None:
    assert fits(re.compile(pattern), text)
    assert not fits(re.compile(pattern), f"{text}\n!")
    assert fits(re.compile(pattern, re.IGNORECASE), text.upper())


@pytest.mark.parametrize("ask", [full_match, is_listed], ids=lambda one: one.__name__)
def test_debezium_s_is_refused_by_its_name(ask: Callable[[str, str], Any]) -> None:
    with pytest.raises(ConfigError, match=r"cannot be followed here: it takes longer than 2 s on a name of 40 letters"):
        ask(SLOW, NAME)


def test_of_canal_s_nothing_is_said() -> None:
    assert matches(SLOW, NAME)
