"""Where an apply starts: from its stamp and the topic as it is now, or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import (
    RereadNeededError,
    SinkError,
    TransportError,
    UnknownStateError,
    UnreportedChangeError,
)
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import Compaction, TopicOffsets, TopicState
from airflow_cdc.decisions.apply import start as apply_start
from airflow_cdc.decisions.apply.applied import APPLIED, Applied, Highest, LastChange
from airflow_cdc.decisions.apply.ddl import Ddl
from airflow_cdc.decisions.apply.schema_change import SchemaChange
from airflow_cdc.decisions.apply.start import (
    SNAPSHOT_AT,
    DdlLog,
    Start,
    check_made_anew,
    check_same_ddl,
    check_same_topic,
    is_behind,
    plan_ddl,
    plan_start,
)
from airflow_cdc.decisions.table_id import table_id
from airflow_cdc.sources.mysql.position import covered, read_position
from airflow_cdc.sources.mysql.schema_steps import judge_ddl
from airflow_cdc.sources.mysql.types import with_words
from tests.unit.tables import col

KEYED = Table("shop", "orders", (col("id", 1, "bigint", "bigint", nullable=False),), ("id",))
KEYLESS = Table("shop", "events", (col("n", 1, "int", "int"),))
W: dict[str, Any] = {
    "format": 2,
    "position": {
        "kind": "mysql",
        "file": "bin.000003",
        "pos": 500,
        "gtids": "75ac0c48-0000-11f0-8000-000000000001:1-50",
        "server_id": 1,
    },
    "server": "75ac0c48-0000-11f0-8000-000000000001",
    "taken_at": "2026-11-21T10:00:00+00:00",
}
# as it stands in the snapshots that were written before
FINGERPRINT = "cdc.fingerprint"
STATE = TopicState("t", "id-1", {0: (5, 20), 1: (0, 8)})


def stamp(offsets: dict[str, int] | None = None, epoch: int = 3, topic_id: str = "id-1") -> Stamp:
    known = {} if offsets is None else {"t": TopicOffsets(topic_id, {int(p): n for p, n in offsets.items()})}
    return Stamp(epoch, W, known, 77)


def plan(table: Table = KEYED, **changes: Any) -> Start:
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
        read_position=read_position,
    )


def check_ddl(start: Start, statements: Sequence[Ddl], number: str | None, stored: Table | None, **how: bool) -> Start:
    """With MySQL's own rules."""
    return apply_start.check_ddl(
        start,
        statements,
        number,
        stored,
        covered=covered(start.watermark),
        judge=judge_ddl,
        **how,
    )


def test_from_the_stamp_to_the_end_asked_for() -> None:
    start = plan()
    assert start.ranges == {0: (10, 15), 1: (8, 8)}
    assert start.begins == {0: 5, 1: 0}
    assert start.watermark is not None
    assert start.watermark.to_json() == W
    assert not start.empty
    assert plan(upto={0: 10}).empty


def test_an_end_before_the_stamp_goes_nowhere() -> None:
    start = plan(upto={0: 7, 1: 2})
    assert start.empty
    assert Stamp.from_summary(start.summary(Applied())) == Stamp(3, W, {"t": TopicOffsets("id-1", {0: 10, 1: 8})})


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
        ({"stamp": stamp({"0": 10, "1": 8}, topic_id="old")}, "its id is id-1, the stamp's is old"),
        ({"stamp": stamp({"0": 10})}, "2 partitions, the stamp has 1"),
        ({"state": None}, "no longer exists"),
        ({"stamp": stamp({"0": 4, "1": 8})}, "records 4 to 4 were removed"),
        ({"stamp": stamp({"0": 21, "1": 8})}, "ends at 20, but apply has already reached 21"),
    ],
)
def test_inv_16_a_topic_that_is_not_the_stamped_one(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TransportError, match=message):
        plan(**changes)


