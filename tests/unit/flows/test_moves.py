"""Moving an offset by hand: what an interrupted move leaves behind, and what is written down of each."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.core.errors import OffsetRejectedError, UsageError
from airflow_cdc.flows import move_offset as move
from tests.unit.builders import GTID_OFFSET
from tests.unit.flows.test_move_offset import LATER, WHO, World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def moved(world: World, *entries: dict[str, Any]) -> None:
    """What the audit holds: the moves, the oldest first."""
    world.ledger["moves"] = [{"who": WHO, "at": str(n), "to": LATER, **entry} for n, entry in enumerate(entries)]


def test_undo_goes_back_to_before_the_newest_move_that_was_done(world: World) -> None:
    moved(
        world,
        {"from": {**GTID_OFFSET, "pos": 1}, "state": "done"},
        {"from": {**GTID_OFFSET, "pos": 2}, "state": "done"},
        {"from": {**GTID_OFFSET, "pos": 3}, "state": "begun"},  # it died before the offset was written
    )
    assert move.last_before(world.run) == {**GTID_OFFSET, "pos": 2}


@pytest.mark.parametrize(
    "entry",
    [{"from": GTID_OFFSET, "state": "begun"}, {"from": None, "state": "done"}, {"from": {}, "state": "done"}],
    ids=["a move that was not done", "a move of a connector without an offset", "a move from nothing"],
)
def test_there_is_no_way_back_from(world: World, entry: dict[str, Any]) -> None:
    moved(world, entry)
    with pytest.raises(UsageError, match="no earlier move of the offset is recorded"):
        move.last_before(world.run)


def test_a_move_that_dies_before_it_writes_has_left_its_trace_and_is_not_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(move, "write", dies)
    with pytest.raises(SystemExit):
        move.move(world.run, LATER, who=WHO, shown=None)
    (entry,) = world.ledger["moves"]
    assert (entry["state"], entry["to"], entry["from"]) == ("begun", LATER, GTID_OFFSET)
    assert world.leases == ["acquired", "released"]


def test_only_the_move_that_was_made_is_noted_as_done(world: World) -> None:
    moved(world, {"from": GTID_OFFSET, "state": "begun"})
    move.move(world.run, LATER, who=WHO, shown=None)
    assert [entry["state"] for entry in world.ledger["moves"]] == ["begun", "done"]


def test_a_move_is_audited_with_who_and_both_values_before_it_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[Any] = []
    world.clients.control.audit.side_effect = lambda *line: order.append(line)
    monkeypatch.setattr(move, "write", lambda *_: order.append("written"))
    move.move(world.run, LATER, who=WHO, shown=None)
    assert order == [(WHO, "offset", GTID_OFFSET, LATER), "written"]


def test_an_offset_that_changes_while_the_new_one_is_checked_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = {**GTID_OFFSET, "pos": 77}
    monkeypatch.setattr(move, "check", lambda *_: setattr(world, "offset", dict(theirs)))
    with pytest.raises(OffsetRejectedError, match="somebody else changed the offset"):
        move.move(world.run, LATER, who=WHO, shown=None)
    assert (world.offset, world.ledger) == (theirs, {})
    world.clients.control.audit.assert_not_called()


def test_an_offset_that_a_running_connector_moved_since_it_was_shown_is_replaced(world: World) -> None:
    """It commits all the time: only a connector at rest has an offset that somebody else may have changed."""
    move.move(world.run, LATER, who=WHO, shown={**GTID_OFFSET, "pos": 4})
    assert world.offset == LATER
