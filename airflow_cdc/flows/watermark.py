"""Step 4: record the fence, wait for the hold's answer, take W and wait until it is visible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_cdc.core.errors import ConnectorError, OffsetRejectedError, SourceError
from airflow_cdc.core.hold import HoldStatus
from airflow_cdc.core.offset import StoredOffset
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.recovery import HoldAnswer, OpenRecovery
from airflow_cdc.core.topics import Fence, TopicOffsets, fence_to_json
from airflow_cdc.decisions.diagnosis.strategy import NEXT_FILE
from airflow_cdc.flows.capture import defined, settings
from airflow_cdc.flows.offsets import read, stored_value
from airflow_cdc.flows.partial import begin
from airflow_cdc.flows.recovery import change, current
from airflow_cdc.flows.run import Facts, Run, now_iso, step

HOLD_ANSWER_SECONDS = 30.0
VISIBLE_SECONDS = 60.0
XA_SECONDS = 30.0
RESERVE_SECONDS = 300.0


@step("fence_and_watermark", leased=True)
def fence_and_watermark(run: Run) -> Facts:
    """Record the topics' ends while the connector is stopped, then take W and wait until it is visible.

    An existing W is kept while the server still has it and no definition changed, so chunks read under it stay valid.
    Otherwise a new fence and W are taken, which begins the recovery's next attempt (INV 3). If the connector's offset
    is left alone, W must cover all that it has read (INV 39). If the offset moves, tables that were published under
    an older W are read again, under a new epoch.
    """
    recovery = current(run)
    _stopped(run)
    prints = {name: definition.fingerprint for name, definition in defined(run, recovery.tables).items()}
    if (earlier := _still_good(run, recovery, prints)) is not None:
        return _facts(earlier, recovery.fence or {}, kept=True)
    fence = _fence(run, recovery.tables)
    _hold_answered(run)
    begin(run)
    watermark = _take(run, recovery)
    if recovery.offset_kept:
        check_held(run, watermark)
    elif recovery.published:
        run.clients.control.raise_epoch(run.run_id)
    at = now_iso()
    change(run, lambda now: now.with_watermark(watermark, fence, prints, at))
    return _facts(watermark, fence, kept=False)


def _facts(watermark: Watermark, fence: Fence, *, kept: bool) -> Facts:
    return {"watermark": watermark.to_json(), "fence": fence_to_json(fence), "kept": kept}


def still_there(run: Run, watermark: Watermark, *, then: str) -> None:
    """Raise SourceError if the source no longer has the log from W; `then` is the task to continue from."""
    available = run.clients.source.still_available(watermark)
    if not available:
        raise SourceError(
            f"the source no longer has the log from the watermark: {available.why}",
            where=run.where,
            todo=f"{run.clients.source.keep_longer} Then clear the task {then} and all after it.",
        )


def check_held(run: Run, watermark: Watermark) -> StoredOffset:
    """The offset that stays, once W is proven to cover all that the connector read. Raises OffsetRejectedError."""
    value = stored_value(run)
    offset = None if value is None else read(run, value)
    if offset is not None and offset.held_by(watermark):
        return offset
    raise OffsetRejectedError(
        f"the connector's offset is {value}, and {watermark} may not hold everything that was read up to there",
        where=run.where,
        todo="Its position has changed since this recovery was planned. Give up the recovery (airflow cdc abandon) "
        "and trigger cdc_recovery again: it is planned again.",
        reasons=("offset is not held by W",),
    )


def _stopped(run: Run) -> None:
    state = run.clients.connector.state(run.pipeline.connector.name).state
    if state != "STOPPED":
        raise ConnectorError(
            f"the connector is {state}, not STOPPED: it could still write events after a fence taken now",
            where=run.where,
            todo="Clear the task stop_connector and all after it.",
        )


def _fence(run: Run, tables: Sequence[str]) -> Fence:
    """The ends of the tables' topics. One that does not exist yet is absent: it will be read from 0 (INV 16)."""
    states = run.clients.transport.gathered(settings(run).topics_about(tables))
    return {name: TopicOffsets.end_of(state) for name, state in states.items()}


def _hold_answered(run: Run) -> None:
    """Wait until the parallel hold task answers held, unsupported or refused (policy off: return at once).

    A policy that requires the hold takes no other answer than held; an earlier try's may still be there. Raises DeadlineError.
    """
    mode = run.pipeline.policy.hold.mode
    if mode == "off":
        return

    def probe() -> HoldAnswer | None:
        answer = current(run).hold
        if answer is not None and mode == "required" and answer.state != HoldStatus.HELD:
            raise NotYet(f"{answer.state}: {answer.detail}")
        return answer

    what = "the hold of the log to answer (held, refused or unsupported)"
    must_hold = "the source's log to be held, which policy.hold.mode requires (auto continues without it)"
    poll_until(probe, timeout=HOLD_ANSWER_SECONDS, interval=0.5, what=must_hold if mode == "required" else what)


def _take(run: Run, recovery: OpenRecovery) -> Watermark:
    """W, visible to every later read, with no prepared XA transaction open behind it (INV 7, 8).

    For `resume_next_file` W is the start of the file after the stored position's. That is before what is visible now,
    so rows in between are both read and sent again from the log.
    """
    source = run.clients.source
    source.check_logged(recovery.tables)
    if not recovery.offset_kept:
        source.reserve_log(RESERVE_SECONDS)
    watermark = source.watermark(xa_timeout=XA_SECONDS)
    source.wait_visible(watermark, VISIBLE_SECONDS)
    if recovery.strategy != NEXT_FILE:
        return watermark
    before = None if recovery.backup is None else recovery.backup.value
    stored = read(run, before or stored_value(run) or {})
    return source.start_of_file_after(stored.position, watermark)


def _still_good(run: Run, recovery: OpenRecovery, prints: Mapping[str, str]) -> Watermark | None:
    watermark = recovery.watermark
    if watermark is None or recovery.definitions != prints:
        return None
    if "MISMATCH" in recovery.unproven.values():
        return None  # what was read under it is wrong, or changes since were skipped: it would differ for ever
    try:
        run.clients.source.check_same_server(watermark)
        return watermark if run.clients.source.still_available(watermark) else None
    except SourceError:
        return None
