"""Step 4, in parallel with the other tasks: prevent DDL and the purge of W while the recovery needs it (INV 10)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from time import sleep as pause
from typing import Final

from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.hold import HoldLimits, HoldState
from airflow_cdc.core.recovery import HoldAnswer
from airflow_cdc.flows.recovery import change, current
from airflow_cdc.flows.run import Facts, Run, now_iso, step

_PURGES: Final = "this server purges its log despite the lock"
TICK_SECONDS = 1.0  # between two looks: the poll of a condition, see Hold.tick


@step("hold_binlog", leased=True)
def hold(run: Run, should_stop: Callable[[], bool]) -> Facts:
    """Hold the source's backup lock until the connector streams past W, the policy's limit, or `should_stop`.

    Never fails a recovery: a refused, unsupported or lost hold is recorded in the recovery, and later steps
    check W again instead. If the policy requires the hold, no W is taken without it (see `flows.watermark`).
    """
    policy = run.pipeline.policy.hold
    if policy.mode == "off":
        return _say(run, "OFF", "the policy says off")
    lock = run.clients.source.hold(hold_label(run), HoldLimits(max_seconds=policy.max))
    try:
        state = lock.acquire()
        useless = policy.mode == "required" and state.held and not state.blocks_purge
        if useless:
            state = lock.release(_PURGES)
        _say(run, state.status, state.reason)
        while not useless and lock.tick().held and not should_stop() and not _released(run):
            pause(TICK_SECONDS)
    finally:
        state = lock.release()
    return _say(run, state.status, state.reason) | {"held_s": state.held_s, "blocks_purge": state.blocks_purge}


def hold_by_hand(run: Run, seconds: float, say: Callable[[str], None], over: Event) -> HoldState:
    """Keep the source's log from being purged until `seconds` have passed, the hold ends itself, or `over` is set.

    Returns the hold's last state: HELD if it was released by hand, else why it ended. If the server purges despite
    the lock, nothing is held. `say` is called when the hold has begun.
    """
    lock = run.clients.source.hold(f"{run.pipeline.name}:by hand", HoldLimits(max_seconds=seconds))
    state = lock.acquire()
    try:
        if state.held and not state.blocks_purge:
            return lock.release(_PURGES)
        if state.held:
            say(f"the log is held for at most {seconds:g} s; Ctrl-C releases it")
        while (state := lock.tick()).held:
            if over.wait(TICK_SECONDS):
                say("let go")
                break
    finally:
        lock.release()
    return state


def hold_label(run: Run) -> str:
    """The name by which other processes find this recovery's hold on the source."""
    return f"{run.pipeline.name}:{run.run_id}"


def _released(run: Run) -> bool:
    """The recovery is past the point that needs the hold, or is gone."""
    try:
        return bool(current(run).resumed_at)
    except CdcError:
        return True


def _say(run: Run, state: str, detail: str) -> Facts:
    answer = HoldAnswer(state, detail, now_iso())
    try:
        change(run, lambda now: now.held(answer))
    except CdcError:
        detail = f"{detail} (the recovery is closed)"
    return {"state": state, "detail": detail, "since": answer.since}
