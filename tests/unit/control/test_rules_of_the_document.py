"""What the control document refuses, and what stays as it is: each rule on a SQLite file, in milliseconds.

tests/contract/control_store.py proves the same document over every store, with processes that are killed.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.control import control as controlling
from airflow_cdc.control.control import KEEP_AUDIT, Control
from airflow_cdc.control.document import EMPTY, KEEP_RUNS, parse
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.errors import (
    LeaseHeldError,
    RecoveryOpenError,
    SinkError,
    StaleHeadError,
    UnknownStateError,
    UsageError,
)
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.recovery import Decision
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.xa import XaState
from airflow_cdc.decisions.diagnosis.strategy import DETOUR, FULL
from airflow_cdc.kinds import read_position
from tests.recoveries import advance_to

ORDERS, CUSTOMERS = "shop.orders", "shop.customers"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> SqlControlStore:
    return SqlControlStore(SqlEndpoint("sqlite", str(tmp_path / "control.db"), options={"timeout": "30"}))


@pytest.fixture
def control(store: SqlControlStore) -> Control:
    return Control(store, "shop", clock=lambda: NOW)


def opened(control: Control, run_id: str = "run:1", **fields: Any) -> int:
    return control.open_recovery(run_id, tables=[ORDERS, CUSTOMERS], strategy=FULL, **fields)


# --- whose recovery it is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.raise_epoch("run:2"),
        lambda c: advance_to(c, "run:2", strategy="none"),
        lambda c: c.change_recovery("run:2", lambda now: now, read_position),
        lambda c: c.close_recovery("run:2"),
    ],
    ids=["a new epoch", "a field", "a transition", "closing"],
)
def test_inv_01_a_recovery_is_changed_by_its_own_run_alone(control: Control, change: Any) -> None:
    opened(control)
    before = control.state()
    with pytest.raises(UsageError, match=r"no recovery of the run run:2 is open; open is run:1"):
        change(control)
    assert control.state() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.raise_epoch("run:1"),
        lambda c: advance_to(c, "run:1", strategy="none"),
        lambda c: c.close_recovery("run:1"),
        lambda c: c.abandon((), "ann", "why", read_position),
    ],
    ids=["a new epoch", "a field", "closing", "giving it up"],
)
def test_what_is_not_open_is_not_changed(control: Control, change: Any) -> None:
    with pytest.raises(UsageError, match="is open"):
        change(control)
    assert control.state() == EMPTY


def test_there_is_nothing_to_take_over_where_no_recovery_is_open(control: Control) -> None:
    control.take_over("run:2", read_position)
    assert control.state() == EMPTY


def test_a_run_that_takes_over_its_own_recovery_changes_nothing(control: Control) -> None:
    opened(control)
    before = control.state()
    control.take_over("run:1", read_position)
    assert control.state() == before


def test_a_recovery_that_is_taken_over_keeps_its_epoch_and_says_from_whom(control: Control) -> None:
    epoch = opened(control)
    control.take_over("run:2", read_position)
    recovery = control.recovery(read_position)
    assert recovery is not None
    assert (recovery.run_id, recovery.taken_over_from, recovery.epoch) == ("run:2", "run:1", epoch)
    assert control.ledger_get("run:2")["epoch"] == epoch


def test_inv_01_what_a_recovery_was_opened_with_stays_whatever_a_step_makes_of_it(control: Control) -> None:
    opened(control)
    before = control.recovery(read_position)
    assert before is not None
    other = replace(before, run_id="run:9", epoch=9, opened_at="later", resuming="80 % there")
    after = control.change_recovery("run:1", lambda _now: other, read_position)
    assert (after.run_id, after.epoch, after.opened_at) == (before.run_id, before.epoch, before.opened_at)
    assert after.resuming == "80 % there"


def test_a_second_recovery_names_the_one_that_is_open(control: Control) -> None:
    opened(control)
    with pytest.raises(RecoveryOpenError, match=r"run:1 \(epoch 1\) is open") as refused:
        opened(control, "run:2")
    assert (refused.value.run_id, refused.value.epoch) == ("run:1", 1)


# --- epochs (INV 39) ------------------------------------------------------------------------------------------------------


def test_inv_39_a_new_epoch_within_a_recovery_is_asked_of_every_table(control: Control) -> None:
    opened(control, moves=False)
    again = control.raise_epoch("run:1")
    facts = control.facts()
    assert (again, facts.epoch, control.ledger_get("run:1")["epoch"]) == (2, 2, 2)
    assert [facts.required.of(table) for table in (ORDERS, "shop.other")] == [2, 2]


@pytest.mark.parametrize(
    ("how", "orders", "other"),
    [({"moves": False}, 2, 1), ({"moves": True}, 2, 2), ({"raises": False}, 1, 1)],
    ids=["only tables are wrong", "the offset moves", "no rows are read"],
)
def test_inv_39_which_tables_must_reach_the_new_epoch(
    control: Control, how: dict[str, bool], orders: int, other: int
) -> None:
    opened(control)
    control.close_recovery("run:1")
    opened(control, "run:2", **how)
    facts = control.facts()
    assert (facts.required.of(ORDERS), facts.required.of("shop.other")) == (orders, other)


def test_a_run_that_asks_again_gets_its_epoch_again_even_after_the_recovery_was_closed(control: Control) -> None:
    assert [opened(control), opened(control)] == [1, 1]
    control.close_recovery("run:1")
    assert opened(control) == 1
    assert control.state()["recovery"] is None


@pytest.mark.parametrize(("before", "superseded"), [(DETOUR, True), (FULL, False)])
def test_only_a_move_of_the_position_gives_way_to_a_recovery_that_reads_rows(
    control: Control, before: str, superseded: bool
) -> None:
    control.open_recovery("run:1", tables=[ORDERS], strategy=before, raises=before == FULL)
    epoch = control.state()["epoch"]
    control.supersede(Decision("GTID_PURGED", FULL, (ORDERS, CUSTOMERS)), read_position)
    state = control.state()
    assert (state["epoch"], state["recovery"]["strategy"]) == (epoch + int(superseded), FULL)
    assert state["ledger"]["run:1"]["epoch"] == state["epoch"]


# --- the lease ------------------------------------------------------------------------------------------------------------


def test_only_its_owner_lets_a_lease_go_however_often_others_try(control: Control) -> None:
    control.acquire("run:1", 60)
    assert [control.release("run:2"), control.release("")] == [False, False]
    lease = control.facts().lease
    assert lease is not None
    assert lease.owner == "run:1"
    assert [control.release("run:1"), control.release("run:1")] == [True, False]


def test_a_renewed_lease_keeps_the_dag_of_its_run(control: Control) -> None:
    """Only a run of a DAG is asked for in Airflow before its lease is taken (INV 37)."""
    control.acquire("run:1", 60, dag_id="cdc_recovery")
    assert control.renew("run:1", 60).dag_id == "cdc_recovery"
    control.release("run:1")
    assert control.acquire("apply", 60).dag_id == ""


# --- what is noted --------------------------------------------------------------------------------------------------------


def test_the_first_note_of_a_run_stands(control: Control) -> None:
    assert control.ledger_once("run:1", "w", 1) == 1
    assert control.ledger_once("run:1", "w", 2) == 1
    control.ledger_set("run:1", "w", 3)
    assert control.ledger_get("run:1") == {"w": 3}


def test_a_server_keeps_the_time_at_which_it_was_first_seen(store: SqlControlStore) -> None:
    for year in (2026, 2027):
        Control(store, "shop", clock=lambda year=year: datetime(year, 1, 1, tzinfo=UTC)).note_server("uuid")  # type: ignore[misc]
    control = Control(store, "shop")
    assert control.facts().servers == ("uuid",)
    assert control.state()["ledger"][controlling.SERVERS]["uuid"].startswith("2026")


def test_a_comparison_leaves_what_other_runs_noted(control: Control) -> None:
    control.ledger_set("run:1", "decision", {"plan": "x"})
    control.check_done("night:1", ORDERS, {"at": "1"}, {"verdict": "MATCH", "rows": 5})
    control.check_done("night:1", CUSTOMERS, {"at": "1"}, {"verdict": "MISMATCH", "rows": 7})
    assert control.ledger_get("run:1") == {"decision": {"plan": "x"}}
    assert set(control.ledger_get("night:1")["check"]) == {ORDERS, CUSTOMERS}
    assert set(control.checks()) == {ORDERS, CUSTOMERS}


def test_of_an_earlier_nights_comparison_the_verdict_stays(control: Control) -> None:
    """Reports are files; the document stays small."""
    control.check_done("night:1", ORDERS, {"at": "1"}, {"verdict": "MISMATCH", "rows": 5})
    control.check_done("night:2", ORDERS, {"at": "2"}, {"verdict": "MATCH", "rows": 5})
    assert control.ledger_get("night:1")["check"] == {ORDERS: {"verdict": "MISMATCH"}}
    assert control.ledger_get("night:2")["check"] == {ORDERS: {"verdict": "MATCH", "rows": 5}}
    assert control.checks()[ORDERS] == {"at": "2"}


def test_the_document_grows_with_its_tables_and_not_with_their_comparisons(control: Control) -> None:
    """One that kept each night's results whole grew by them, and each table of each night wrote all of it again."""
    tables, result = [f"shop.t{n}" for n in range(8)], {"verdict": "MATCH", "samples": ["x" * 300]}

    def night(number: int) -> int:
        for table in tables:
            control.check_done(f"night:{number}", table, {"at": str(number)}, result)
        return len(json.dumps(control.state()))

    sizes = [night(number) for number in range(100, 100 + KEEP_RUNS + 3)]
    assert sizes[1] - sizes[0] < 60 * len(tables)  # a verdict each
    assert abs(sizes[-1] - sizes[-2]) < 10  # as many nights as are kept of any kind of run


