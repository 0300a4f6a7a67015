"""Rows of databases' answers: by name, with NULL, with numbers as text and texts as bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from airflow_cdc.sources.row import Row

ROW = Row(n=7, written="18446744073709551615", half=Decimal("0.5"), raw=b"enum", none=None, yes=True, many=["a", "b"])


def test_numbers_may_be_written_as_text() -> None:
    assert (ROW.number("n"), ROW.number("written"), ROW.number("yes")) == (7, 2**64 - 1, 1)
    assert (ROW.real("half"), ROW.real("n")) == (0.5, 7.0)
    assert (ROW.text("written"), ROW.text("raw")) == ("18446744073709551615", "enum")


def test_a_null_is_said() -> None:
    assert (ROW.text("none"), ROW.flag("none"), ROW.texts("none")) == ("", False, ())
    assert (ROW.text_or_null("none"), ROW.number_or_null("none"), ROW.real_or_null("none")) == (None, None, None)
    assert (ROW.text_or_null("raw"), ROW.number_or_null("n"), ROW.real_or_null("half")) == ("enum", 7, 0.5)


def test_what_is_of_another_type_or_absent_is_an_error() -> None:
    for read in (ROW.number, ROW.real, ROW.moment):
        with pytest.raises(TypeError):
            read("none")
    with pytest.raises(ValueError, match="enum"):
        ROW.number("raw")
    with pytest.raises(KeyError):
        ROW.text("absent")


def test_what_is_inside() -> None:
    now = datetime.now(UTC)
    row = Row(slot={"name": "s", "pid": None}, at=now, many=["a", "b"])
    assert row.row("slot").text("name") == "s"
    assert row.row("slot").number_or_null("pid") is None
    assert (row.moment("at"), row.texts("many")) == (now, ("a", "b"))
    assert row.in_order() == ({"name": "s", "pid": None}, now, ["a", "b"])