def test_inv_16_a_topic_absent_from_the_fence_starts_at_zero() -> None:
    fresh = TopicState("t", "id-1", {0: (0, 4)})
    assert plan(stamp=stamp(None), state=fresh, upto={0: 4}).ranges == {0: (0, 4)}
    with pytest.raises(TransportError, match="records 0 to 4 were removed"):
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
    assert carried.offsets["t"].next == {0: 3}


def test_what_the_last_commit_remembers_is_carried_on() -> None:
    applied = Applied({"0": 1}, {"u": Highest(5, 6, 7, "1/bin", 3)}, {"0": LAST}, 1)
    start = plan(KEYLESS, summary={APPLIED: applied.to_text(), FINGERPRINT: "f1"})
    assert replace(start.applied, ddl=()) == applied
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
    at = {**W, "position": {**W["position"], "gtids": W["position"]["gtids"].replace("1-50", "1-60")}}
    start = plan(KEYLESS, summary={SNAPSHOT_AT: json.dumps(at)})
    assert start.watermark is not None
    assert str(start.watermark).endswith("1-60")
    carried = start.summary(start.applied)
    assert json.loads(carried[SNAPSHOT_AT]) == at
    again = Stamp.from_summary(carried)
    assert again is not None
    assert again.watermark == W
    assert SNAPSHOT_AT not in plan(KEYED).summary(Applied())


def test_inv_19_a_mirrored_stamp_is_not_enough_for_a_table_without_a_key() -> None:
    with pytest.raises(UnknownStateError, match="without a key its rows do not show repeats"):
        plan(KEYLESS, summary={})
    assert plan(KEYED, summary={}).ranges[0] == (10, 15)


def test_what_an_older_version_remembered_is_refused_by_its_format() -> None:
    old = {"base": {}, "high": {"u": [5, 6, 7, 1]}, "last": {"0": {"file": "f"}}, "snapshots": 0}
    with pytest.raises(UnknownStateError, match=r"cdc\.applied is of format 1, and this version reads format 2"):
        plan(summary={APPLIED: json.dumps(old)})
    with pytest.raises(UnknownStateError, match="of format 3"):
        plan(summary={APPLIED: json.dumps({**json.loads(Applied().to_text()), "format": 3})})


LAST = LastChange("1/bin", (9, 500, 0), "1/bin", 9, None, 1000)


def last(**changes: Any) -> LastChange:
    """LAST, elsewhere: `n` is the number of the log file, `origin` the server's series of files."""
    n, pos, origin = changes.get("n", 9), changes.get("pos", 500), changes.get("origin", "1/bin")
    return LastChange(origin, (n, pos, 0), origin, n, None, changes.get("ts_ms", 1000))


@pytest.mark.parametrize(
    ("change", "behind"),
    [
        ({}, False),
        ({"pos": 499}, True),
        ({"pos": 501}, False),
        ({"n": 10, "pos": 4}, False),
        ({"n": 8, "pos": 900}, True),
        ({"pos": 499, "ts_ms": 1001}, False),  # later in time: not a repeat, whatever its position
        ({"pos": 499, "origin": "2/bin"}, False),
        ({"pos": 499, "n": 1, "origin": "1/other"}, False),
    ],
)
def test_inv_18_behind_is_older_in_every_respect(change: dict[str, Any], behind: bool) -> None:
    assert is_behind({"0": LAST}, {"0": last(**change)}) is behind
    assert not is_behind({}, {"0": last(**change)})


def test_inv_18_transactions_whose_numbers_do_not_rise_are_ordered_by_the_log() -> None:
    """A member of a group commits in a block of numbers of its own."""
    before = LastChange("u", (1_000_007, 500, 0), "1/bin", 9, "u:1000007", 1000)
    after = LastChange("u", (8, 600, 0), "1/bin", 9, "u:8", 1000)
    assert not is_behind({"0": before}, {"0": after})
    assert is_behind({"0": after}, {"0": before})