def test_runs_of_one_kind_push_out_none_of_another(control: Control) -> None:
    for kind in ("decision", "check", "repair"):
        control.ledger_set(f"{kind}:1", kind, {})
    opened(control)
    control.close_recovery("run:1")
    for number in range(KEEP_RUNS + 5):
        control.ledger_set(f"apply:{number}", "step:apply_changes", {})
    runs = control.state()["ledger"]
    assert {"decision:1", "check:1", "repair:1", "run:1"} <= runs.keys()
    assert sum(run.startswith("apply:") for run in runs) == KEEP_RUNS


def test_the_newest_lines_of_the_audit_stay(control: Control) -> None:
    for number in range(KEEP_AUDIT + 3):
        control.audit("ann", f"change {number}", number, number + 1)
    lines = control.state()["audit"]
    assert [lines[0]["what"], lines[-1]["what"], len(lines)] == ["change 3", f"change {KEEP_AUDIT + 2}", KEEP_AUDIT]
    assert (lines[-1]["from"], lines[-1]["to"]) == (KEEP_AUDIT + 2, KEEP_AUDIT + 3)


def test_a_mirrored_stamp_replaces_the_tables_own_and_no_others(control: Control) -> None:
    control.mirror_stamps({ORDERS: Stamp(1), CUSTOMERS: Stamp(1)})
    control.mirror_stamps({ORDERS: Stamp(2)})
    assert [control.mirrored_stamp(table) for table in (ORDERS, CUSTOMERS, "shop.other")] == [Stamp(2), Stamp(1), None]


