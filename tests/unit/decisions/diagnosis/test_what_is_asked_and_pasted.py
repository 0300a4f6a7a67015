"""What a person may ask for beside the plan, what of a pasted log is read, and when a connector is taken for stuck."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.forecast import Retention
from airflow_cdc.core.observation import TaskState
from airflow_cdc.core.offset import Inside
from airflow_cdc.core.problem import LOST, Problem
from airflow_cdc.decisions.diagnosis.log_lines import entries
from airflow_cdc.decisions.diagnosis.problems import RULES
from airflow_cdc.decisions.diagnosis.screen import needed
from airflow_cdc.decisions.diagnosis.strategy import STRATEGIES
from airflow_cdc.kinds import all_texts, rules_for
from airflow_cdc.sources.mysql.facts import EventAtPosition, EventBoundary
from tests.diagnosing import seems_stuck
from tests.unit.builders import CONNECTOR, GTID_OFFSET, PIPELINE, SOURCE, connector_with, seen

# --- on request ---------------------------------------------------------------------------------------------------------------

# Where the position is in order, rows may always be read or written again: it costs time and changes nothing that is right.
ANY_ROWS = ("full_snapshot", "diff_repair")
# Where it is not, only a strategy that needs no position beside the one that the plan chooses.
ON_REQUEST = {
    "RECOVERY_OPEN": ("full_snapshot",),  # it takes the place of a detour
    "OFFSET_MISSING": ("diff_repair",),
    "EPOCH_BEHIND": ("diff_repair",),
    "SINK_DIFFERS": ANY_ROWS,
    "SINK_WRITTEN_BY_OTHERS": ANY_ROWS,
    "SINK_BEHIND": ANY_ROWS,
    "HEALTHY": ANY_ROWS,
}
CODES = sorted({row.code for row in RULES.problems})


@pytest.mark.parametrize("code", CODES)
def test_what_a_person_may_ask_for_by_name_although_no_plan_chooses_it(code: str) -> None:
    asked = RULES.on_request(code)
    assert asked == ON_REQUEST.get(code, ())
    assert set(asked) <= STRATEGIES.keys()
    assert set(asked) <= set(rules_for(PIPELINE).on_request(code))


@pytest.mark.parametrize("code", CODES)
def test_what_is_offered_and_what_is_only_done_on_request_are_two_lists(code: str) -> None:
    offered = {name for row in RULES.problems if row.code == code for name in row.strategies}
    assert not offered & set(RULES.on_request(code))


# --- whether a row judges the position ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "rank", "strategies", "judges"),
    [
        (True, 20, (), True),
        (True, 90, ("none",), True),
        (False, LOST.start, (), True),
        (False, LOST.stop - 1, (), True),
        (False, LOST.start, ("full_snapshot",), False),
        (False, LOST.start - 1, (), False),
        (False, LOST.stop, (), False),
        (True, LOST.start, ("full_snapshot",), True),
    ],
)
def test_a_row_judges_the_position_if_it_says_so_or_calls_it_lost_for_good(
    about: bool, rank: int, strategies: tuple[str, ...], judges: bool
) -> None:
    """Lost with a way back is about the log; lost without one is about the position: nobody may move it further."""
    row = Problem("X", rank, "", lambda _case: None, strategies, about_position=about)
    assert row.judges_position is judges
    assert row.runbook == "runbook#x"


# --- a connector that seems stuck -------------------------------------------------------------------------------------------------

AHEAD = EventAtPosition(EventBoundary.BOUNDARY, ("Gtid", "Query", "Table_map"))
BEATING = {**CONNECTOR.config, "heartbeat.interval.ms": "1000"}


@pytest.mark.parametrize(
    ("change", "stuck"),
    [
        ({}, True),
        ({"tasks": (TaskState(0, "FAILED", "it broke"),)}, False),
        ({"state": "PAUSED", "tasks": (TaskState(0, "PAUSED"),)}, False),
        ({"state": "STOPPED", "tasks": ()}, False),
        ({"offset": None}, False),
        ({"offset": {**GTID_OFFSET, "ts_sec": 1, "snapshot": True}}, False),
        ({"offset": {**GTID_OFFSET, "ts_sec": 1000 - 1}}, False),
        ({"config": CONNECTOR.config}, False),
    ],
    ids=["stuck", "failed", "paused", "stopped", "no offset", "in a snapshot", "just written", "no heartbeats"],
)
def test_only_a_connector_that_says_it_runs_and_does_not_move_is_watched(change: dict[str, Any], stuck: bool) -> None:
    """A failed one is diagnosed by its failure, and a snapshot moves no offset."""
    source = replace(SOURCE, at_offset=AHEAD, retention=Retention(0, now=1000.0))
    facts = {"config": BEATING, "offset": {**GTID_OFFSET, "ts_sec": 1}, **change}
    connector = connector_with(CONNECTOR, **facts)
    if connector.offset is not None:
        assert (connector.offset.inside is Inside.SNAPSHOT) is ("snapshot" in (change.get("offset") or {}))
    assert seems_stuck(seen(source=source, connector=connector)) is stuck


# --- pasted logs ----------------------------------------------------------------------------------------------------------------


def texts(log: str) -> list[str]:
    return [entry.text for entry in entries(log)]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("&quot;", '"'), ("&#39;", "'"), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"),
        ("&amp;lt;", "&lt;"), ("‘", "'"), ("’", "'"), ("“", '"'), ("”", '"'), ("«", '"'), ("\u00a0", " "),
        ("\x1b[31m", ""), ("\x1b[1;31;40m", ""), ("é", "é"),
    ],
)  # fmt: skip
def test_a_text_copied_from_a_page_or_a_terminal_is_read_as_it_was_logged(written: str, meant: str) -> None:
    assert texts(f"ERROR table {written}orders is missing") == [f"ERROR table {meant}orders is missing"]


TRACE = ["java.lang.RuntimeException: it broke", "\tat a.B.c(B.java:1)", "\tat a.B.d(B.java:2)"]
HEADS = ["Caused by: java.io.IOException: no", "\tat a.B.e(B.java:3)", "\t... 3 more"]


def stamped(minute: int, text: str) -> str:
    return f"2026-10-02 04:{minute:02}:00 {text}"


@pytest.mark.parametrize("causes", [[], HEADS, [*HEADS, *HEADS]], ids=["plain", "caused", "twice"])
def test_a_log_shown_line_by_line_from_its_end_is_turned_around_with_its_traces(causes: list[str]) -> None:
    log = [stamped(1, "INFO started"), stamped(2, "ERROR the task failed"), *TRACE, *causes, stamped(3, "INFO stopped")]
    assert texts("\n".join(reversed(log))) == texts("\n".join(log))
    assert any("a.B.c" in text and "the task failed" in text for text in texts("\n".join(log)))


@pytest.mark.parametrize("causes", [[], HEADS], ids=["plain", "caused"])
def test_a_log_shown_entry_by_entry_from_its_end_keeps_the_lines_of_each(causes: list[str]) -> None:
    failed = [stamped(2, "ERROR the task failed"), *TRACE, *causes]
    log = [[stamped(1, "INFO started")], failed, [stamped(3, "INFO stopped")]]
    shown = "\n".join("\n".join(entry) for entry in reversed(log))
    assert texts(shown) == texts("\n".join("\n".join(entry) for entry in log))


# --- words to look for first ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("abcdef", {"abcdef"}),
        ("abcdef|uvwxyz", {"abcdef", "uvwxyz"}),
        ("(abcdef|uvwxyz)", {"abcdef", "uvwxyz"}),
        ("(?:abcdef|uvwxyz)", {"abcdef", "uvwxyz"}),
        ("ghijklmn (?:abc|uvw) x|other", {"ghijklmn", "other"}),
        ("(?:abc|uvw) ghijklmn|(?:def|xyz) opqrst", {"ghijklmn", "opqrst"}),
        ("((abcd|efgh)|ijkl)", {"abcd", "efgh", "ijkl"}),
        (r"abc\(def\|ghi", {"abc(def|ghi"}),
        ("[(|]abcdef", {"abcdef"}),
        ("abcdef(?:ghijkl)?", {"abcdef"}),
        ("abcdefg?", {"abcdef"}),
        (r"\d+", set()),
        ("abcdef|.*", set()),
    ],
)
def test_of_each_way_in_which_a_pattern_can_match_the_longest_words_are_looked_for(
    pattern: str, words: set[str]
) -> None:
    """A word too many lets an entry through to be matched in full; a word too few would leave a known failure unknown."""
    assert set(needed(pattern)) == words


def test_every_known_text_is_found_by_its_own_words() -> None:
    for row in all_texts():
        words = needed(row.pattern)
        for word in words:
            assert word == word.lower() == word.strip()
        assert words == () or all(words), row.pattern
        assert re.compile(row.pattern)
