"""Catching up on rows that events could not be applied to ends, however fast such events come."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.core.dead_letter import DeadLetter
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.decisions.compare.verdict import Tally
from airflow_cdc.spark_apps.compare.few import FEW_IN_ALL, FEW_ROWS
from airflow_cdc.spark_apps.compare.scan import CONNECTIONS, Outcome
from airflow_cdc.spark_apps.stages import catch_up as catching
from airflow_cdc.spark_apps.stages import passes
from airflow_cdc.spark_apps.stages.work import Patience, Work

TABLE = "shop.orders"


def letter(offset: int, table: str = TABLE) -> DeadLetter:
    return DeadLetter("p.shop.orders", "t1", 0, offset, b"k", b"v", table, "a reason", 1, datetime.now(UTC))


UNUSED = cast("Any", None)


def work_on(*tables: str, systems: Any = None) -> Work:
    definitions = {name: cast("Any", named(name)) for name in tables}
    return Work(UNUSED, UNUSED, systems, UNUSED, Patience(2, 1.0), definitions, watermark=cast("Any", "W"))


def named(table: str) -> Any:
    return SimpleNamespace(full_name=table, table=SimpleNamespace(full_name=table))


@pytest.mark.parametrize("read_at", [None, "R"])
def test_what_was_read_is_known_to_the_wait_for_the_connector(read_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[tuple[Any, ...]] = []
    monkeypatch.setattr(catching, "wait_sent", lambda *arguments: waits.append(arguments))
    source = SimpleNamespace(position=lambda: "P")
    run: Any = SimpleNamespace(clients=SimpleNamespace(source=source, transport=SimpleNamespace(gathered=lambda _: {})))
    routing = SimpleNamespace(routing=SimpleNamespace(topics_about=list))
    work = replace(work_on(TABLE, systems=SimpleNamespace(events=routing)), run=run, read_at=read_at)
    assert catching.reach(work.of([TABLE]))[0].position == cast("Any", "P")
    assert waits == [(run, "P", 1.0, read_at)]


@pytest.mark.parametrize("coming", [0, 2, 100])
def test_inv_31_letters_that_keep_coming_do_not_keep_verify_from_ending(
    coming: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read again after the last time that the stages catch up: what is compared would be older than it.

    Only the tables whose rows were read again catch up again.
    """
    steps: list[tuple[str, list[str]]] = []
    left, rounds = iter(range(coming)), iter(range(100))

    def catch_up(work: Work) -> Any:
        steps.append(("catch up", list(work.definitions)))
        number = next(rounds)
        return number, [SimpleNamespace(table=named(name), number=number) for name in work.definitions]

    def put_right(tables: Collection[str]) -> Collection[str]:
        steps.append(("read again", list(tables)))
        return () if next(left, None) is None else {TABLE}

    monkeypatch.setattr(passes, "catch_up", catch_up)
    caught_up: Any = passes._caught_up(work_on("shop.other", TABLE), put_right)
    reached, subjects = caught_up
    times = min(coming + 1, catching.CATCH_UPS)
    caught = [tables for step, tables in steps if step == "catch up"]
    assert caught == [["shop.other", TABLE]] + [[TABLE]] * (times - 1)
    assert len(steps) - len(caught) == min(times, catching.CATCH_UPS - 1)
    assert coming < catching.CATCH_UPS or steps[-1][0] == "catch up"
    assert reached == times - 1, "no subject is beyond what was reached"
    assert [(one.table.full_name, one.number) for one in subjects] == [
        ("shop.other", 0),
        (TABLE, times - 1),
    ]


def test_inv_18_only_a_table_inside_a_repeated_range_continues_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[list[str]] = []

    def apply_batch(_context: Any, targets: list[Any], ends: int) -> dict[str, dict[str, Any]]:
        applied.append([target.table.full_name for target in targets])
        behind = {TABLE: ends < 3}
        return {name: {"behind": behind.get(name, False), "records": 0, "seconds": 0.0} for name in applied[-1]}

    rounds = iter(range(100))
    monkeypatch.setattr(catching, "reach", lambda _: (SimpleNamespace(ends=next(rounds)), {}))
    monkeypatch.setattr(Work, "context", lambda *_: None)
    monkeypatch.setattr(Work, "targets", lambda work: [named(name) for name in work.definitions])
    monkeypatch.setattr(catching, "apply_batch", apply_batch)
    monkeypatch.setattr(
        catching, "_subject", lambda _context, _work, target, *, result, reached: (target, reached.ends)
    )
    caught: Any = catching.catch_up(work_on("shop.other", TABLE))
    reached, subjects = caught
    assert applied == [["shop.other", TABLE], [TABLE], [TABLE], [TABLE]]
    assert [ends for _, ends in subjects] == [0, 3]
    assert reached.ends == 3


