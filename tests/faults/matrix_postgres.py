"""The kill matrix of PostgreSQL, in short: what differs from MySQL's, and the task killed at the moments that matter there."""

from __future__ import annotations

from tests.faults import strikes
from tests.faults.cell import Cell, Fault, Moments, Seen, cells
from tests.faults.strikes import TASK_KILLED, cut, kill_source

_SLOT_MADE = ("fence_and_watermark", "slot made, W not written")
_UNDER_SNAPSHOT = ("recover", "reading under an exported snapshot")
MOMENTS: Moments = {
    ("diagnose", "reading the source"): Seen("source", b"pg_replication_slots"),
    _SLOT_MADE: Seen("source", b"CREATE_REPLICATION_SLOT"),
    _UNDER_SNAPSHOT: Seen("source", b"SET TRANSACTION SNAPSHOT"),
    **strikes.MOMENTS,
}
FAULTS: dict[str, Fault] = {
    TASK_KILLED: strikes.kill_task,
    "SIGKILL of PostgreSQL": kill_source,
    "PostgreSQL cut off for 60 s": cut("source", 60),
    "SIGKILL of the Connect worker": strikes.kill_connect,
}
# in the order of the steps
KILLED_AT = (
    ("diagnose", "reading the source"),
    ("open_recovery", "opened"),
    _SLOT_MADE,
    ("recover", "between two chunks' commits"),
    ("reset_offset", "between write and read-back"),
    ("resume_connector", "resume asked, not answered"),
    ("resume_connector", "between resume and release of the hold"),
    ("verify", "between two tables' catch-up commits"),
    ("publish", "between two tables"),
)


def _at(step: str, moment: str, *faults: str) -> list[Cell]:
    return cells(MOMENTS, FAULTS, step, moment, *faults)


CELLS: tuple[Cell, ...] = (
    *(cell for step, moment in KILLED_AT for cell in _at(step, moment, TASK_KILLED)),
    *_at(*_UNDER_SNAPSHOT, "SIGKILL of PostgreSQL"),
    *_at("recover", "between two chunks' commits", "PostgreSQL cut off for 60 s"),
    *_at("resume_connector", "resume asked, not answered", "SIGKILL of the Connect worker"),
)
