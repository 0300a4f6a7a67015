from __future__ import annotations

import pytest

from airflow_cdc.core import poll
from airflow_cdc.core.errors import CdcError, DeadlineError
from airflow_cdc.core.poll import NotYet, poll_until, poll_while_moving
from tests.unit.clocks import Clock


def test_returns_the_first_answer_even_if_it_is_falsy() -> None:
    answers = iter([None, None, 0])
    clock = Clock()
    assert poll_until(lambda: next(answers), timeout=10, interval=2, what="x", clock=clock, sleep=clock.sleep) == 0
    assert clock.sleeps == [2, 2]


def test_probes_once_with_no_time_and_without_sleeping() -> None:
    clock = Clock()
    assert poll_until(lambda: "now", timeout=0, what="x", clock=clock, sleep=clock.sleep) == "now"
    assert clock.sleeps == []


def test_never_sleeps_past_the_deadline_and_probes_there_once_more() -> None:
    clock = Clock()
    probed: list[float] = []
    with pytest.raises(DeadlineError):
        poll_until(lambda: probed.append(clock.now), timeout=5, interval=2, what="x", clock=clock, sleep=clock.sleep)
    assert probed == [0, 2, 4, 5]


def test_deadline_names_what_and_the_last_state() -> None:
    clock = Clock()

    def probe() -> None:
        raise NotYet(f"PAUSED at {clock.now:g}")

    with pytest.raises(DeadlineError) as caught:
        poll_until(probe, timeout=1, interval=1, what="connector shop STOPPED", clock=clock, sleep=clock.sleep)
    assert caught.value.what == "connector shop STOPPED: not reached within 1 s; last seen: PAUSED at 1"
    assert caught.value.last == "PAUSED at 1"
    assert isinstance(caught.value, CdcError)


def test_other_errors_of_the_probe_are_not_swallowed() -> None:
    def probe() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        poll_until(probe, timeout=1, what="x")


def moving(until: float, clock: Clock) -> None:
    """A probe's answer: another state each time before `until`, the same one after."""
    raise NotYet(f"offset {min(clock.now, until):g}")


def test_inv_37_a_wait_goes_on_for_as_long_as_what_is_waited_for_moves() -> None:
    clock = Clock()

    def probe() -> str | None:
        if clock.now >= 3600:
            return "past"
        moving(3600, clock)
        return None

    answer = poll_while_moving(probe, standstill=300, interval=10, what="x", clock=clock, sleep=clock.sleep)
    assert (answer, clock.now) == ("past", 3600)


def test_inv_37_a_wait_ends_by_standstill_and_names_the_last_state() -> None:
    clock = Clock()
    with pytest.raises(DeadlineError) as caught:
        poll_while_moving(
            lambda: moving(50, clock), standstill=300, interval=7, what="the end", clock=clock, sleep=clock.sleep
        )
    assert caught.value.what == "the end: nothing has moved for 300 s; last seen: offset 50"
    assert 350 <= clock.now < 364


def test_a_probe_that_says_nothing_stands_still_from_the_beginning() -> None:
    clock = Clock()
    with pytest.raises(DeadlineError, match=r"^x: nothing has moved for 5 s\. See what"):
        poll_while_moving(lambda: None, standstill=5, interval=2, what="x", clock=clock, sleep=clock.sleep)
    assert clock.now == 5


def test_a_long_wait_says_every_15_seconds_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lines = Clock(), list[str]()
    monkeypatch.setattr(poll.log, "info", lambda text, *words: lines.append(text % words))

    def probe() -> str | None:
        if clock.now >= 40:
            return "there"
        raise NotYet(f"offset {clock.now:g}")

    wait = {"interval": 5.0, "what": "the connector to read", "clock": clock, "sleep": clock.sleep}
    assert poll_until(probe, timeout=60, **wait) == "there"  # type: ignore[arg-type]
    assert lines == [
        "waiting for 15 s: the connector to read; now: offset 15",
        "waiting for 30 s: the connector to read; now: offset 30",
    ]


def test_what_is_left_of_a_deadline_is_a_round_number() -> None:
    clock = Clock()
    with pytest.raises(DeadlineError, match=r"^x: not reached within 30 s\. See what"):
        poll_until(lambda: None, timeout=29.9994, interval=9, what="x", clock=clock, sleep=clock.sleep)