def test_only_tables_that_differ_are_compared_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that was equal keeps the snapshot that was compared; the order of the outcomes is the work's."""
    compared: list[list[str]] = []
    wrong = {TABLE: Tally(different=1)}

    def compare(work: Work, _put_right: Any) -> list[Outcome]:
        compared.append(list(work.definitions))
        return [outcome(name, wrong.get(name, Tally())) for name in work.definitions]

    def outcome(name: str, tally: Tally) -> Outcome:
        return Outcome(cast("Any", SimpleNamespace(table=named(name), part=WHOLE)), tally)

    monkeypatch.setattr(passes, "_compared", compare)
    monkeypatch.setattr(passes, "wait_for_xa", lambda *_: None)
    monkeypatch.setattr(passes, "summary", str)
    work = work_on("shop.a", TABLE, "shop.z")
    outcomes = passes.compare_passes(work, lambda: lambda _outcome: ())
    assert compared == [["shop.a", TABLE, "shop.z"], [TABLE]]
    assert [one.subject.table.full_name for one in outcomes] == list(work.definitions)
    assert [str(one.verdict) for one in outcomes] == ["MATCH", "MISMATCH", "MATCH"]
    compared.clear()
    wrong.clear()
    passes.compare_passes(work, lambda: lambda _outcome: ())
    assert compared == [["shop.a", TABLE, "shop.z"]]


def test_the_ends_of_a_table_s_topic_are_asked_for_with_its_own_group_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """All topics for every group are the square of the tables: 2,000 tables are 250 groups."""
    names = [f"shop.t{number}" for number in range(3 * CONNECTIONS + 1)]
    asked: list[str] = []

    def compare(_reader: Any, subjects: list[Any], _judge: Any, reach: Any, **_: Any) -> list[Any]:
        reach()
        return subjects

    def reach(work: Work) -> tuple[None, None]:
        asked.extend(work.definitions)
        return None, None

    caught = [SimpleNamespace(table=named(name), small=False, rows=1) for name in names]
    monkeypatch.setattr(passes, "_caught_up", lambda *_: (None, caught))
    monkeypatch.setattr(passes, "few_in_memory", lambda subjects, _most: list(subjects))
    monkeypatch.setattr(passes, "compare_tables", compare)
    monkeypatch.setattr(passes, "reach", reach)
    systems: Any = SimpleNamespace(reader=SimpleNamespace(exact_views=False))
    outcomes = passes._compared(work_on(*names, systems=systems), lambda _tables: ())
    assert [one.table.full_name for one in cast("Any", outcomes)] == names
    assert asked == names


@pytest.mark.parametrize(("rows", "most"), [(10, FEW_IN_ALL), (FEW_IN_ALL // 10, FEW_ROWS)], ids=["few", "many"])
@pytest.mark.parametrize("old_views", [True, False])
def test_what_is_few_is_decided_for_all_tables_of_the_driver_and_not_for_a_group(
    monkeypatch: pytest.MonkeyPatch, *, rows: int, most: int, old_views: bool
) -> None:
    """Spark's session is made once, however many groups use it."""
    names, asked = [f"shop.t{number}" for number in range(2 * CONNECTIONS)], list[int]()
    caught = [SimpleNamespace(table=named(name), small=False, rows=rows) for name in names]

    def in_old_views(*_: Any, most: int) -> list[Any]:
        asked.append(most)
        return []

    def few_in_memory(subjects: list[Any], most: int) -> list[Any]:
        asked.append(most)
        return subjects

    monkeypatch.setattr(passes, "_caught_up", lambda *_: (None, caught))
    monkeypatch.setattr(passes, "_compared_in_old_views", in_old_views)
    monkeypatch.setattr(passes, "_compared_by_the_log", lambda *_, **__: [])
    monkeypatch.setattr(passes, "few_in_memory", few_in_memory)
    systems: Any = SimpleNamespace(reader=SimpleNamespace(exact_views=old_views))
    passes._compared(work_on(*names, systems=systems), lambda _tables: ())
    assert asked == [most] * 2


def test_inv_31_that_they_keep_coming_is_said() -> None:
    letters = [letter(1), letter(2), letter(3), letter(4, "shop.other")]

    def unresolved(_pipeline: str, table: str = "") -> list[DeadLetter]:
        return [one for one in letters if table in ("", one.table)]

    sink = SimpleNamespace(unresolved_letters=unresolved)
    run = cast(
        "Any",
        SimpleNamespace(
            pipeline=SimpleNamespace(name="p"), clients=SimpleNamespace(sink=SimpleNamespace(letters=sink))
        ),
    )
    keyed = SimpleNamespace(keyless=False, full_name=TABLE)
    work = cast("Any", SimpleNamespace(run=run, definitions={TABLE: keyed, "shop.other": keyed}))
    outcome = cast("Any", SimpleNamespace(subject=SimpleNamespace(table=keyed)))
    read = {letter(1).place}
    again = catching.LettersAgain(work, {}, tried=set(read), right=set(read))
    waiting, coming = again.caveats()(outcome)
    assert waiting.startswith("2 records")
    assert coming.startswith("2 of them came after the others' rows had been read again")
    again.tried |= {one.place for one in letters}
    assert len(again.caveats()(outcome)) == 1  # all were tried: those that are left cannot be read
    again.right |= {one.place for one in letters}
    assert again.caveats()(outcome) == ()
