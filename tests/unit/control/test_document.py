"""The control document's parts: which forms are refused, what is kept and for how long, and what each write leaves in it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.control import control as controlling
from airflow_cdc.control import document as documents
from airflow_cdc.control.control import REFUSED, SERVERS, Control
from airflow_cdc.control.document import (
    EMPTY,
    KEEP_RUNS,
    KEEP_WRITES,
    RECOVERED,
    UnknownFormatError,
    closed,
    compared_xa,
    dump,
    in_place,
    noted,
    parse,
    read_before,
    read_seconds,
    recovered,
    with_xa,
    written,
)
from airflow_cdc.control.ledger import CheckedTable, LedgerEntry, StepEntry
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.errors import SinkError, UnknownStateError
from airflow_cdc.core.lease import Lease
from airflow_cdc.core.observation import OpenFacts, RefusedTable
from airflow_cdc.core.recovery import Decision, StagedTable
from airflow_cdc.core.report import StepPart, StepReport, Verdict
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.xa import XaState
from airflow_cdc.decisions.diagnosis.strategy import DETOUR, FULL
from airflow_cdc.kinds import read_position

ORDERS, CUSTOMERS = "shop.orders", "shop.customers"
NOW = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
AT = "2026-01-01T12:30:15.123+00:00"  # milliseconds, as every time in the document: what is compared has one form


@pytest.fixture
def store(tmp_path: Path) -> SqlControlStore:
    return SqlControlStore(SqlEndpoint("sqlite", str(tmp_path / "control.db"), options={"timeout": "30"}))


@pytest.fixture
def control(store: SqlControlStore) -> Control:
    return Control(store, "shop", clock=lambda: NOW)


def opened(control: Control, run_id: str = "run:1", **fields: Any) -> int:
    return control.open_recovery(run_id, tables=[ORDERS, CUSTOMERS], strategy=FULL, **fields)


# --- forms that are refused -----------------------------------------------------------------------------------------------

NO_OBJECT: tuple[object, ...] = (None, [], "x", 1, True)
NO_LIST: tuple[object, ...] = (None, {}, "x", 1)
NO_EPOCH: tuple[object, ...] = (-1, "1", 1.0, True, None, [1])
OBJECTS = ("epochs", "ledger", "stamps", "checks", "xa", "abandoned")
WRONG: list[tuple[str, object]] = [
    *((part, value) for part in OBJECTS for value in NO_OBJECT),
    *((part, value) for part in ("audit", "writes") for value in NO_LIST),
    *((part, {"a": {}, "b": one}) for part in ("ledger", "checks", "abandoned") for one in NO_OBJECT),
    *(("xa", {"a": {}, "b": one}) for one in NO_OBJECT if one is not None),
    *(("epoch", value) for value in NO_EPOCH),
    *(("epochs", {"a": 1, "b": value}) for value in NO_EPOCH),
    *(("recovery", value) for value in (*NO_OBJECT[1:], {}, {"run_id": None}, {"run_id": 1})),
]


@pytest.mark.parametrize(("part", "value"), WRONG, ids=[f"{part}={json.dumps(value)}" for part, value in WRONG])
def test_a_part_of_another_form_is_refused_by_its_name_before_a_step_meets_it(part: str, value: object) -> None:
    """A step that met it in the middle of its work would leave the work half done."""
    # a table's epoch is called as the pipeline's is
    named = "epoch" if part == "epochs" and isinstance(value, dict) else part
    with pytest.raises(TypeError, match=f"^{named} has an unknown form$"):
        parse(json.dumps({part: value}))


RIGHT: list[dict[str, Any]] = [
    {part: {} for part in OBJECTS},
    {part: {"a": {}} for part in ("ledger", "checks", "abandoned", "stamps", "xa")},
    {"xa": {"a": None}},
    {"epoch": 0, "epochs": {"a": 0, "b": 7}},
    {"recovery": None},
    {"recovery": {"run_id": "run:1"}},
    {"audit": [], "writes": ["t"]},
    {"lease": {"owner": "run:1", "expires_at": AT, "of a later version": 1}},
]


@pytest.mark.parametrize("parts", RIGHT, ids=str)
def test_what_has_its_form_is_read_as_it_stands_and_what_is_absent_is_empty(parts: dict[str, Any]) -> None:
    assert parse(json.dumps(parts)) == {**EMPTY, "writes": [], **parts}


@pytest.mark.parametrize(
    "lease", [{}, [], "x", 7, {"owner": "run:1"}, {"owner": "run:1", "expires_at": "2026-01-01T00:00:00"}], ids=str
)
def test_a_lease_that_says_no_time_is_refused(lease: object) -> None:
    with pytest.raises((TypeError, ValueError, KeyError)):
        parse(json.dumps({"lease": lease}))


def test_of_several_faults_one_is_named_and_always_the_same() -> None:
    with pytest.raises(TypeError, match=r"^checks has"):
        parse(json.dumps({"xa": 1, "ledger": 1, "checks": 1}))


@pytest.mark.parametrize("text", ["[]", "7", '"x"', "null"])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(TypeError, match="it is no JSON object"):
        parse(text)


def test_a_document_of_a_newer_version_is_told_from_a_broken_one() -> None:
    with pytest.raises(UnknownFormatError, match="its format is 4"):
        parse('{"format": 4, "ledger": 1}')


def test_an_unreadable_document_is_refused_with_its_place_and_what_is_wrong(store: SqlControlStore) -> None:
    store.swap("shop", None, '{"ledger": []}')
    with pytest.raises(UnknownStateError, match=r"the control table holds state that cannot be read: ledger has") as no:
        Control(store, "shop").state()
    assert no.value.where == store.place("shop")
    assert "Restore its newest readable state." in str(no.value)


def test_facts_of_an_unknown_form_are_refused_too(store: SqlControlStore) -> None:
    store.swap("shop", None, json.dumps({"ledger": {REFUSED: {ORDERS: {"tries": "many"}}}}))
    with pytest.raises(UnknownStateError, match="holds state that cannot be read"):
        Control(store, "shop").facts()


def test_a_run_whose_entry_cannot_be_read_is_named(store: SqlControlStore) -> None:
    store.swap("shop", None, json.dumps({"ledger": {"run:1": {"step:verify": 7}}}))
    with pytest.raises(UnknownStateError, match="holds an entry of run run:1 that cannot be read"):
        Control(store, "shop").entry("run:1")


# --- the text ---------------------------------------------------------------------------------------------------------------


def test_a_document_is_stored_with_its_format_without_blanks_and_in_the_order_of_age() -> None:
    """Who looks into the table reads names as they are written; the ledger's order says which run was noted last."""
    document = {**EMPTY, "ledger": {"z": {"Grün": 1}, "a": {}}}
    text = dump(document)
    assert text.startswith('{"format":3,"epoch":0,')
    assert '"ledger":{"z":{"Grün":1},"a":{}}' in text
    assert parse(text) == {**document, "writes": []}
    assert list(parse(text)["ledger"]) == ["z", "a"]