# --- topics without ids ----------------------------------------------------------------------------------------------

CHANGE = LastChange("u", (60, 900, 0), "1/bin", 3, "u:60", 0)
NEWEST = Applied(last={"0": CHANGE._replace(ts_ms=5)}).to_text()


@pytest.mark.parametrize(("stamped_id", "now"), [("", ""), ("", "id-1"), ("id-1", "")])
def test_inv_16_an_id_that_is_not_known_equals_nothing(stamped_id: str, now: str) -> None:
    state = TopicState("t", now, {0: (5, 20), 1: (0, 8)})
    start = plan(stamp=stamp({"0": 10, "1": 0}, topic_id=stamped_id), state=state, summary={APPLIED: NEWEST})
    assert start.unproven
    check_same_topic(start, {0: [(CHANGE._replace(place=(60, 1, 0)), False), (CHANGE, False)]})
    other = CHANGE._replace(place=(61, 900, 0), transaction="u:61")
    others: list[dict[int, list[tuple[LastChange, bool]]]] = [{}, {0: []}, {0: [(other, True)]}]
    for earlier in others:
        with pytest.raises(TransportError, match="have no topic ids"):
            check_same_topic(start, earlier)


def test_inv_16_where_nothing_was_applied_yet_all_before_the_stamp_is_before_the_watermark() -> None:
    start = plan(stamp=stamp({"0": 10, "1": 0}, topic_id=""), summary={})
    check_same_topic(start, {0: [(CHANGE, True)]})
    with pytest.raises(TransportError, match="have no topic ids"):
        check_same_topic(start, {0: [(CHANGE, True), (CHANGE, False)]})
    # nothing is kept before the stamp: a topic made anew would begin at 0
    check_same_topic(plan(stamp=stamp({"0": 5, "1": 0}, topic_id="")), {})


def test_a_topic_of_which_nothing_was_read_needs_no_proof() -> None:
    state = TopicState("t", "", {0: (0, 20), 1: (0, 8)})
    assert not plan(stamp=stamp({"0": 0, "1": 0}, topic_id=""), state=state).unproven
    assert not plan(stamp=stamp(None), state=state).unproven
    assert not plan().unproven


def test_inv_16_ddl_of_a_topic_without_an_id_is_known_by_the_last_statement() -> None:
    stamped = Stamp(3, W, {"p": TopicOffsets("", {0: 4})})
    log = plan_ddl(stamped, "p", replace(DDL_STATE, id=""), {0: 7})
    assert log.before == {0: (0, 4)}
    start = plan(ddl=log, summary={APPLIED: Applied(ddl=["a", "b"]).to_text()})
    check_same_ddl(start, [statement("DROP TABLE x", at="b")])
    with pytest.raises(TransportError, match="it lacks the DDL that was judged last"):
        check_same_ddl(start, [statement("DROP TABLE x", at="c")])
    assert plan_ddl(Stamp(3, W, {}), "p", DDL_STATE, {0: 7}).before == {}


# --- DDL since the stamp ---------------------------------------------------------------------------------------------

DDL_STATE = TopicState("p", "id-p", {0: (0, 9)})


def statement(text: str, table: str = "shop.orders", at: str = "x") -> Ddl:
    return Ddl(frozenset({table}), text, at)


def test_the_log_of_schema_changes_is_read_from_the_stamp_and_from_its_beginning_if_not_in_it() -> None:
    stamped = Stamp(3, W, {"p": TopicOffsets("id-p", {0: 4})})
    assert plan_ddl(stamped, "p", DDL_STATE, {0: 7}).ranges == {0: (4, 7)}
    assert plan_ddl(Stamp(3, W, {}), "p", DDL_STATE, {0: 9}).ranges == {0: (0, 9)}
    assert plan_ddl(Stamp(3, W, {}), "p", None, {}).empty
    for state in (None, TopicState("p", "other", {0: (0, 9)})):
        with pytest.raises(TransportError, match="not the one that was stamped"):
            plan_ddl(stamped, "p", state, {0: 9})
    with pytest.raises(TransportError, match="records 4 to 5 were removed"):
        plan_ddl(stamped, "p", TopicState("p", "id-p", {0: (6, 9)}), {0: 9})


