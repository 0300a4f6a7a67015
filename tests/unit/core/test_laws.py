"""Laws of what is written and read again: durations and limits, the papers of a recovery, stamps, epochs, coverage."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_cdc.core import codec
from airflow_cdc.core.amounts import LONGEST_SECONDS, Limit, parse_duration, span, written
from airflow_cdc.core.codec import plain
from airflow_cdc.core.epochs import EVERY, Epochs
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.lease import Lease
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.core.position import NOTHING, Covered
from airflow_cdc.core.recovery import HistoryDoubts, HoldAnswer, OpenRecovery, ReplicaVisit, StagedTable, VerifiedTable
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.kinds import read_position
from tests.unit.builders import WATERMARK
from tests.unit.core.test_report import TABLE

# --- durations and limits --------------------------------------------------------------------------------------------------

SECONDS = st.integers(0, LONGEST_SECONDS)


@given(SECONDS)
def test_a_duration_is_read_as_it_was_written(seconds: int) -> None:
    assert parse_duration(written(seconds)) == parse_duration(seconds) == parse_duration(str(seconds)) == seconds


@given(
    st.lists(st.tuples(st.integers(0, 100), st.sampled_from("smhd")), min_size=1, max_size=5),
    st.sampled_from(["", " ", "  "]),
)
def test_the_pieces_of_a_duration_add_up_in_any_order(pieces: list[tuple[int, str]], between: str) -> None:
    size = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
    text = between.join(f"{number}{between}{unit.upper()}" for number, unit in pieces)
    assert parse_duration(text) == sum(number * size[unit] for number, unit in pieces)


@given(st.integers(LONGEST_SECONDS + 1, 10**30))
def test_what_lasts_longer_than_a_hundred_years_is_refused(seconds: int) -> None:
    with pytest.raises(ConfigError, match="hundred years"):
        parse_duration(seconds)


@pytest.mark.parametrize("text", ["", "h", "1x", "1h?", "-1s", "1.5h", "1h 2", "²h", "٣d", "1h;", "True"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a duration"):
        parse_duration(text)


@given(st.floats(0, 10**9))
def test_a_span_is_told_in_its_greatest_whole_unit(seconds: float) -> None:
    number, unit = span(seconds).split()
    size = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}[unit]
    assert int(number) * size <= seconds < (int(number) + 1) * size
    assert unit == "d" or seconds < {"s": 60, "min": 3_600, "h": 86_400}[unit]


LIMITS = st.one_of(
    st.integers(0, 10**6).map(lambda n: Limit(n, percent=False)),
    st.integers(0, 100).map(lambda n: Limit(n, percent=True)),
)


@given(LIMITS)
def test_a_limit_is_read_as_it_was_written(limit: Limit) -> None:
    assert Limit.parse(str(limit)) == limit


@given(LIMITS, st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_limit_that_allows_some_rows_allows_fewer(limit: Limit, removed: int, total: int) -> None:
    assert not limit.exceeded_by(0, total)
    if not limit.exceeded_by(removed + 1, total):
        assert not limit.exceeded_by(removed, total)


@given(st.integers(0, 10**6))
def test_a_limit_is_exceeded_by_one_row_more_than_it_names(amount: int) -> None:
    limit = Limit(amount, percent=False)
    assert (limit.exceeded_by(amount, 0), limit.exceeded_by(amount + 1, 10**9)) == (False, True)


@given(st.integers(0, 100), st.integers(1, 10**4))
def test_a_share_is_of_the_rows_that_are_there(percent: int, hundreds: int) -> None:
    limit, rows = Limit(percent, percent=True), 100 * hundreds
    assert not limit.exceeded_by(percent * hundreds, rows)
    assert limit.exceeded_by(percent * hundreds + 1, rows)


@pytest.mark.parametrize("text", ["", "x", "-1", "101%", "1 %%", "%", True, "1,5", "1e3"])
def test_what_is_no_limit_is_refused(text: Any) -> None:
    with pytest.raises(ConfigError, match="is not a limit"):
        Limit.parse(text)


# --- papers ----------------------------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.sampled_from(["shop.orders", "shop.customers", "a.b c"])
FENCES = st.dictionaries(
    WORDS.filter(bool),
    st.builds(TopicOffsets, WORDS, st.dictionaries(st.integers(0, 3), st.integers(0, 10**9))),
    max_size=2,
)
VALUES = st.dictionaries(WORDS, st.one_of(st.none(), st.integers(), WORDS), min_size=1, max_size=3)
RECOVERIES = st.builds(
    OpenRecovery,
    run_id=WORDS.filter(bool),
    epoch=st.integers(0, 10**6),
    attempt=st.integers(0, 99),
    opened_at=WORDS,
    problem=WORDS,
    strategy=WORDS,
    tables=st.lists(NAMES, unique=True).map(tuple),
    offset_kept=st.booleans(),
    agreed=st.dictionaries(NAMES, st.integers(0, 10**9)),
    pipeline_hash=WORDS,
    taken_over_from=WORDS,
    hold=st.none() | st.builds(HoldAnswer, WORDS, WORDS, WORDS),
    fence=st.none() | FENCES,
    watermark=st.none() | st.just(WATERMARK),
    watermark_at=WORDS,
    definitions=st.dictionaries(NAMES, WORDS),
    stages=st.dictionaries(NAMES, st.builds(StagedTable, WORDS, st.integers(0, 10**9), st.integers(0, 10**9))),
    backup=st.none() | st.builds(OffsetEntry, VALUES, st.none() | VALUES),
    written=st.none() | VALUES,
    written_at=WORDS,
    history=st.builds(
        HistoryDoubts,
        st.dictionaries(NAMES, st.lists(WORDS).map(tuple)),
        st.none() | st.integers(0, 10**15),
        st.booleans(),
    ),
    settings_before=st.dictionaries(WORDS, st.none() | WORDS),
    resuming=WORDS,
    resumed_at=WORDS,
    verified=st.dictionaries(
        NAMES,
        st.sampled_from(Verdict).map(
            lambda verdict: VerifiedTable(replace(TABLE, verdict=verdict, samples=("why",)), "s")
        ),
    ),
    published=st.dictionaries(NAMES, st.integers(1, 2**62)),
    replica=st.builds(ReplicaVisit, WORDS, WORDS, st.none() | WORDS, WORDS, st.none() | st.integers(0, 10**9)),
)


def read(paper: dict[str, Any]) -> OpenRecovery:
    """As a step reads it from the control table."""
    return OpenRecovery.from_json(json.loads(json.dumps(paper)), read_position)


@settings(max_examples=30)
@given(RECOVERIES)
def test_inv_01_a_recovery_is_read_as_it_was_written(recovery: OpenRecovery) -> None:
    assert read(recovery.to_json()) == recovery


@settings(max_examples=30)
@given(RECOVERIES, st.dictionaries(WORDS.map(lambda word: f"later_{word}"), WORDS, max_size=3))
def test_what_a_later_version_wrote_beside_it_changes_nothing_of_a_recovery(
    recovery: OpenRecovery, more: dict[str, str]
) -> None:
    assert read({**recovery.to_json(), **more}) == recovery


# whatever an earlier version did not write yet: its run_id alone was always there
OLD = [field.name for field in fields(OpenRecovery) if field.name != "run_id"]


@settings(max_examples=30)
@given(RECOVERIES, st.data())
def test_what_an_earlier_version_did_not_write_is_as_if_it_had_not_happened(
    recovery: OpenRecovery, data: st.DataObject
) -> None:
    paper = recovery.to_json()
    left_out = data.draw(st.sampled_from(sorted(paper.keys() - {"run_id", "format"}) or ["none"]))
    again = read({key: value for key, value in paper.items() if key != left_out})
    differing = [name for name in OLD if getattr(again, name) != getattr(recovery, name)]
    assert len(differing) <= 1
    empty = OpenRecovery("")
    for name in differing:
        part, blank = getattr(again, name), getattr(empty, name)
        # of a part with parts of its own, one is blank
        assert part == blank or any(getattr(part, one.name) == getattr(blank, one.name) for one in fields(part))


STAMPS = st.builds(Stamp, st.integers(0, 10**6), st.none() | VALUES, FENCES, st.none() | st.integers(1, 2**62))


@given(STAMPS)
def test_a_stamp_is_read_as_it_was_written_in_a_commit_and_in_the_control_table(stamp: Stamp) -> None:
    assert Stamp.from_summary(stamp.to_summary(), stamp.snapshot_id) == stamp
    assert Stamp.from_json(json.loads(json.dumps(stamp.to_json()))) == stamp


MOMENTS = st.integers(0, 2**32).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
LEASES = st.builds(
    lambda owner, at, dag, seconds, renewal: Lease(owner, at.isoformat(), dag, seconds, renewal),
    WORDS,
    MOMENTS,
    WORDS,
    st.floats(1, 10**6),
    WORDS,
)


@given(LEASES)
def test_a_lease_is_read_as_it_was_written(lease: Lease) -> None:
    assert codec.read(Lease, json.loads(json.dumps(plain(lease)))) == lease


@given(LEASES, MOMENTS)
def test_inv_46_a_lease_looks_valid_or_expired_and_never_both(lease: Lease, now: datetime) -> None:
    """Neither: a clock ahead of ours wrote it."""
    assert not (lease.looks_valid(now) and lease.looks_expired(now))
    ends = datetime.fromisoformat(lease.expires_at)
    assert lease.looks_expired(ends)
    assert lease.looks_valid(ends - timedelta(seconds=lease.seconds / 2))
    assert not lease.looks_valid(ends - timedelta(seconds=lease.seconds + 1))


# --- epochs and coverage ---------------------------------------------------------------------------------------------------

EPOCHS = st.builds(Epochs, st.integers(0, 50), st.dictionaries(NAMES | st.just(EVERY), st.integers(0, 50)))


@given(EPOCHS, st.integers(51, 99), st.sets(NAMES))
def test_inv_39_a_new_epoch_is_asked_of_the_tables_that_were_read_and_of_no_other(
    epochs: Epochs, epoch: int, tables: set[str]
) -> None:
    raised = epochs.raised(epoch, tables)
    for table in ("shop.orders", "shop.customers", "a.b c", "nobody.s"):
        assert raised.of(table) == (epoch if table in tables else epochs.of(table))
    assert {epochs.raised(epoch, None).of(table) for table in ("shop.orders", "nobody.s")} == {epoch}


PLACES = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))


@given(
    PLACES,
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=3),
)
def test_a_watermark_covers_the_numbers_it_names_and_what_lies_below_its_place(
    place: tuple[int, int, int], below: tuple[int, int], spans: list[tuple[int, int]]
) -> None:
    covered = Covered({"uuid": spans}, {"log": below})
    assert covered.holds("uuid", place) == any(first <= place[0] <= last for first, last in spans)
    assert covered.holds("log", place) == (place[:2] < below)
    for unknown in (covered.holds("another", place), covered.holds(None, place), covered.holds("log", None)):
        assert unknown is False
    assert not NOTHING.holds("log", place)


@settings(max_examples=30)
@given(RECOVERIES)
def test_inv_03_under_a_new_watermark_nothing_that_was_read_or_compared_counts(recovery: OpenRecovery) -> None:
    anew = recovery.with_watermark(WATERMARK, {}, {"shop.orders": "f"}, "now")
    assert (anew.stages, anew.verified, anew.written_at, anew.resumed_at) == ({}, {}, "", "")
    assert (anew.attempt, anew.run_id, anew.backup, anew.epoch) == (
        recovery.attempt + 1,
        recovery.run_id,
        recovery.backup,
        recovery.epoch,
    )


@settings(max_examples=30)
@given(RECOVERIES, VALUES, VALUES)
def test_the_first_backup_of_an_offset_is_never_replaced(recovery: OpenRecovery, one: Any, other: Any) -> None:
    first, second = OffsetEntry({"server": "s"}, one), OffsetEntry({"server": "s"}, other)
    bare = replace(recovery, backup=None)
    assert bare.backed_up(first).backed_up(second).backup == first


@settings(max_examples=30)
@given(RECOVERIES, st.dictionaries(WORDS, st.none() | WORDS), st.dictionaries(WORDS, st.none() | WORDS))
def test_settings_go_back_to_what_they_were_before_the_first_change(
    recovery: OpenRecovery, one: Any, other: Any
) -> None:
    saved = replace(recovery, settings_before={}).settings_saved(one).settings_saved(other)
    assert saved.settings_before == {**other, **one}
    assert saved.settings_restored([*one, *other]).settings_before == {}


@settings(max_examples=30)
@given(RECOVERIES)
def test_a_table_is_unsettled_until_it_is_on_main_and_proven(recovery: OpenRecovery) -> None:
    for table in recovery.tables:
        proven = table in recovery.verified and recovery.verified[table].verdict == "MATCH"
        assert (table in recovery.unproven) is not proven
        assert (table in recovery.unpublished) is (table not in recovery.published)
        assert (table in recovery.unsettled) is (table not in recovery.published or not proven)
