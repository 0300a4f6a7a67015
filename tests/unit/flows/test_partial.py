"""Updates that a session logs in part: which tables an apply stops for them, and where the next look begins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import RereadNeededError
from airflow_cdc.core.ports import LogLook
from airflow_cdc.core.table import Column, NativeColumn
from airflow_cdc.core.types import Json
from airflow_cdc.flows.partial import FEW_EVENTS, LOOKED, MANY_EVENTS, InPart, Looks, begin, in_part
from airflow_cdc.flows.run import Run
from tests.unit.flows.recovering import NAME, ORDERS, recovering

DOCUMENTS = replace(ORDERS, columns=(Column("j", 1, Json(), NativeColumn("mysql", "json", ())),))
OTHER = "shop.other"


def run_of(stored: str, look: LogLook | None, **places: str) -> Run:
    """A run whose first look is to begin at `stored`, or a table's next one at its of `places`, and what is seen from there."""
    run = recovering()
    clients: Any = run.clients
    ledger: dict[str, Any] = {"next": {f"shop.{name}": place for name, place in places.items()}}
    ledger |= {"first": stored} if stored else {}
    clients.control.ledger_get.side_effect = lambda key: ledger if key == LOOKED else {}
    clients.control.ledger_set.side_effect = lambda _run, key, value: ledger.update({key: value})
    clients.source.partial_updates.side_effect = lambda since: look if since in (stored, *places.values()) else None
    return run


def stored(run: Run) -> dict[str, str]:
    places: dict[str, str] = run.clients.control.ledger_get(LOOKED)["next"]
    return places


def test_a_table_without_documents_costs_no_look() -> None:
    run = run_of("a", LogLook(frozenset({NAME}), "b"))
    assert in_part(run, [ORDERS]) == InPart()
    run.clients.source.partial_updates.assert_not_called()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("tables", "stops"), [({NAME, OTHER}, True), ({OTHER}, False), (set(), False)])
def test_a_table_with_such_an_update_stops(tables: set[str], stops: bool) -> None:
    look = LogLook(frozenset(tables), "b", FEW_EVENTS + 1, what="logged in part", todo="Unset it.")
    found = in_part(run_of("a", look), [DOCUMENTS])
    assert (found.tables, found.upto) == (frozenset({NAME}) if stops else frozenset(), {NAME: "b"})
    if not stops:
        found.refuse(DOCUMENTS)
        return
    with pytest.raises(RereadNeededError, match=r"logged in part.*Unset it\. Recover the table"):
        found.refuse(DOCUMENTS)


def test_the_next_look_begins_there_only_once_the_table_was_read_again() -> None:
    run, found = run_of("a", None), InPart(frozenset({NAME}), {NAME: "b", OTHER: "c"})
    found.settle(run, [NAME, OTHER])
    assert stored(run) == {OTHER: "c"}
    found.settle(run, [])
    assert stored(run) == {NAME: "b", OTHER: "c"}


def test_a_table_that_is_not_read_again_yet_holds_up_no_other() -> None:
    """Each table is looked for from its own place on: an update of before that is not named again."""
    run, other = run_of("a", None, orders="b"), replace(DOCUMENTS, name="other")
    source: Any = run.clients.source
    looks = {"a": LogLook(frozenset({NAME, OTHER}), "z"), "b": LogLook(frozenset({OTHER}), "z")}
    source.partial_updates.side_effect = looks.get
    assert in_part(run, [DOCUMENTS, other]).tables == {OTHER}


def test_few_events_are_looked_at_again_rather_than_write_the_document() -> None:
    assert in_part(run_of("a", LogLook(frozenset(), "b", FEW_EVENTS)), [DOCUMENTS]).upto == {}
    assert in_part(run_of("a", LogLook(frozenset(), "b", 1, "it is gone")), [DOCUMENTS]).upto == {NAME: "b"}
    assert in_part(run_of("", LogLook(frozenset(), "b")), [DOCUMENTS]).upto == {NAME: "b"}
    assert in_part(run_of("a", None), [DOCUMENTS]) == InPart()


def test_a_first_recovery_notes_where_the_first_look_begins_and_no_later_one_does() -> None:
    run = run_of("", LogLook(frozenset(), "b"))
    begin(run)
    run.clients.control.ledger_once.assert_called_once_with(LOOKED, "first", "b")  # type: ignore[attr-defined]
    later = run_of("a", LogLook(frozenset(), "c"))
    begin(later)
    later.clients.control.ledger_once.assert_not_called()  # type: ignore[attr-defined]


def looking(run: Run, looks: Looks, *seen: LogLook | None) -> list[list[str]]:
    """What each look names, of a table with documents and one without."""
    source: Any = run.clients.source
    source.definitions.side_effect = lambda _: {NAME: DOCUMENTS, OTHER: replace(ORDERS, name="other")}
    source.partial_updates.side_effect = list(seen)
    return [looks.tables(run, [NAME, OTHER]) for _ in seen]


def test_before_an_apply_each_look_begins_where_the_one_before_has_ended() -> None:
    run = run_of("a", None)
    with_one = LogLook(frozenset({NAME, OTHER}), "d", 1)
    assert looking(run, Looks(), LogLook(frozenset(), "b", 5), LogLook(frozenset(), "c", 5), with_one) == [
        [],
        [],
        [NAME],
    ]
    assert [call.args for call in run.clients.source.partial_updates.call_args_list] == [("a",), ("b",), ("c",)]  # type: ignore[attr-defined]
    run.clients.control.ledger_set.assert_not_called()  # type: ignore[attr-defined]


def test_an_apply_is_asked_for_before_each_look_reads_too_much_again() -> None:
    half = LogLook(frozenset(), "b", MANY_EVENTS // 2)
    assert looking(run_of("a", None), Looks(), half, half, replace(half, events=1)) == [[], [], [NAME]]


def test_before_a_first_recovery_and_where_the_log_shows_no_events_nothing_is_found() -> None:
    source_without = run_of("", None)
    assert looking(source_without, Looks(), LogLook(frozenset({NAME}), "b")) == [[]]
    source_without.clients.source.definitions.assert_not_called()  # type: ignore[attr-defined]
    assert looking(run_of("a", None), Looks(), None) == [[]]
