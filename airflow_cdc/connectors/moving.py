"""Settings by which a stored position moves while nothing is written, as the doctor checks them. Each kind names its own."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.check import Check

# a shorter one makes Debezium's reader re-read large transactions, and lose the rest of one if its worker dies then
KEEP_ALIVE_FLOOR_MS: Final = 30_000
QUICK_HEARTBEAT_MS: Final = "1000"
# on a quiet source a recovery waits for one and meanwhile keeps the hold
SLOWEST_HEARTBEAT_MS: Final = 30_000


def quick_heartbeats(setting: str, interval_ms: int) -> dict[str, str]:
    """The setting that makes heartbeats of `interval_ms` quick enough for a recovery; {} if they are.

    Only heartbeats: with a small keep-alive an idle connector would report its position sooner, but Debezium then mistakes a
    reader that waits for a full queue for a lost connection, and reads the transaction again.
    """
    return {} if 0 < interval_ms <= SLOWEST_HEARTBEAT_MS else {setting: QUICK_HEARTBEAT_MS}


def heartbeat_check(subject: str, interval_ms: int, setting: str) -> Check:
    """Whether heartbeats are sent. `setting`: how they are switched on, in the words of the kind."""
    todo = f"Let the connector send heartbeats ({setting}): without them, the offset of a quiet table is not moved and will be purged."
    if interval_ms > 0:
        return Check(subject, "heartbeat", "ok", f"every {interval_ms} ms")
    return Check(subject, "heartbeat", "warn", "none", todo)


def keep_alive_check(subject: str, interval_ms: int, setting: str) -> Check:
    """Whether the reader waits long enough before it takes a full queue for a lost connection."""
    good = interval_ms >= KEEP_ALIVE_FLOOR_MS
    todo = "" if good else "Remove it (the default is 60000): a full queue is mistaken for a lost connection."
    return Check(subject, "keep-alive", "ok" if good else "warn", f"{setting}={interval_ms}", todo)
