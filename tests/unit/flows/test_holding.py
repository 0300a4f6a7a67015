"""The hold of the source's log beside a recovery (INV 10): how long it lasts, and that it never fails the recovery."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.hold import HoldLimits, HoldState, HoldStatus
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.flows import hold
from airflow_cdc.flows.run import Run
from tests.unit.flows.recovering import READ, now, recovering

HELD = HoldState("shop:r", HoldStatus.HELD, blocks_purge=True)
RELEASED = replace(HELD, status=HoldStatus.RELEASED, held_s=3.0)
LOST = replace(HELD, status=HoldStatus.LOST, reason="the connection was cut")


@dataclass
class Lock:
    """A hold that answers these states, one after the other; the last one stays."""

    states: list[HoldState]
    end: HoldState = RELEASED
    released: bool = False
    ticks: int = 0
    on_tick: dict[int, Any] = field(default_factory=dict)

    def acquire(self) -> HoldState:
        return self.states[0]

    def tick(self) -> HoldState:
        self.ticks += 1
        self.on_tick.get(self.ticks, lambda: None)()
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def release(self, reason: str = "") -> HoldState:
        self.released = True
        return replace(self.end, reason=reason or self.end.reason)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "pause", lambda _seconds: None)


def holding(lock: Lock, recovery: OpenRecovery = READ, mode: Any = "auto") -> Run:
    run = recovering(recovery)
    source: Any = run.clients.source
    source.hold.return_value = lock
    policy = replace(run.pipeline.policy, hold=replace(run.pipeline.policy.hold, mode=mode, max=90))
    return replace(run, pipeline=replace(run.pipeline, policy=policy))


def test_a_policy_without_a_hold_takes_no_lock_and_says_so() -> None:
    lock = Lock([HELD])
    run = holding(lock, mode="off")
    assert hold.hold(run, lambda: False)["state"] == "OFF"
    source: Any = run.clients.source
    source.hold.assert_not_called()


def test_the_hold_is_under_the_runs_name_and_for_as_long_as_the_policy_allows() -> None:
    """By its name another process finds it, and ends it."""
    run = holding(Lock([LOST]))
    hold.hold(run, lambda: False)
    source: Any = run.clients.source
    source.hold.assert_called_once_with("shop:r", HoldLimits(max_seconds=90))


def test_the_watermark_may_be_taken_as_soon_as_the_log_is_held() -> None:
    """It waits for the hold's answer, and the hold lasts until long after it."""
    seen: list[str] = []
    lock = Lock([HELD])
    run = holding(lock)
    lock.on_tick[1] = lambda: seen.append(answer.state if (answer := now(run).hold) else "no answer")
    hold.hold(run, lambda: bool(seen))
    assert seen == ["HELD"]


def test_it_is_held_until_the_connector_is_past_the_watermark() -> None:
    lock = Lock([HELD])
    run = holding(lock)
    control: Any = run.clients.control
    resumed = replace(READ, resumed_at="2026-11-21T09:00:00+00:00")
    lock.on_tick[3] = lambda: setattr(control.recovery, "side_effect", lambda _read: resumed)
    done = hold.hold(run, lambda: False)
    assert (lock.ticks, lock.released) == (3, True)
    assert (done["state"], done["held_s"], done["blocks_purge"]) == ("RELEASED", 3.0, True)


def test_it_ends_when_the_task_is_told_to_end() -> None:
    lock = Lock([HELD])
    hold.hold(holding(lock), lambda: lock.ticks == 2)
    assert (lock.ticks, lock.released) == (2, True)


def test_a_hold_whose_recovery_is_gone_is_let_go() -> None:
    """Given up, or closed, by somebody else: nothing would ever say that it is past the watermark."""
    lock = Lock([HELD])
    run = holding(lock)
    control: Any = run.clients.control
    lock.on_tick[2] = lambda: setattr(control.recovery, "side_effect", lambda _read: None)
    done = hold.hold(run, lambda: False)
    assert (lock.ticks, lock.released) == (2, True)
    assert done["state"] == "RELEASED"


@pytest.mark.parametrize(
    ("mode", "prevents", "state"),
    [("required", False, "RELEASED"), ("required", True, "HELD"), ("auto", False, "HELD")],
)
def test_a_lock_under_which_the_server_still_purges_is_no_hold_where_one_is_required(
    mode: str, prevents: bool, state: str
) -> None:
    """Otherwise it still keeps definitions as they are."""
    lock = Lock([replace(HELD, blocks_purge=prevents)])
    run = holding(lock, mode=mode)
    answers: list[str] = []
    control: Any = run.clients.control
    change = control.change_recovery.side_effect

    def noting(*args: Any) -> OpenRecovery:
        recovery: OpenRecovery = change(*args)
        answers.append(recovery.hold.state if recovery.hold else "")
        return recovery

    control.change_recovery.side_effect = noting
    hold.hold(run, lambda: True)
    assert answers[0] == state
    assert lock.released


@pytest.mark.parametrize("status", [HoldStatus.REFUSED, HoldStatus.UNSUPPORTED])
def test_a_source_that_refuses_is_answered_at_once_and_nothing_fails(status: HoldStatus) -> None:
    refused = replace(HELD, status=status, reason="LOCK INSTANCE needs BACKUP_ADMIN")
    lock = Lock([refused], end=refused)
    run = holding(lock)
    done = hold.hold(run, lambda: False)
    assert (done["state"], done["detail"]) == (str(status), "LOCK INSTANCE needs BACKUP_ADMIN")
    answer = now(run).hold
    assert answer is not None
    assert (answer.state, answer.detail) == (str(status), "LOCK INSTANCE needs BACKUP_ADMIN")


def test_a_hold_that_was_lost_is_noted_in_the_recovery_and_ends_the_task_well() -> None:
    lock = Lock([HELD, LOST], end=LOST)
    run = holding(lock)
    assert hold.hold(run, lambda: False)["state"] == "LOST"
    answer = now(run).hold
    assert answer is not None
    assert answer.detail == "the connection was cut"


def test_a_hold_is_let_go_whatever_happens_to_its_task() -> None:
    lock = Lock([HELD])

    def cut() -> None:
        raise SourceError("the server is gone")

    lock.on_tick[1] = cut
    with pytest.raises(SourceError):
        hold.hold(holding(lock), lambda: False)
    assert lock.released


def test_an_answer_after_the_recovery_was_closed_is_told_and_fails_nothing() -> None:
    lock = Lock([HELD])
    run = holding(lock)
    control: Any = run.clients.control
    control.change_recovery.side_effect = SourceError("no recovery is open")
    assert hold.hold(run, lambda: True)["detail"].endswith("(the recovery is closed)")
