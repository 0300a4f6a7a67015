"""How long a run took, and for how much of it nothing ran."""

from __future__ import annotations

from demo.timing import Taken, covered, taken


def test_time_in_which_no_task_ran_is_the_schedulers() -> None:
    run = {"queued_at": "2026-11-25T20:00:00Z", "end_date": "2026-11-25T20:01:00+00:00"}
    tasks: list[dict[str, str | None]] = [
        {"start_date": "2026-11-25T20:00:02Z", "end_date": "2026-11-25T20:00:20Z"},
        {"start_date": "2026-11-25T20:00:10Z", "end_date": "2026-11-25T20:00:15Z"},  # inside the first
        {"start_date": "2026-11-25T20:00:22Z", "end_date": "2026-11-25T20:00:58.500000Z"},
        {"start_date": None, "end_date": None},  # skipped
    ]
    assert taken(run, tasks) == Taken(60.0, 5.5)


def test_spans_that_overlap_count_once() -> None:
    assert covered([(3.0, 4.0), (0.0, 2.0), (1.0, 2.5)]) == 3.5
    assert covered([]) == 0.0
