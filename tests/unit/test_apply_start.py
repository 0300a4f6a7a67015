"""Where an apply starts: from its stamp and the topic as it is now, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_cdc.core.apply_start import (
    APPLIED,
    FINGERPRINT,
    SNAPSHOT_AT,
    Applied,
    DdlLog,
    Start,
    check_ddl,
    is_behind,
    plan_ddl,
    plan_start,
)
from airflow_cdc.core.ddl import Ddl
from airflow_cdc.core.errors import SchemaError, SinkError, TransportError, UnknownStateError
from airflow_cdc.core.observation import Compaction, TopicState
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.table import ColumnDef, TableDef

KEYED = TableDef("shop", "orders", (ColumnDef("id", 1, "bigint", "bigint", nullable=False),), ("id",))
KEYLESS = TableDef("shop", "events", (ColumnDef("n", 1, "int", "int"),))
W: dict[str, Any] = {
    "server_uuid": "75ac0c48-0000-11f0-8000-000000000001",
    "file": "bin.000003",
    "pos": 500,
    "gtids": "75ac0c48-0000-11f0-8000-000000000001:1-50",
    "taken_at": "2026-11-21T10:00:00+00:00",
    "server_id": 1,
}
STATE = TopicState("t", "id-1", {0: (5, 20), 1: (0, 8)})


def stamp(offsets: dict[str, int] | None = None, epoch: int = 3, topic_id: str = "id-1") -> Stamp:
    known = {} if offsets is None else {"t": {"id": topic_id, "partitions": offsets}}
    return Stamp(epoch, W, known, 77)


def plan(table: TableDef = KEYED, **changes: Any) -> Start:
    given: dict[str, Any] = {
        "stamp": stamp({"0": 10, "1": 8}),
        "summary": {"x": "y"},
        "state": STATE,
        "upto": {0: 15, 1: 8},
        "epoch": 3,
        "ddl": DdlLog("p"),
    }
    given |= changes
    return plan_start(
        table,
        given["epoch"],
        given["stamp"],
        given["summary"],
        topic="t",
        state=given["state"],
        upto=given["upto"],
        ddl=given["ddl"],
    )


def test_from_the_stamp_to_the_end_asked_for() -> None:
    start = plan()
    assert start.ranges == {0: (10, 15), 1: (8, 8)}
    assert start.begins == {0: 5, 1: 0}
    assert start.watermark is not None
    assert start.watermark.to_json()["pos"] == 500
    assert not start.empty
    assert plan(upto={0: 10}).empty


def test_an_end_before_the_stamp_goes_nowhere() -> None:
    start = plan(upto={0: 7, 1: 2})
    assert start.empty
    assert Stamp.from_summary(start.summary(Applied())) == Stamp(
        3, W, {"t": {"id": "id-1", "partitions": {"0": 10, "1": 8}}}
    )


def test_inv_15_no_stamp_is_unknown() -> None:
    with pytest.raises(UnknownStateError, match="how far"):
        plan(stamp=None)


@pytest.mark.parametrize(("epoch", "why"), [(4, "unfinished"), (2, "reset")])
def test_inv_01_02_another_epoch_is_refused(epoch: int, why: str) -> None:
    with pytest.raises(SinkError, match=why):
        plan(epoch=epoch)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stamp": stamp({"0": 10, "1": 8}, topic_id="old")}, "its id is id-1, the stamped one old"),
        ({"stamp": stamp({"0": 10})}, "2 partitions, 1 when"),
        ({"state": None}, "does not exist any more"),
        ({"stamp": stamp({"0": 4, "1": 8})}, "records 4 to 4 are gone"),
        ({"stamp": stamp({"0": 21, "1": 8})}, "ends at 20, but 21"),
    ],
)
def test_inv_16_a_topic_that_is_not_the_stamped_one(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TransportError, match=message):
        plan(**changes)


def test_inv_16_a_topic_absent_from_the_fence_starts_at_zero() -> None:
    fresh = TopicState("t", "id-1", {0: (0, 4)})
    assert plan(stamp=stamp(None), state=fresh, upto={0: 4}).ranges == {0: (0, 4)}
    with pytest.raises(TransportError, match="records 0 to 4 are gone"):
        plan(stamp=stamp(None))
    nothing = plan(stamp=stamp(None), state=None)
    assert nothing.empty
    assert Stamp.from_summary(nothing.summary(Applied())) == Stamp(3, W, {})


def test_brokers_without_topic_ids() -> None:
    old = TopicState("t", "", {0: (0, 4)})
    start = plan(stamp=stamp({"0": 1}, topic_id=""), state=old, upto={0: 3})
    assert start.ranges == {0: (1, 3)}
    carried = Stamp.from_summary(start.summary(Applied()))
    assert carried is not None
    assert carried.offsets["t"]["partitions"] == {"0": 3}


def test_what_the_last_commit_remembers_is_carried_on() -> None:
    applied = Applied({"0": 1}, {"u": [5, 6, 7, 1]}, {"0": {"file": "f"}}, 1)
    start = plan(KEYLESS, summary={APPLIED: applied.to_text(), FINGERPRINT: "f1"})
    assert start.applied.to_text() == applied.to_text()
    assert start.fingerprint == "f1"
    assert start.past == {0: (1, 10), 1: (8, 8)}
    with pytest.raises(UnknownStateError, match=APPLIED):
        plan(summary={APPLIED: "{"})


def test_the_first_batch_after_a_recovery_knows_the_definition_that_was_read() -> None:
    ledger = ChunkLedger("w", "u", "the-fingerprint", complete=True)
    start = plan(summary=ledger.to_summary())
    assert start.fingerprint == "the-fingerprint"
    assert start.applied.base == {"0": 10, "1": 8}


def test_inv_19_a_table_without_a_key_starts_at_its_own_read_view() -> None:
    at = {**W, "gtids": W["gtids"].replace("1-50", "1-60")}
    start = plan(KEYLESS, summary={SNAPSHOT_AT: json.dumps(at)})
    assert start.watermark is not None
    assert str(start.watermark.gtids).endswith("1-60")
    carried = start.summary(start.applied)
    assert json.loads(carried[SNAPSHOT_AT])["gtids"] == at["gtids"]
    again = Stamp.from_summary(carried)
    assert again is not None
    assert again.watermark == W
    assert SNAPSHOT_AT not in plan(KEYED).summary(Applied())


def test_inv_19_a_mirrored_stamp_is_not_enough_for_a_table_without_a_key() -> None:
    with pytest.raises(UnknownStateError, match="no key to tell repeats"):
        plan(KEYLESS, summary={})
    assert plan(KEYED, summary={}).ranges[0] == (10, 15)


LAST = {"server_id": 1, "file": "bin.000009", "pos": 500, "row": 0, "ts_ms": 1000, "gtid": None}


@pytest.mark.parametrize(
    ("change", "behind"),
    [
        ({}, False),
        ({"pos": 499}, True),
        ({"pos": 501}, False),
        ({"file": "bin.000010", "pos": 4}, False),
        ({"file": "bin.000008", "pos": 900}, True),
        ({"pos": 499, "ts_ms": 1001}, False),  # later in time: not a repeat, whatever its position
        ({"pos": 499, "server_id": 2}, False),
        ({"pos": 499, "file": "other.000001"}, False),
    ],
)
def test_inv_18_behind_is_older_in_every_respect(change: dict[str, Any], behind: bool) -> None:
    assert is_behind({"0": LAST}, {"0": {**LAST, **change}}) is behind
    assert not is_behind({}, {"0": {**LAST, **change}})


# --- DDL since the stamp ---------------------------------------------------------------------------------------------

DDL_STATE = TopicState("p", "id-p", {0: (0, 9)})


def statement(text: str, table: str = "shop.orders", at: str = "x") -> Ddl:
    return Ddl(frozenset({table}), text, at)


def test_the_log_of_schema_changes_is_read_from_the_stamp_and_from_its_beginning_if_not_in_it() -> None:
    stamped = Stamp(3, W, {"p": {"id": "id-p", "partitions": {"0": 4}}})
    assert plan_ddl(stamped, "p", DDL_STATE, {0: 7}).ranges == {0: (4, 7)}
    assert plan_ddl(Stamp(3, W, {}), "p", DDL_STATE, {0: 9}).ranges == {0: (0, 9)}
    assert plan_ddl(Stamp(3, W, {}), "p", None, {}).empty
    for state in (None, TopicState("p", "other", {0: (0, 9)})):
        with pytest.raises(TransportError, match="not the one that was stamped"):
            plan_ddl(stamped, "p", state, {0: 9})
    with pytest.raises(TransportError, match="records 4 to 5 are gone"):
        plan_ddl(stamped, "p", TopicState("p", "id-p", {0: (6, 9)}), {0: 9})


def test_the_next_stamp_knows_which_ddl_was_judged() -> None:
    start = plan(ddl=DdlLog("p", "id-p", {0: (4, 7)}), upto={0: 10, 1: 8})
    assert (start.empty, start.current) == (True, False)
    judged = check_ddl(start, [statement("ALTER TABLE t ADD KEY (a)")], "number 7", truncates_seen=False)
    summary = judged.summary(judged.applied)
    again = Stamp.from_summary(summary)
    assert again is not None
    assert again.offsets["p"] == {"id": "id-p", "partitions": {"0": 7}}
    remembered = Applied.from_summary(summary)
    assert remembered is not None
    assert (remembered.ddl, remembered.table_id) == (["x"], "number 7")


@pytest.mark.parametrize("fingerprint", [None, KEYED.fingerprint])
def test_inv_13_what_does_not_show_in_the_definition_is_refused(fingerprint: str | None) -> None:
    summary = {} if fingerprint is None else {FINGERPRINT: fingerprint}
    with pytest.raises(SchemaError, match="without events by ALTER TABLE t MODIFY a INT"):
        check_ddl(plan(summary=summary), [statement("ALTER TABLE t MODIFY a INT")], None, truncates_seen=True)


def test_inv_13_what_shows_is_left_to_the_definition_and_what_was_hidden_is_not() -> None:
    start = plan(summary={FINGERPRINT: "older"})
    added = statement("ALTER TABLE t ADD a INT")
    assert check_ddl(start, [added], None, truncates_seen=True).applied.ddl == ["x"]
    with pytest.raises(SchemaError, match="TRUNCATE PARTITION"):
        check_ddl(start, [added, statement("ALTER TABLE t TRUNCATE PARTITION p")], None, truncates_seen=True)


def test_a_repeat_and_another_tables_ddl_mean_nothing() -> None:
    applied = Applied(ddl=["x"])
    start = plan(summary={APPLIED: applied.to_text(), FINGERPRINT: KEYED.fingerprint})
    check_ddl(start, [statement("ALTER TABLE t DROP a")], None, truncates_seen=True)
    check_ddl(start, [statement("DROP TABLE t", "shop.other", "y")], None, truncates_seen=True)


@pytest.mark.parametrize(
    ("table_id", "seen", "own", "passes"),
    [
        ("number 7", False, False, True),
        ("number 8", False, False, False),
        ("number 8", True, False, True),  # truncates come as events
        ("number 8", False, True, True),  # a statement explains it
        (None, False, False, True),
    ],
)
def test_inv_13_a_table_that_was_made_anew(table_id: str | None, seen: bool, own: bool, passes: bool) -> None:
    start = plan(summary={APPLIED: Applied(table_id="number 7").to_text()})
    statements = [statement("ALTER TABLE t ADD KEY (a)")] if own else []
    if passes:
        assert check_ddl(start, statements, table_id, truncates_seen=seen).applied.table_id == (table_id or "number 7")
        return
    with pytest.raises(SchemaError, match="truncated or rebuilt"):
        check_ddl(start, statements, table_id, truncates_seen=seen)


@pytest.mark.parametrize(
    ("at_ms", "first", "lost"),
    [
        (0, 10, False),  # everything unread is young enough
        (0, 12, True),
        (999, 12, True),
        (1000, 12, False),  # what was appended since the last batch is not older than that
        (0, 20, True),  # nothing is young enough
    ],
)
def test_inv_17_unread_records_older_than_the_tombstones_are_a_gap(at_ms: int, first: int, lost: bool) -> None:
    state = TopicState("t", "id-1", {0: (5, 20), 1: (0, 8)}, Compaction(5000, 1000, {0: first, 1: 8}))
    summary = {APPLIED: Applied(at_ms=at_ms).to_text()}
    if lost:
        with pytest.raises(TransportError, match="older than its tombstones are kept"):
            plan(state=state, summary=summary)
    else:
        assert plan(state=state, summary=summary).applied.at_ms == 5000
    assert plan(state=state, summary=summary, upto={0: 10, 1: 8}).empty
