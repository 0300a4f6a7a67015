"""What an apply would find to do: asked before a Spark session is started, so what it misses is not applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.epochs import EVERY
from airflow_cdc.core.errors import SinkError
from airflow_cdc.core.observation import ControlFacts, OpenFacts
from airflow_cdc.core.poll import NotYet
from airflow_cdc.core.ports import LogLook
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.decisions.apply.applied import APPLIED, Applied
from airflow_cdc.flows import backlog
from airflow_cdc.flows.partial import LOOKED
from airflow_cdc.flows.run import Run
from tests.unit.flows.recovering import DEBEZIUM, recovering
from tests.unit.flows.test_partial import DOCUMENTS

ORDERS, CUSTOMERS = "shop.orders", "shop.customers"
ROWS, OTHERS, DDL = "shop.shop.orders", "shop.shop.customers", "shop"
END = {ROWS: 10, OTHERS: 4, DDL: 2}
AT_END = {name: TopicOffsets(f"id of {name}", {0: end}) for name, end in END.items()}
DONE = Stamp(3, offsets=AT_END)


def state(name: str, end: int | None = None, **more: Any) -> TopicState:
    return TopicState(name, f"id of {name}", {0: (0, END[name] if end is None else end)}, **more)


def waiting_run(stamps: Mapping[str, Stamp | None] | None = None, control: ControlFacts | None = None) -> Run:
    """A pipeline of two tables in epoch 3, all of whose events are applied, unless `stamps` says otherwise."""
    run = recovering()
    of_table: dict[str, Stamp | None] = {"orders": DONE, "customers": DONE, **(stamps or {})}
    clients: Any = run.clients
    clients.control.facts.return_value = control or ControlFacts(3)
    clients.connector.raw_config.return_value = DEBEZIUM
    clients.transport.gathered.return_value = {name: state(name) for name in END}
    clients.source.table_ids.return_value = {ORDERS: "1", CUSTOMERS: "2"}
    clients.sink.exists.return_value = True
    clients.sink.stamp.side_effect = lambda _namespace, table: of_table[table]
    clients.sink.stamped_summary.return_value = {}
    clients.sink.waiting_letters.return_value = 0
    return run


def states(run: Run, *others: TopicState) -> Run:
    clients: Any = run.clients
    clients.transport.gathered.return_value |= {one.name: one for one in others}
    return run


def test_nothing_waits_where_every_table_is_at_the_end_of_its_topic_and_of_the_ddl() -> None:
    assert backlog.pending(waiting_run()) == {"recovery": None, "tables": [], "events": 0, "dead_letters": 0}


def test_a_table_with_events_waits_and_they_are_counted() -> None:
    waits = backlog.pending(states(waiting_run(), state(ROWS, end=17)))
    assert (waits["tables"], waits["events"]) == ([ORDERS], 7)


def test_inv_13_a_definition_that_changed_without_a_row_waits_for_every_table() -> None:
    """A TRUNCATE is such a change: it has no event in the table's own topic."""
    waits = backlog.pending(states(waiting_run(), state(DDL, end=3)))
    assert (set(waits["tables"]), waits["events"]) == ({ORDERS, CUSTOMERS}, 0)


def test_a_pipeline_without_a_ddl_topic_waits_for_no_ddl() -> None:
    run = waiting_run()
    clients: Any = run.clients
    del clients.transport.gathered.return_value[DDL]
    assert backlog.pending(run)["tables"] == []


@pytest.mark.parametrize(
    "stamp",
    [
        None,
        replace(DONE, epoch=2),
        replace(DONE, offsets={**AT_END, ROWS: TopicOffsets("another topic of this name", {0: 10})}),
        replace(DONE, offsets={**AT_END, ROWS: TopicOffsets(f"id of {ROWS}", {0: 10, 1: 0})}),
    ],
    ids=["never applied", "an epoch ago", "the topic was recreated", "a partition that is gone"],
)
def test_a_table_that_may_be_wrong_waits_so_that_the_apply_judges_it(stamp: Stamp | None) -> None:
    assert backlog.pending(waiting_run({"orders": stamp}))["tables"] == [ORDERS]


def test_a_topic_that_is_not_there_waits_so_that_the_apply_says_why() -> None:
    run = waiting_run()
    clients: Any = run.clients
    del clients.transport.gathered.return_value[ROWS]
    waits = backlog.pending(run)
    assert (waits["tables"], waits["events"]) == ([ORDERS], 0)


@pytest.mark.parametrize(("now", "waits"), [("1", False), ("9", True), (None, False)])
def test_inv_13_a_table_that_the_source_made_again_waits_although_no_event_says_so(
    now: str | None, waits: bool
) -> None:
    """None: the source does not say; then the apply's own look at the log has to."""
    run = waiting_run()
    clients: Any = run.clients
    clients.source.table_ids.return_value = {ORDERS: now, CUSTOMERS: None}
    clients.sink.stamped_summary.return_value = {APPLIED: Applied(table_id="1").to_text()}
    assert (backlog.pending(run)["tables"] == [ORDERS]) is waits