# --- how much is kept -------------------------------------------------------------------------------------------------------


def test_lasting_notes_take_no_runs_place_and_outlive_all_runs(control: Control) -> None:
    control.note_server("first")
    for number in range(KEEP_RUNS + 5):
        control.ledger_set(f"apply:{number}", "step:apply_changes", {})
    control.ledger_set(REFUSED, ORDERS, {"why": "DROP COLUMN"})
    ledger = control.state()["ledger"]
    assert (list(ledger[SERVERS]), list(ledger[REFUSED])) == (["first"], [ORDERS])
    assert [run for run in ledger if run.startswith("apply:")] == [f"apply:{n}" for n in range(5, KEEP_RUNS + 5)]


@pytest.mark.parametrize("kind", ["epoch", "decision", "check", "repair", "step:apply_changes"])
def test_of_each_kind_of_run_the_newest_are_kept_and_the_open_recovery_always(kind: str) -> None:
    runs: dict[str, Any] = {f"run:{n}": {kind: {}} for n in range(KEEP_RUNS + 3)}
    before: dict[str, Any] = {**EMPTY, "writes": []}
    assert list(written({**EMPTY, "ledger": runs}, before, "t")["ledger"]) == list(runs)[3:]
    open_ = {**EMPTY, "ledger": runs, "recovery": {"run_id": "run:0"}}
    assert list(written(open_, before, "t")["ledger"]) == ["run:0", *list(runs)[3:]]