# --- XA (INV 32) ----------------------------------------------------------------------------------------------------------


def xa(prepares: int) -> XaState:
    return XaState("1/db/3306/x=/7", 7.0, prepares=prepares, rollbacks=0)


@pytest.mark.parametrize(
    ("second", "kept"), [(Verdict.MATCH, 2), (Verdict.MISMATCH, 1), (Verdict.INCONCLUSIVE, 1)], ids=str
)
def test_inv_32_only_an_equal_comparison_settles_a_doubt(control: Control, second: Verdict, kept: int) -> None:
    control.compared(xa(1), {ORDERS: Verdict.MATCH})
    control.compared(xa(2), {ORDERS: second})
    assert control.facts().compared_xa[ORDERS].prepares == kept


def test_inv_32_a_table_that_never_was_equal_is_known_from_its_first_comparison(control: Control) -> None:
    control.compared(xa(1), {ORDERS: Verdict.MISMATCH})
    control.compared(None, {CUSTOMERS: Verdict.MATCH})
    assert set(control.facts().compared_xa) == {ORDERS}


# --- what an apply said ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ({}, ""),
        ({"a": {"state": "done", "started": "1"}}, ""),
        ({"a": {"state": "failed", "started": "1", "error": "E1"}}, "E1"),
        ({"a": {"state": "failed", "started": "1"}}, "ended abruptly"),
        ({"a": {"state": "failed", "started": "1", "error": "E1"}, "b": {"state": "done", "started": "2"}}, ""),
        ({"b": {"state": "done", "started": "1"}, "a": {"state": "failed", "started": "2", "error": "E2"}}, "E2"),
        (
            {
                "a": {"state": "failed", "started": "1", "error": "E1", "type": "SchemaError"},
                "b": {"state": "failed", "started": "2", "error": "held", "type": "LeaseHeldError"},
            },
            "E1",
        ),
    ],
    ids=[
        "none",
        "done",
        "failed",
        "killed",
        "failed, then done",
        "done, then failed",
        "failed, then another had the lease",
    ],
)
def test_what_the_newest_apply_that_tried_said(control: Control, steps: dict[str, Any], error: str) -> None:
    for run, step in steps.items():
        control.ledger_set(run, "step:apply_changes", step)
    assert control.facts().apply_error == error