def test_a_table_that_was_never_copied_has_no_stamp_to_ask_for() -> None:
    run = waiting_run()
    clients: Any = run.clients
    clients.sink.exists.return_value = False
    assert backlog.pending(run)["tables"] == list(run.pipeline.source.tables)
    clients.sink.stamp.assert_not_called()
    clients.sink.stamped_summary.assert_not_called()


@pytest.mark.parametrize(
    ("recovery", "tables", "named"),
    [
        (OpenFacts("r9", tables=(ORDERS,), offset_kept=False), [], "r9"),
        (OpenFacts("r9", tables=(ORDERS,), offset_kept=True), [CUSTOMERS], None),
        (OpenFacts("r9", tables=(ORDERS, CUSTOMERS), offset_kept=True), [], "r9"),
    ],
    ids=["it moves the offset of all", "it reads one table again", "it reads every table again"],
)
def test_inv_39_an_open_recovery_leaves_other_tables_to_apply_only_where_the_offset_stays(
    recovery: OpenFacts, tables: list[str], named: str | None
) -> None:
    behind = {"orders": None, "customers": None}
    waits = backlog.pending(waiting_run(behind, ControlFacts(3, recovery=recovery)))
    assert (waits["tables"], waits["recovery"]) == (tables, named)


def test_inv_31_an_update_without_an_event_is_something_to_do() -> None:
    """A session that logs in part, and nobody else writes: an apply that waits for an event would never look."""
    run = waiting_run()
    clients: Any = run.clients
    clients.source.definitions.side_effect = lambda _: {ORDERS: DOCUMENTS}
    clients.control.ledger_get.side_effect = lambda key: {"first": "a"} if key == LOOKED else {}
    clients.source.partial_updates.return_value = LogLook(frozenset({ORDERS}), "b", 3)
    assert backlog.pending(run)["tables"] == [ORDERS]


def test_a_table_that_was_given_up_is_not_applied() -> None:
    control = ControlFacts(3, abandoned={ORDERS: {}})
    assert backlog.pending(waiting_run({"orders": None, "customers": None}, control))["tables"] == [CUSTOMERS]


def test_inv_39_a_table_is_measured_by_the_epoch_that_is_required_of_it() -> None:
    control = ControlFacts(4, epochs={EVERY: 3, ORDERS: 4})
    assert backlog.pending(waiting_run(control=control))["tables"] == [ORDERS]


# ---- looking again and again ------------------------------------------------------------------------------------------------


class Looks:
    """What is seen at each look, and a clock that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, patience: float, *seen: Any) -> None:
        self.now, self.left = 100.0, list(seen)
        monkeypatch.setattr(backlog, "pending", self._next)
        self.waiting = backlog.Waiting(recovering(), patience, lambda: self.now)

    def _next(self, _run: Run, _looks: Any) -> Any:
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


NOTHING: dict[str, Any] = {"recovery": None, "tables": [], "events": 0, "dead_letters": 0}
DOWN = SinkError("the catalog does not answer")


@pytest.mark.parametrize("some", [{"tables": [ORDERS]}, {"dead_letters": 2}])
def test_events_and_dead_letters_are_something_to_do(monkeypatch: pytest.MonkeyPatch, some: dict[str, Any]) -> None:
    assert Looks(monkeypatch, 0, NOTHING | some).waiting.look() == NOTHING | some


@pytest.mark.parametrize(
    ("seen", "why"), [(NOTHING, "nothing to apply"), (NOTHING | {"recovery": "r9"}, "the recovery of run r9 is open")]
)
def test_there_is_nothing_to_do_and_it_is_said_why(
    monkeypatch: pytest.MonkeyPatch, seen: dict[str, Any], why: str
) -> None:
    with pytest.raises(NotYet, match=why):
        Looks(monkeypatch, 0, seen).waiting.look()


def test_a_look_that_fails_is_an_error_at_once_where_nobody_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SinkError):
        Looks(monkeypatch, 0, DOWN).waiting.look()


def test_looks_that_fail_are_an_error_once_they_have_failed_for_as_long_as_one_is_patient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look that succeeds between them begins the patience again."""
    looks = Looks(monkeypatch, 60, DOWN, NOTHING, DOWN, DOWN, DOWN)
    for seconds in (0, 59, 59, 59):
        looks.now += seconds
        with pytest.raises(NotYet):
            looks.waiting.look()
    looks.now += 1
    with pytest.raises(SinkError):
        looks.waiting.look()
