"""JSON objects of other programs: what is absent, what is null, and what is of another type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_cdc.core.errors import MALFORMED
from airflow_cdc.fields import Fields

RECORD = Fields(name="t", n="7", none=None, inner={"a": 1}, many=[{"a": 1}, {"a": 2}], words=["x", "y"])


def test_what_is_there() -> None:
    assert (RECORD.text("name"), RECORD.number("n"), RECORD.inner("inner").number("a")) == ("t", 7, 1)
    assert [one.number("a") for one in RECORD.each("many", strict=True)] == [1, 2]
    assert RECORD.texts("words", strict=True) == ("x", "y")


@pytest.mark.parametrize("name", ["none", "absent"])
def test_what_is_null_or_absent(name: str) -> None:
    assert (RECORD.text(name, ""), RECORD.inner(name), RECORD.each(name), RECORD.texts(name)) == ("", {}, [], ())
    for read in (
        RECORD.text,
        RECORD.number,
        lambda n: RECORD.each(n, strict=True),
        lambda n: RECORD.texts(n, strict=True),
    ):
        with pytest.raises(MALFORMED):
            read(name)


@pytest.mark.parametrize("value", [5, True, 1.5, "text", [1], ["text"], [None], {"a": 1}])
def test_what_is_of_another_type(value: Any) -> None:
    record = Fields(x=value)
    readers: tuple[tuple[Callable[[str], object], type], ...] = (
        (record.text, str),
        (record.inner, dict),
        (record.each, type(None)),
        (record.texts, type(None)),
    )
    for read, kind in readers:
        if not isinstance(value, kind) and not (read == record.texts and value == ["text"]):
            with pytest.raises(MALFORMED):
                read("x")


def test_an_object_is_needed() -> None:
    assert Fields.of({"a": 1}) == {"a": 1}
    values: tuple[object, ...] = (None, [], "", 5)
    for value in values:
        with pytest.raises(TypeError):
            Fields.of(value)


def test_what_a_number_is_if_nothing_is_said() -> None:
    settings = Fields(passes="3", wait="1.5", none=None)
    assert (settings.number("passes", 2), settings.real("wait", 9.0)) == (3, 1.5)
    for name in ("none", "absent"):
        assert (settings.number(name, 2), settings.real(name, 9.0)) == (2, 9.0)
        with pytest.raises(MALFORMED):
            settings.real(name)