def test_a_recovery_that_was_diagnosed_first_is_kept_as_a_recovery() -> None:
    """It has a decision too, and nightly runs have decisions by the dozen."""
    runs = {"r": {"decision": {}, "epoch": 1}, **{f"d:{n}": {"decision": {}} for n in range(KEEP_RUNS)}}
    assert list(written({**EMPTY, "ledger": runs}, {**EMPTY, "writes": []}, "t")["ledger"]) == list(runs)


def test_the_newest_writes_are_known_by_their_tokens() -> None:
    before = {**EMPTY, "writes": [str(n) for n in range(KEEP_WRITES)]}
    assert written(EMPTY, before, "new")["writes"] == [*before["writes"][1:], "new"]


def test_a_note_moves_its_run_to_the_end_and_an_epoch_in_place_does_not() -> None:
    ledger = {"a": {"x": 1}, "b": {}}
    assert list(noted(ledger, "a", {"y": 2}).items()) == [("b", {}), ("a", {"x": 1, "y": 2})]
    assert list(in_place(ledger, "a", 4).items()) == [("a", {"x": 1, "epoch": 4}), ("b", {})]
    assert list(in_place(ledger, "c", 4)) == ["a", "b", "c"]


# --- the end of a recovery --------------------------------------------------------------------------------------------------

DOUBT = {"server_uuid": "1", "started_at": 7.0, "prepares": 1, "rollbacks": 0}
OPEN: dict[str, Any] = {
    **EMPTY,
    "epoch": 4,
    "recovery": {
        "run_id": "r",
        "published": {ORDERS: 1},
        "verified": {ORDERS: {"xa": DOUBT}, CUSTOMERS: {"xa": DOUBT}},
    },
    "ledger": {"r": {"epoch": 4, "step:snapshot": {"seconds": 3}}, "other": {"epoch": 3}},
    "abandoned": {ORDERS: {"who": "ann"}, CUSTOMERS: {"who": "bob"}},
    "audit": [{"who": "ann"}],
}


def test_a_closed_recovery_leaves_when_it_ended_and_what_it_proved_of_the_tables_it_published() -> None:
    assert closed(OPEN, "r", "closed", AT) == {
        **OPEN,
        "recovery": None,
        "ledger": {
            "other": {"epoch": 3},
            "r": {"epoch": 4, "step:snapshot": {"seconds": 3}, "recovery": "closed", "closed_at": AT},
            RECOVERED: {"run_id": "r", "closed_at": AT, "read_seconds": 3.0},
        },
        "xa": {ORDERS: DOUBT},
        "abandoned": {CUSTOMERS: {"who": "bob"}},
    }


def test_one_that_was_given_up_is_not_the_last_that_recovered() -> None:
    after = closed(OPEN, "r", "abandoned", AT)
    assert RECOVERED not in after["ledger"]
    assert (after["ledger"]["r"]["recovery"], after["ledger"]["r"]["closed_at"]) == ("abandoned", AT)


def test_one_that_published_nothing_settles_nothing() -> None:
    after = closed({**OPEN, "recovery": {"run_id": "r"}}, "r", "closed", AT)
    assert (after["abandoned"], after["xa"], after["recovery"]) == (OPEN["abandoned"], {}, None)


@pytest.mark.parametrize("abandoned", [{}, None])
def test_tables_that_are_published_are_no_longer_given_up_and_others_are(abandoned: Any) -> None:
    assert recovered(OPEN, [ORDERS])["abandoned"] == {CUSTOMERS: {"who": "bob"}}
    assert recovered({"epoch": 4, "abandoned": abandoned}, [ORDERS]) == {"epoch": 4, "abandoned": {}}
    assert recovered({"epoch": 4}, [ORDERS]) == {"epoch": 4, "abandoned": {}}