# --- what can't be settled or read ----------------------------------------------------------------------------------------


class Refusing:
    """A store that answers each write so."""

    def __init__(self, store: SqlControlStore, error: Exception) -> None:
        self._store, self._error, self.where, self.tries = store, error, "a store", 0

    def place(self, pipeline: str) -> str:
        return self._store.place(pipeline)

    def load(self, pipeline: str) -> Any:
        return self._store.load(pipeline)

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        self.tries += 1
        raise self._error


@pytest.mark.parametrize("error", [StaleHeadError("moved"), UnknownStateError("no answer")], ids=["stale", "silent"])
def test_a_change_that_could_not_be_settled_is_unknown_and_never_called_made(
    store: SqlControlStore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    # a clock of the test's own: on a real one of 0.3 s, a machine that stood still for so long had tried once
    seconds = itertools.count(0, 10)
    monkeypatch.setattr(controlling, "poll_until", partial(poll_until, clock=lambda: next(seconds)))
    monkeypatch.setattr(controlling, "jittered", lambda _: None)
    refusing = Refusing(store, error)
    with pytest.raises(UnknownStateError, match=r"note w of run:1 could not be committed in 60 s: (moved|no answer)"):
        Control(refusing, "shop").ledger_set("run:1", "w", 1)
    assert refusing.tries > 1
    assert Control(store, "shop").state() == EMPTY


def test_a_write_that_the_store_refuses_is_not_tried_again(store: SqlControlStore) -> None:
    refusing = Refusing(store, SinkError("read-only"))
    with pytest.raises(SinkError, match="read-only"):
        Control(refusing, "shop").ledger_set("run:1", "w", 1)
    assert refusing.tries == 1


@pytest.mark.parametrize("form", ["4", "0", "-1", '"2"', "null"])
def test_a_document_of_a_format_that_is_not_known_is_refused_by_its_number(form: str) -> None:
    with pytest.raises(ValueError, match="and this version reads formats up to 3"):
        parse(f'{{"format": {form}}}')
    assert parse('{"format": 3}') == parse('{"format": 2}') == parse('{"format": 1}') == parse("{}")


# --- what a write changes -------------------------------------------------------------------------------------------------

# each write, and the parts of the document that may differ after it
WRITES: dict[str, tuple[Any, set[str]]] = {
    "a server": (lambda c: c.note_server("uuid"), {"ledger"}),
    "a note": (lambda c: c.ledger_set("run:1", "w", 1), {"ledger"}),
    "a first note": (lambda c: c.ledger_once("run:1", "v", 1), {"ledger"}),
    "an audit's line": (lambda c: c.audit("ann", "change", 1, 2), {"audit"}),
    "stamps": (lambda c: c.mirror_stamps({ORDERS: Stamp(9)}), {"stamps"}),
    "a night's comparison": (lambda c: c.check_done("night:2", ORDERS, {"at": "3"}, {}), {"checks", "ledger"}),
    "another comparison": (lambda c: c.compared(xa(7), {ORDERS: Verdict.MATCH}), {"xa"}),
    "a lease": (lambda c: c.renew("run:1", 60), {"lease"}),
    "a lease given back": (lambda c: c.release("run:1"), {"lease"}),
    "a step's change": (
        lambda c: c.change_recovery("run:1", lambda now: replace(now, strategy="x"), read_position),
        {"recovery"},
    ),
    "an epoch": (lambda c: c.raise_epoch("run:1"), {"epoch", "epochs", "recovery", "ledger"}),
    "the end of a recovery": (lambda c: c.close_recovery("run:1"), {"recovery", "ledger"}),
    "tables given up": (
        lambda c: c.abandon([ORDERS], "ann", "it was dropped", read_position),
        {"recovery", "ledger", "audit", "abandoned"},
    ),
}


@pytest.mark.parametrize(("write", "parts"), WRITES.values(), ids=WRITES)
def test_a_write_changes_its_own_part_of_the_document_and_no_other(
    control: Control, write: Any, parts: set[str]
) -> None:
    """What another run or command noted must outlive it: an epoch that is lost would let old rows be taken for new."""
    opened(control)
    control.acquire("run:1", 30)
    control.mirror_stamps({ORDERS: Stamp(1), CUSTOMERS: Stamp(1)})
    control.check_done("night:1", CUSTOMERS, {"at": "1"}, {"verdict": "MATCH"})
    control.compared(xa(1), {ORDERS: Verdict.MATCH, CUSTOMERS: Verdict.MATCH})
    control.audit("ann", "begin", 0, 1)
    before = control.state()
    write(control)
    after = control.state()
    assert {part for part in {*before, *after} - {"writes"} if before.get(part) != after.get(part)} <= parts
    assert after.keys() == before.keys()
    assert before["ledger"].keys() <= after["ledger"].keys()
    assert before != after


def test_how_long_the_last_recovery_read_is_kept_for_the_next_forecast(control: Control) -> None:
    """Also over one that read no table."""
    opened(control)
    control.ledger_set("run:1", "step:snapshot", {"seconds": 12.5})
    control.close_recovery("run:1")
    assert control.facts().read_seconds == 12.5
    opened(control, "run:2")
    control.close_recovery("run:2")
    assert control.facts().read_seconds == 12.5


@pytest.mark.parametrize(("owner", "renewed"), [("run:1", True), ("run:2", False)])
def test_a_lease_that_was_let_go_is_renewed_by_the_run_whose_recovery_is_open_and_no_other(
    control: Control, owner: str, renewed: bool
) -> None:
    """A run that failed lets go, and its cleared task goes on."""
    opened(control)
    control.acquire("run:1", 60)
    control.release("run:1")
    if renewed:
        assert control.renew(owner, 60).owner == owner
    else:
        with pytest.raises(LeaseHeldError):
            control.renew(owner, 60)