def test_the_next_stamp_knows_which_ddl_was_judged() -> None:
    start = plan(ddl=DdlLog("p", "id-p", {0: (4, 7)}), upto={0: 10, 1: 8})
    assert (start.empty, start.current) == (True, False)
    judged = check_ddl(start, [statement("ALTER TABLE t ADD KEY (a)")], "number 7", KEYED, truncates_seen=False)
    summary = judged.summary(judged.applied)
    again = Stamp.from_summary(summary)
    assert again is not None
    assert again.offsets["p"] == TopicOffsets("id-p", {0: 7})
    remembered = Applied.from_summary(summary)
    assert remembered is not None
    assert (remembered.ddl, remembered.table_id) == (["x"], "number 7")


@pytest.mark.parametrize("fingerprint", [None, KEYED.fingerprint])
@pytest.mark.parametrize("stored", [None, KEYED])
def test_inv_13_what_does_not_show_in_the_definition_is_refused(fingerprint: str | None, stored: Table | None) -> None:
    summary = {} if fingerprint is None else {FINGERPRINT: fingerprint}
    for text in ("ALTER TABLE t MODIFY a INT", "TRUNCATE t"):
        with pytest.raises(RereadNeededError, match=text):
            check_ddl(plan(summary=summary), [statement(text)], None, stored, truncates_seen=True)


def test_inv_30_the_first_statement_that_is_not_carried_is_named() -> None:
    start = plan(summary={FINGERPRINT: KEYED.fingerprint})
    harmless, hidden = statement("ALTER TABLE t ADD KEY (a)"), statement("ALTER TABLE t TRUNCATE PARTITION p")
    assert check_ddl(start, [harmless], None, KEYED, truncates_seen=True).applied.ddl == ["x"]
    with pytest.raises(RereadNeededError, match="TRUNCATE PARTITION"):
        check_ddl(start, [harmless, hidden], None, KEYED, truncates_seen=True)


def test_inv_30_rows_written_by_a_definition_that_is_not_known_are_not_followed() -> None:
    with pytest.raises(RereadNeededError, match="that topic is unknown"):
        check_ddl(plan(summary={FINGERPRINT: "older"}), [], None, None, truncates_seen=True)
    started = check_ddl(plan(), [], None, None, truncates_seen=True)
    assert started.change is None


def test_inv_30_a_definition_ahead_of_its_statement_waits() -> None:
    narrower = replace(KEYED, columns=(with_words(KEYED.columns[0], data_type="int", column_type="int"),))
    start = plan(summary={FINGERPRINT: narrower.fingerprint}, upto={0: 10, 1: 8})
    assert start.empty
    assert not start.current
    with pytest.raises(UnreportedChangeError, match="column id: bigint in the source"):
        check_ddl(start, [], None, narrower, truncates_seen=True)


def test_a_repeat_and_another_tables_ddl_mean_nothing() -> None:
    applied = Applied(ddl=["x"])
    start = plan(summary={APPLIED: applied.to_text(), FINGERPRINT: KEYED.fingerprint})
    at_w = {"origin": W["server"], "place": (50, 0, 0)}
    before_w = Ddl(frozenset({"shop.orders"}), "TRUNCATE t", "z", **at_w)
    for one in (statement("ALTER TABLE t DROP a"), statement("DROP TABLE t", "shop.other", "y"), before_w):
        assert check_ddl(start, [one], None, KEYED, truncates_seen=True).change == SchemaChange()