@pytest.mark.parametrize(
    ("entries", "seconds"), [({}, None), ({"step:snapshot": None}, None), ({"step:snapshot": {"seconds": 0}}, 0.0)]
)
def test_a_snapshot_that_is_not_noted_took_no_known_time(entries: Any, seconds: float | None) -> None:
    assert read_seconds(entries) == seconds
    assert read_before({RECOVERED: {"read_seconds": seconds}}) == seconds
    assert read_before({}) is None


# --- XA -----------------------------------------------------------------------------------------------------------------------


def test_inv_32_a_document_of_before_has_its_doubts_in_the_nightly_checks_since_the_last_recovery() -> None:
    later = {**DOUBT, "prepares": 9}
    document: dict[str, Any] = {
        **EMPTY,
        "ledger": {RECOVERED: {"closed_at": "2026-01-02"}},
        "checks": {
            "before": {"at": "2026-01-01", "xa": DOUBT},
            "at": {"at": "2026-01-02", "xa": DOUBT},
            "since": {"at": "2026-01-03", "xa": DOUBT},
            "none": {"at": "2026-01-03", "xa": None},
            "own": {"at": "2026-01-03", "xa": DOUBT},
        },
        "xa": {"own": later},
    }
    states = compared_xa(document)
    assert {name: state.prepares for name, state in states.items()} == {"since": 1, "own": 9}
    # a table that has a doubt there keeps it through a comparison that does not prove it equal
    assert with_xa(document, {"since": later, "before": later}, [])["xa"] == {"own": later, "before": later}
    assert with_xa(document, {"since": later, "none": None}, ["since", "none"])["xa"] == {"own": later, "since": later}


# --- what each write leaves -------------------------------------------------------------------------------------------------


def test_what_a_recovery_is_opened_with_is_read_again(control: Control) -> None:
    assert opened(control, problem="GTID_PURGED", moves=False) == 1
    recovery = control.recovery(read_position)
    assert recovery is not None
    assert (recovery.run_id, recovery.epoch, recovery.opened_at, recovery.problem) == ("run:1", 1, AT, "GTID_PURGED")
    assert (recovery.tables, recovery.strategy, recovery.offset_kept) == ((ORDERS, CUSTOMERS), FULL, True)
    assert control.facts().recovery == OpenFacts("run:1", AT, "GTID_PURGED", FULL, (ORDERS, CUSTOMERS), True)


def test_a_new_epoch_within_a_recovery_voids_what_was_published_and_keeps_the_rest(control: Control) -> None:
    opened(control, problem="GTID_PURGED")
    staged = {ORDERS: StagedTable("s", 1, 2)}
    before = control.change_recovery("run:1", lambda now: now.staged(staged).published_as({ORDERS: 2}), read_position)
    assert control.raise_epoch("run:1") == 2
    assert control.recovery(read_position) == replace(before, epoch=2, published={})
    assert control.state()["epochs"] == {"*": 2}


def test_a_recovery_in_place_of_a_detour_asks_its_epoch_of_every_table(control: Control) -> None:
    opened(control, "run:0", moves=False)
    control.close_recovery("run:0")
    control.open_recovery("run:1", tables=[], strategy=DETOUR, raises=False)
    before = control.recovery(read_position)
    decision = Decision("GTID_PURGED", FULL, (ORDERS,), deletes={ORDERS: 3}, needs_approval=True)
    control.supersede(decision, read_position)
    state = control.state()
    assert before is not None
    assert control.recovery(read_position) == before.superseded(decision, 2)
    assert (state["epoch"], state["epochs"], state["ledger"]["run:1"]["epoch"]) == (2, {"*": 2}, 2)
    assert [control.facts().required.of(table) for table in (ORDERS, CUSTOMERS)] == [2, 2]


def test_a_line_of_the_audit_says_who_did_what_when_and_both_values(control: Control) -> None:
    control.audit("ann", "offset", {"pos": 1}, {"pos": 2})
    assert control.state()["audit"] == [
        {"at": AT, "who": "ann", "what": "offset", "from": {"pos": 1}, "to": {"pos": 2}}
    ]


