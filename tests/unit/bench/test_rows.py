"""What `make bench` prints of a row, and what it takes for explained."""

from __future__ import annotations

from tests.bench.__main__ import explained
from tests.bench.limits import Limit, limit_of
from tests.bench.result import Ratio

LIMIT = Limit(("snapshot of", "wide rows"), 2.0, "ADR 0022")


def row(name: str, ours: float) -> dict[str, object]:
    return Ratio(name, ours, 1.0, 1.25).to_json()


def test_a_limit_explains_rows_of_its_name_up_to_what_was_reached_and_noise() -> None:
    assert limit_of(row("snapshot of 100,000 wide rows, seconds", 2.4), (LIMIT,)) is LIMIT
    assert limit_of(row("snapshot of 100,000 wide rows, seconds", 2.6), (LIMIT,)) is None, "it became worse"
    assert limit_of(row("snapshot of 100,000 narrow rows", 2.0), (LIMIT,)) is None
    assert limit_of({"name": "snapshot of wide rows, which wrote no ratio"}, (LIMIT,)) is None


def test_a_missed_goal_is_explained_and_what_else_goes_wrong_is_not() -> None:
    held, missed = row("snapshot of wide rows", 1.0), row("processor time of decoding 5 records", 2.0)
    assert explained([held, missed])
    assert not explained([held]), "its exit status has another reason"
    assert not explained([held, missed, row("nobody has explained this one", 2.0)])
