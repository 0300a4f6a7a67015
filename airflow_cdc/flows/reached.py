"""Waiting until the connector has read past a position: for as long as it moves, and no longer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.offset import RawOffset, StoredOffset
from airflow_cdc.core.poll import NotYet, poll_while_moving
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.text import root_cause
from airflow_cdc.decisions.diagnosis.lag import Reading, progress_text
from airflow_cdc.flows.capture import settings
from airflow_cdc.flows.offsets import committed, stored_value
from airflow_cdc.flows.run import Run

log = logging.getLogger("airflow_cdc.reached")

# How often the log reports the progress. Records in topics are no progress: a connector that fails and starts again at
# the same offset sends the same ones for ever.
TELL_SECONDS = 15.0


def wait_past(
    run: Run, position: Watermark, standstill: float | None = None, note: Callable[[str], None] | None = None
) -> StoredOffset:
    """Wait until the connector's committed offset covers `position` (INV 6); an event alone would not prove it.

    Waits as long as the offset moves; raises DeadlineError when it has not moved for `standstill` seconds (default: the
    policy's; Connect commits an offset every minute). The expected end is logged and passed to `note`.
    """
    progress = _Progress(run, position, note or (lambda _text: None))

    def probe() -> StoredOffset | None:
        offset = committed(run)
        if offset is not None and (offset.has_read(position) or _at_rest(run, offset, position)):
            return offset
        not_failed(run)
        raise NotYet(progress.seen(offset))

    return poll_while_moving(
        probe,
        standstill=run.pipeline.policy.standstill if standstill is None else standstill,
        interval=0.3,
        what=f"the connector to read past {position}",
    )


def wait_sent(run: Run, position: Watermark, standstill: float, read_at: Watermark | None = None) -> None:
    """Wait until nothing up to `position` can still come that is not in the topics, or in the rows read at `read_at`.

    If nothing was written since that read, whatever the connector has not sent yet is in those rows (INV 6). Its offset
    would not say so: without heartbeats, on a quiet source, it stays behind the last transaction that it has sent.
    """
    if read_at is not None and read_at.server == position.server and read_at.position.covers(position.position):
        return
    wait_past(run, position, standstill)


def wait_reading(run: Run, written: RawOffset) -> str:
    """Wait until the connector shows that it continues from the offset `written` for it; returns how it showed it.

    The written offset is our own and proves nothing (INV 38). Proof is another offset, or a heartbeat since the start.
    Raises DeadlineError if neither has come within the policy's standstill.
    """
    began = _heartbeats(run)

    def probe() -> str | None:
        if stored_value(run) != dict(written):
            return "offset"
        if _heartbeats(run) > began:
            return "heartbeat"
        not_failed(run)
        return None

    return poll_while_moving(
        probe,
        standstill=run.pipeline.policy.standstill,
        interval=0.3,
        what="a heartbeat of the connector, or an offset beyond the one written for it",
    )


def _heartbeats(run: Run) -> int:
    topic = settings(run).heartbeat_topic
    ends = run.clients.transport.end_offsets([topic]) if topic else {}
    return sum(end for partitions in ends.values() for end in partitions.values())


@dataclass(slots=True)
class _Progress:
    """The connector's progress during the wait."""

    run: Run
    position: Watermark
    note: Callable[[str], None]
    first: Reading | None = None
    last_line: float = field(default_factory=time.monotonic)

    def seen(self, offset: StoredOffset | None) -> str:
        """The state that shows progress: the offset without its time, which heartbeats change too."""
        now = time.monotonic()
        reading = None if offset is None or offset.written is None else Reading(now, offset.written)
        self.first = self.first or reading
        if now - self.last_line >= TELL_SECONDS and self.first is not None and reading is not None:
            self.last_line = now
            self._tell(self.first, reading)
        return f"offset {offset and offset.progress}"

    def _tell(self, first: Reading, last: Reading) -> None:
        target = self.position.taken_at.timestamp()
        text = progress_text(first, last, target, datetime.now(UTC))
        log.info("%s: %s", self.run.pipeline.name, text)
        self.note(text)


def _at_rest(run: Run, offset: StoredOffset, position: Watermark) -> bool:
    """Whether a quiet server is exactly at `position` and the connector has read its log to the end."""
    return offset.position is not None and run.clients.source.at_rest(offset.position, position)


def not_failed(run: Run, task: str = "resume_connector") -> None:
    """Raise ConnectorError, with the reported cause, as soon as the connector or a task has failed."""
    if failed := failures(run):
        cause = root_cause(failed[0])[:500]
        raise ConnectorError(
            f"connector {run.pipeline.connector.name} failed after the restart: {cause}",
            where=run.where,
            todo=f"Fix what the connector reports (`airflow cdc diagnose {run.pipeline.name}` explains it), then clear the"
            f" task {task}.",
        )


def failures(run: Run) -> tuple[str, ...]:
    """The traces of everything that is FAILED: the connector itself or tasks."""
    return run.clients.connector.state(run.pipeline.connector.name).failures
