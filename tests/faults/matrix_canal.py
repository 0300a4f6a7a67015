"""The kill matrix of Canal through RabbitMQ into OpenSearch, in short: each of its parts killed at the moments that matter."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, cast

from stack.guard import descendants
from tests.faults import strikes
from tests.faults.cell import Cell, Fault, Moments, Seen, When, cells
from tests.faults.strikes import TASK_KILLED, kill_and_restart

if TYPE_CHECKING:
    from tests.faults.canal import CanalWorld
    from tests.faults.runner import Recovery

_BROKER, _NODE, _CANAL = "SIGKILL of RabbitMQ", "SIGKILL of OpenSearch", "SIGKILL of Canal"
_DRIVER = "SIGKILL of the Spark driver"
JUST_NOW_S = 2.0


def _world(recovery: Recovery) -> CanalWorld:
    return cast("CanalWorld", recovery.world)


def cursor_written(recovery: Recovery) -> bool:
    """The file of the cursor was written just now, and is another than the copy that was made of it before.

    By the files alone: until the recovery knows of the write, there are some hundredths of a second.
    """
    meta = _world(recovery).canal.meta
    copied = meta.with_name("meta.dat.before")
    if not copied.exists() or time.time() - copied.stat().st_mtime > JUST_NOW_S:
        return False
    return meta.read_bytes() != copied.read_bytes()


def canal_starts(recovery: Recovery) -> bool:
    """Its process is there, and not only the guard that starts it."""
    child = _world(recovery).canal.child
    return child is not None and child.alive and bool(descendants(child.pid))


def canal_sends(recovery: Recovery) -> bool:
    """Its cursor has left the place that was written for it: what it sent is acknowledged."""
    written = recovery.document().get("written")
    stored = recovery.world.run(recovery.run_id).clients.connector.committed_offset("shop", "shop")
    return bool(written) and stored is not None and dict(stored) != written


def kill_canal(recovery: Recovery) -> None:
    """SIGKILL of Canal, which somebody starts again."""
    canal = _world(recovery).canal
    child = canal.child
    if child is not None and child.alive:
        os.kill(child.server_pid, signal.SIGKILL)
    recovery.mend(canal.start)


def kill_stopping_canal(recovery: Recovery) -> None:
    """SIGKILL of Canal while it is stopped: nobody starts it again."""
    child = _world(recovery).canal.child
    if child is not None and child.alive:
        os.kill(child.server_pid, signal.SIGKILL)


def kill_broker(recovery: Recovery) -> None:
    """SIGKILL of the broker, which somebody starts again."""
    kill_and_restart(recovery, "rabbitmq", _world(recovery).restart_rabbitmq)


def kill_node(recovery: Recovery) -> None:
    """SIGKILL of the search node, which somebody starts again. The recovery's own document is there, too."""
    kill_and_restart(recovery, "opensearch", _world(recovery).restart_opensearch)


_STOPPING = "SIGKILL of Canal, for good"
_BETWEEN = ("recover", "between two chunks' commits")
_STARTS = ("resume_connector", "Canal starts")
_SENDS = ("resume_connector", "Canal sends again")
MOMENTS: Moments = {
    **strikes.MOMENTS,
    ("diagnose", "reading the source"): Seen("source", b"SHOW BINARY LOGS"),
    ("stop_connector", "begun"): When(lambda _: True),
    ("reset_offset", "between write and read-back"): When(cursor_written),
    _STARTS: When(canal_starts),
    _SENDS: When(canal_sends),
}
FAULTS: dict[str, Fault] = {
    TASK_KILLED: strikes.kill_task,
    _DRIVER: strikes.kill_driver,
    _CANAL: kill_canal,
    _STOPPING: kill_stopping_canal,
    _BROKER: kill_broker,
    _NODE: kill_node,
}


def _at(step: str, moment: str, *faults: str) -> list[Cell]:
    return cells(MOMENTS, FAULTS, step, moment, *faults)


CELLS: tuple[Cell, ...] = (
    *_at("diagnose", "reading the source", TASK_KILLED),
    *_at("open_recovery", "opened", TASK_KILLED),
    *_at("stop_connector", "begun", _STOPPING),
    *_at("fence_and_watermark", "W written", _BROKER),
    *_at(*_BETWEEN, _DRIVER, _NODE),
    *_at("reset_offset", "between write and read-back", TASK_KILLED),
    *_at(*_STARTS, _CANAL),
    *_at(*_SENDS, _BROKER),
    *_at("resume_connector", "between resume and release of the hold", TASK_KILLED),
    *_at("verify", "between two tables' catch-up commits", _NODE),
    *_at("publish", "between two tables", _NODE),
)