def test_giving_tables_up_says_so_in_the_audit_and_in_the_facts(control: Control) -> None:
    opened(control)
    assert control.abandon([ORDERS], "ann", "it was dropped", read_position) == (ORDERS,)
    line = {
        "at": AT, "who": "ann", "what": "abandon run:1", "from": [ORDERS, CUSTOMERS], "to": "it was dropped",
    }  # fmt: skip
    note = {"at": AT, "who": "ann", "reason": "it was dropped", "run_id": "run:1"}
    assert control.state()["audit"] == [line]
    assert control.facts().abandoned == {ORDERS: note}
    assert control.abandon([], "ann", "all of it", read_position) == (CUSTOMERS,)
    assert control.state()["recovery"] is None


def test_a_lease_says_whose_it_is_until_when_of_which_dag_and_for_how_long(control: Control) -> None:
    first = control.acquire("run:1", 60, dag_id="cdc_recovery")
    assert first == Lease("run:1", "2026-01-01T12:31:15.123+00:00", "cdc_recovery", 60, first.renewal)
    again = control.renew("run:1", 90)
    assert again == Lease("run:1", "2026-01-01T12:31:45.123+00:00", "cdc_recovery", 90, again.renewal)
    assert len({first.renewal, again.renewal, ""}) == 3  # who watches it sees that it was renewed
    assert control.facts().lease == again


def test_who_asks_for_the_lease_is_shown_the_open_recovery_and_may_refuse(control: Control) -> None:
    shown: list[OpenFacts | None] = []
    control.acquire("a", 60, admit=shown.append)
    opened(control)
    control.acquire("a", 60, admit=shown.append)
    assert [one and one.run_id for one in shown] == [None, "run:1"]


def test_a_diagnosis_is_given_what_was_noted(control: Control) -> None:
    control.note_server("uuid-1")
    control.note_server("uuid-2")
    control.ledger_set(REFUSED, ORDERS, {"why": "DROP COLUMN", "at": AT, "tries": 2, "stamp": {"epoch": 1}})
    control.ledger_set("run:1", "step:snapshot", {"seconds": 12.5})
    opened(control)
    control.close_recovery("run:1")
    facts = control.facts()
    assert (facts.epoch, facts.recovery, facts.lease, facts.epochs) == (1, None, None, {"*": 1})
    assert (facts.closed_at, facts.read_seconds, facts.servers) == (AT, 12.5, ("uuid-1", "uuid-2"))
    assert facts.refused == {ORDERS: RefusedTable("DROP COLUMN", AT, 2, {"epoch": 1})}
    assert control.state()["ledger"][SERVERS]["uuid-1"] == "2026-01-01T12:30:15+00:00"


def test_how_a_recovery_ended_and_when_is_kept_with_its_run_and_closing_again_changes_nothing(control: Control) -> None:
    opened(control)
    control.close_recovery("run:1", "abandoned")
    before = control.state()
    assert before["ledger"] == {"run:1": {"epoch": 1, "recovery": "abandoned", "closed_at": AT}}
    control.close_recovery("run:1")
    assert control.state() == before


def test_a_comparison_is_kept_for_the_next_night_with_the_run_and_with_the_sources_state(control: Control) -> None:
    control.check_done("night:1", ORDERS, {"at": AT, "rows": 5}, {"verdict": "MATCH"})
    state = XaState("1/db/3306/x=/7", 7.0, 1, 0, ("x1",))
    control.compared(state, {ORDERS: Verdict.MATCH, CUSTOMERS: Verdict.MISMATCH})
    assert control.checks() == {ORDERS: {"at": AT, "rows": 5}}
    assert control.entry("night:1").checked == {ORDERS: CheckedTable.from_json(ORDERS, {"verdict": "MATCH"})}
    assert control.facts().compared_xa == {ORDERS: state, CUSTOMERS: state}


def test_stamps_are_read_again_by_one_reading_for_all_tables(control: Control) -> None:
    control.mirror_stamps({ORDERS: Stamp(1), CUSTOMERS: Stamp(2)})
    of = control.mirrored_stamps()
    assert [of(ORDERS), of(CUSTOMERS), of("shop.other")] == [Stamp(1), Stamp(2), None]