@pytest.mark.parametrize(
    ("number", "seen", "own", "anew"),
    [
        ("number 7", False, False, False),
        ("number 8", True, False, True),  # unless a truncate among the events says why
        ("number 8", True, True, False),  # a statement explains it, and a truncate would be an event
        (None, False, False, False),
    ],
)
def test_inv_13_a_table_that_was_made_anew(number: str | None, seen: bool, own: bool, anew: bool) -> None:
    start = plan(summary={APPLIED: Applied(table_id="number 7").to_text()})
    statements = [statement("ALTER TABLE t ADD KEY (a)")] if own else []
    judged = check_ddl(start, statements, number, KEYED, truncates_seen=seen)
    assert (judged.applied.table_id, judged.made_anew) == (number or "number 7", anew)
    check_made_anew(judged, 1)
    if anew:
        with pytest.raises(UnreportedChangeError, match="recreated"):
            check_made_anew(judged, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ALTER TABLE t ADD KEY (a)",
        "ALTER TABLE t COMMENT 'x'",
        "CREATE INDEX i ON t (a)",
        "ALTER TABLE t ENGINE=InnoDB",
    ],
)
def test_inv_13_a_truncate_that_is_not_sent_is_noticed_beside_any_other_statement(text: str) -> None:
    """What changes no number can't explain a changed one, and what rebuilds the table would hide the TRUNCATE."""
    start = plan(summary={APPLIED: Applied(table_id=table_id([7])).to_text()})
    own = [statement(text)] if text else []
    with pytest.raises(RereadNeededError, match="truncated or rebuilt"):
        check_ddl(start, own, table_id([8]), KEYED, truncates_seen=False)


def test_inv_13_an_added_partition_costs_no_reading_again() -> None:
    start = plan(summary={APPLIED: Applied(table_id=table_id([7, 8])).to_text()})
    own = [statement("ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (5000))")]
    judged = check_ddl(start, own, table_id([7, 8, 9]), KEYED, truncates_seen=False)
    assert judged.applied.table_id == table_id([7, 8, 9])


def test_inv_13_rows_that_are_all_compared_before_they_are_read_need_no_number() -> None:
    start = plan(summary={APPLIED: Applied(table_id=table_id([7])).to_text()})
    for seen in (True, False):
        judged = check_ddl(start, [], table_id([8]), KEYED, truncates_seen=seen, compared=True)
        assert (judged.applied.table_id, judged.made_anew) == (table_id([8]), False)


def test_null_is_decoded_where_ddl_forbade_it_only_later() -> None:
    loose = replace(KEYED, columns=(*KEYED.columns, col("n", 2, "int", "int", nullable=False)))
    start = replace(plan(loose), change=SchemaChange(never_null=("n",)))
    assert [column.nullable for column in start.decoded_as.columns] == [False, True]
    assert plan(loose).decoded_as is loose


@pytest.mark.parametrize(
    ("at_ms", "first", "lost"),
    [
        (0, 10, False),  # everything unread is young enough
        (0, 12, True),
        (999, 12, True),
        (1000, 12, False),  # what was appended since the last batch is not older than that
        (0, 20, True),  # nothing is young enough
        (5000, 12, False),
        (5001, 12, True),  # the last batch's clock was ahead, so that it says nothing
    ],
)
def test_inv_17_unread_records_older_than_the_tombstones_are_a_gap(at_ms: int, first: int, lost: bool) -> None:
    state = TopicState("t", "id-1", {0: (5, 20), 1: (0, 8)}, Compaction(5000, 1000, {0: first, 1: 8}))
    summary = {APPLIED: Applied(at_ms=at_ms).to_text()}
    if lost:
        with pytest.raises(TransportError, match=r"older than its tombstones are kept \(1970-01-01T00:00:01\+00:00\)"):
            plan(state=state, summary=summary)
    else:
        assert plan(state=state, summary=summary).applied.at_ms == 5000
    assert plan(state=state, summary=summary, upto={0: 10, 1: 8}).empty
