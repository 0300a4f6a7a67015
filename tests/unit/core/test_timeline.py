"""Where a step's seconds went: what its process says takes long is noted, joined, and neither grows nor hides."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_cdc.control.ledger import StepEntry
from airflow_cdc.core.codec import read, sparse
from airflow_cdc.core.errors import DeadlineError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.report import StepPart, StepReport
from airflow_cdc.core.timeline import (
    KEPT,
    LONGEST_NAME,
    LONGEST_START_S,
    MOST,
    STARTED,
    THIS_PROCESS,
    Span,
    Timeline,
    joined,
    longest,
    process_began,
    timed,
)
from airflow_cdc.reports.bars import BETWEEN, as_text, time_bars

AT = "2026-11-21T09:00:{:02d}+00:00"


def test_tables_that_are_read_side_by_side_are_one_bar() -> None:
    spans = [Span("read", 0, 4), Span("read", 3.9, 9), Span("read", 1, 3), Span("wait", 2, 3), Span("read", 11, 12)]
    assert joined(spans) == [Span("read", 0, 9), Span("wait", 2, 3), Span("read", 11, 12)]


def test_of_too_many_parts_the_longest_are_shown_in_their_order() -> None:
    spans = [Span(str(number), number, number + 0.1 + number % 7) for number in range(100)]
    shown = longest(spans)
    assert len(shown) == MOST
    assert [one.began for one in shown] == sorted(one.began for one in shown)
    assert min(one.seconds for one in shown) >= max(one.seconds for one in spans if one not in shown)
    assert longest([Span("short", 1.0, 1.01)]) == ()


def test_what_threads_say_at_once_is_all_there_and_is_taken_once() -> None:
    line = Timeline()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: line.add(f"t{number}", 0.0, 1.0), range(30)))
    assert len(line.take()) == 30
    assert line.take() == ()


def test_a_process_that_waits_for_weeks_keeps_no_more_than_a_picture_needs() -> None:
    line = Timeline()
    for number in range(KEPT + 500):
        line.add("waiting", 10.0 * number, 10.0 * number + 1)
    assert len(line.spans) == KEPT
    line.add("x" * 10_000, 0.0, 1.0)
    assert len(line.spans[-1].name) == LONGEST_NAME


def _fails_after(seconds: float) -> None:
    with timed("reading"):
        time.sleep(seconds)
        raise KeyError


def test_every_wait_says_what_was_waited_for_also_one_that_failed() -> None:
    THIS_PROCESS.take()
    with pytest.raises(DeadlineError):
        poll_until(lambda: None, timeout=0.1, interval=0.02, what="the connector")
    assert [span.name for span in THIS_PROCESS.take()] == ["waiting for the connector"]
    with pytest.raises(KeyError):
        _fails_after(0.06)
    assert [span.name for span in THIS_PROCESS.take()] == ["reading"]


def test_a_process_started_before_now_and_says_so_once() -> None:
    began = process_began()
    assert began is not None
    assert 0 < time.time() - began < 24 * 3600
    line = Timeline()
    line.first_step()
    line.first_step()
    expected = [STARTED] if time.time() - began < LONGEST_START_S else []
    assert [span.name for span in line.spans] == expected


def test_a_step_keeps_its_parts_through_ledger_and_report() -> None:
    parts = (StepPart("a session of Spark starts", -2.5, 3.0), StepPart("comparing", 1.0, 4.25))
    entry = StepEntry("verify", AT.format(10), 6.0, "done", parts=parts)
    assert StepEntry.from_json("verify", entry.to_json()) == entry
    assert read(StepReport, sparse(entry.report)) == entry.report
    assert entry.report.parts == parts


def test_the_bars_show_what_is_inside_a_step_and_what_passed_between_two() -> None:
    snapshot = StepReport("snapshot", 10.0, "done", AT.format(0))
    verify = StepReport(
        "verify", 5.0, "done", AT.format(15), (StepPart(STARTED, -3.0, 3.0), StepPart("comparing", 1.0, 2.0))
    )
    bars = time_bars([verify, snapshot])
    assert [(bar.name, bar.left, bar.width) for bar in bars] == [
        ("snapshot", 0.0, 50.0),
        (BETWEEN, 50.0, 10.0),  # until verify's process began, not until its step did
        ("verify", 75.0, 25.0),
    ]
    assert [(bar.name, bar.left, bar.width) for bar in bars[2].inner] == [
        (STARTED, 60.0, 15.0),
        ("comparing", 80.0, 10.0),
    ]
    drawn = as_text(bars, width=20)
    assert [row["step"].strip() for row in drawn] == ["snapshot", BETWEEN, "verify", STARTED, "comparing"]
    assert [row["timeline"].rstrip() for row in drawn] == [
        "█" * 10,
        " " * 10 + "··",
        " " * 15 + "█" * 5,
        " " * 12 + "▒" * 3,
        " " * 16 + "▒" * 2,
    ]
