"""What `make bench` prints of a row, and what it takes for explained."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench.__main__ import explained, rows_of
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


def test_a_limit_is_a_row_and_one_that_is_passed_does_not_hold(tmp_path: Path) -> None:
    limits = {"page, seconds": {"found": 0.6, "limit": 0.3, "kept": False}}
    (path := tmp_path / "front_door.json").write_text(json.dumps({"taken_at": "", "limits": limits}))
    (found,) = rows_of(path, "front_door")
    assert (found["name"], found["ratio"], found["goal"], found["holds"]) == ("page, seconds", 2.0, 1.0, False)
    assert not explained([found])
