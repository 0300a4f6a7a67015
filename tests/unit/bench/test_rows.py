"""What `make bench` prints of a row, and what it takes for explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import Bench, Done, explained, rows_of
from tests.bench.limits import Limit, limit_of
from tests.bench.result import FOLDER, MISSED, WRONG, Ratio

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


def test_a_run_that_is_resumed_takes_what_was_measured_at_its_commit_and_was_not_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    held, wrong, lost = (Bench(name, f"{name}.json", ("--rows", "{rows}")) for name in ("held", "wrong", "lost"))
    done = Done(FOLDER / "status.json", "c0ffee")
    for bench, status in ((held, MISSED), (wrong, WRONG), (lost, 0)):
        done.note(bench.of({"rows": "5"}), status)
    held.path.touch()
    wrong.path.touch()
    assert done.status(held.of({"rows": "5"})) == MISSED
    assert done.status(held.of({"rows": "6"})) is None, "other rows were measured"
    assert done.status(wrong.of({"rows": "5"})) is None
    assert done.status(lost.of({"rows": "5"})) is None, "its figures are gone"
    assert Done(FOLDER / "status.json", "another").status(held.of({"rows": "5"})) is None
    assert Done(FOLDER / "status.json", "").status(held.of({"rows": "5"})) is None, "no commit says what was measured"