def test_everything_that_is_noted_of_a_run_is_in_its_entry() -> None:
    entry = LedgerEntry.from_json(
        {
            "epoch": 4,
            "recovery": "closed",
            "decision": {"diagnosis": {"code": "GTID_PURGED"}},
            "step:verify": {"started": AT, "seconds": 2, "state": "failed", "error": "E", "type": "SinkError"},
            "step:read": {"started": "2025", "seconds": 1.5, "state": "done", "parts": [["t", 0, 1]]},
            "check": {ORDERS: {"verdict": "MATCH"}},
            "unchanged": "nothing to do",
            "approved": "ann",
            "document": {"run_id": "r"},
        }
    )
    read = StepEntry("read", "2025", 1.5, "done", parts=(StepPart("t", 0.0, 1.0),))
    assert entry.steps == (read, StepEntry("verify", AT, 2.0, "failed", "E", "SinkError"))
    assert read.report == StepReport("read", 1.5, "done", "2025", (StepPart("t", 0.0, 1.0),))
    assert StepEntry.from_json("read", read.to_json()) == read
    assert (entry.epoch, entry.recovery, entry.unchanged, entry.approved) == (4, "closed", "nothing to do", "ann")
    assert (entry.decision.problem, entry.document) == ("GTID_PURGED", {"run_id": "r"})
    assert entry.checked[ORDERS].report.verdict is Verdict.MATCH


# --- writes whose answer is lost --------------------------------------------------------------------------------------------


class Losing:
    """A store whose first write lands, without an answer; `meanwhile` is what another does before the next look."""

    def __init__(self, store: SqlControlStore, meanwhile: Any = lambda: None, error: Exception | None = None) -> None:
        self._store, self._meanwhile, self.where, self.writes = store, meanwhile, "a store", 0
        self._error = error or UnknownStateError("no answer")

    def place(self, pipeline: str) -> str:
        return self._store.place(pipeline)

    def load(self, pipeline: str) -> Any:
        return self._store.load(pipeline)

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        self.writes += 1
        self._store.swap(pipeline, expected, text)
        if self.writes == 1:
            self._meanwhile()
            raise self._error


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controlling, "jittered", lambda _: None)


@pytest.mark.usefixtures("at_once")
def test_a_write_whose_answer_was_lost_is_not_made_twice(store: SqlControlStore) -> None:
    losing = Losing(store)
    Control(losing, "shop").audit("ann", "offset", 1, 2)
    assert (losing.writes, len(Control(store, "shop").state()["audit"])) == (1, 1)


@pytest.mark.usefixtures("at_once")
def test_what_a_change_returns_is_what_is_stored_also_if_another_changed_it_meanwhile(store: SqlControlStore) -> None:
    """The hold task writes in parallel with the chain."""
    other = Control(store, "shop")
    opened(other)

    def hold() -> None:
        other.change_recovery("run:1", lambda now: now.resumes("80 % there"), read_position)

    mine = Control(Losing(store, hold), "shop")
    after = mine.change_recovery("run:1", lambda now: replace(now, problem="X"), read_position)
    assert (after.problem, after.resuming) == ("X", "80 % there")
    assert after == other.recovery(read_position)
    assert other.change_recovery("run:1", lambda now: now, read_position) == after


def test_a_change_that_leaves_everything_as_it_is_is_not_written(store: SqlControlStore, control: Control) -> None:
    opened(control)
    before = store.load("shop")
    control.update(dict, "nothing")
    control.update(lambda _state: None, "nothing")
    assert store.load("shop") == before


def test_a_change_that_refuses_leaves_what_is_stored_whatever_it_did_to_its_copy(control: Control) -> None:
    opened(control)
    before = control.state()

    def refuse(state: dict[str, Any]) -> None:
        state["ledger"].clear()
        raise SinkError("no")

    with pytest.raises(SinkError):
        control.update(refuse, "x")
    assert control.state() == before


def test_what_callers_see_has_neither_tokens_nor_the_format(control: Control) -> None:
    opened(control)
    assert control.state().keys() == EMPTY.keys()
    assert documents.public({"writes": [], "format": 3, "epoch": 1}) == {"epoch": 1}
