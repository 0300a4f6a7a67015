"""LSNs and positions of PostgreSQL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.errors import PositionError
from airflow_cdc.sources.postgres.position import Lsn, PgPosition

LSNS = st.integers(0, (1 << 64) - 1).map(Lsn)


@given(LSNS)
def test_text_round_trip(lsn: Lsn) -> None:
    assert Lsn.parse(str(lsn)) == lsn


@pytest.mark.parametrize(
    ("text", "value"), [("0/1788A40", 24676928), ("1/0", 1 << 32), ("FFFFFFFF/FFFFFFFF", (1 << 64) - 1)]
)
def test_worked_cases(text: str, value: int) -> None:
    assert Lsn.parse(text).value == value
    assert str(Lsn(value)) == text


@pytest.mark.parametrize("text", ["", "0", "24676928", "0/1788A40/1", "0/G", "123456789/0", "0/ 1"])
def test_what_is_no_lsn(text: str) -> None:
    with pytest.raises(PositionError, match="is not an LSN"):
        Lsn.parse(text)


@pytest.mark.parametrize("value", [-1, 1 << 64, True])
def test_numbers_that_are_no_lsn(value: int) -> None:
    with pytest.raises(PositionError):
        Lsn(value)


def test_order_is_that_of_the_number_and_not_of_the_text() -> None:
    assert Lsn.parse("9/0") < Lsn.parse("10/0")
    assert Lsn.parse("0/10") - Lsn.parse("0/1") == 15
    assert Lsn.parse("0/1") - Lsn.parse("0/10") == -15


@pytest.mark.parametrize(
    ("mine", "other", "covers"),
    [
        (PgPosition(Lsn(5), 1, "7"), PgPosition(Lsn(5), 1, "7"), True),
        (PgPosition(Lsn(4), 1, "7"), PgPosition(Lsn(5), 1, "7"), False),
        (PgPosition(Lsn(9), 1, "7"), PgPosition(Lsn(5), 1, "8"), None),
        (PgPosition(Lsn(9), 2, "7"), PgPosition(Lsn(5), 1, "7"), None),
        (PgPosition(Lsn(9)), PgPosition(Lsn(5), 1, "7"), True),
        (PgPosition(Lsn(5), 1, "7"), PgPosition(Lsn(9)), False),
    ],
)
def test_another_server_or_timeline_cannot_be_compared(
    mine: PgPosition, other: PgPosition, covers: bool | None
) -> None:
    assert mine.covers(other) is covers


@given(LSNS, st.integers(0, 100), st.sampled_from(["", "7711398449993377731"]))
def test_json_round_trip(lsn: Lsn, timeline: int, system: str) -> None:
    position = PgPosition(lsn, timeline, system)
    assert PgPosition.from_json(position.to_json()) == position


@pytest.mark.parametrize(
    "value", [{}, {"kind": "mysql", "lsn": "0/1", "timeline": 1, "system_id": ""}, {"kind": "postgres"}]
)
def test_json_of_something_else_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(PositionError):
        PgPosition.from_json(value)
