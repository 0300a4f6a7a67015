"""The counting of `make systems`: a difference of any kind is seen, and a row is good only without any."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.systems import debezium_postgres
from tests.systems.__main__ import CASES
from tests.systems.case import Differences, Result, Row, differences

ROWS: list[Row] = [("1", "a"), ("2", "b"), ("3", None)]


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        (ROWS, (0, 0, 0)),
        (ROWS[:2], (1, 0, 0)),
        ([*ROWS, ("4", "d")], (0, 1, 0)),
        ([*ROWS[:2], ("3", "")], (0, 0, 1)),
        ([*ROWS, ROWS[0]], (0, 1, 0)),
        ([], (3, 0, 0)),
    ],
)
def test_rows_are_told_apart_by_their_key(sink: list[Row], expected: tuple[int, int, int]) -> None:
    assert differences(ROWS, sink, 1) == expected


def test_without_a_key_copies_are_counted() -> None:
    assert differences([("a",), ("a",), ("b",)], [("a",), ("b",), ("b",)], 0) == (1, 1, 0)


def test_tables_add_up() -> None:
    assert Differences(1, 2, 3) + Differences(1, 0, 0) == (2, 2, 3)


def test_a_row_is_good_only_if_both_checks_say_so() -> None:
    good = Result("s", "1", "f", "text", "P", 1.0, 0, 0, 0, "MATCH")
    assert good.good
    for name in ("missing", "ghosts", "different"):
        assert not replace(good, **{name: 1}).good  # type: ignore[arg-type]
    assert not replace(good, verdict="INCONCLUSIVE").good


def test_systems_have_names_of_their_own() -> None:
    names = [case.system for case in CASES]
    assert len(names) == len(set(names))
    assert debezium_postgres.CASE in CASES


def test_a_row_that_lacks_something_here_says_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDC_HUDI_FLINK_BUNDLE", raising=False)
    told = {case.system: case.left_out for case in CASES}
    assert "CDC_HUDI_FLINK_BUNDLE names no file" in told["Flink CDC to Hudi (merge-on-read)"]
    assert not told[debezium_postgres.CASE.system]
