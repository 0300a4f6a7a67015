"""The kill matrix of a JDBC sink, in short: each part of the path killed while its copies are put right through the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tests.faults import strikes
from tests.faults.cell import Cell, Fault, Moments, Seen, When, cells
from tests.faults.strikes import TASK_KILLED, kill_and_restart

if TYPE_CHECKING:
    from tests.faults.jdbc import JdbcWorld
    from tests.faults.runner import Recovery

_DRIVER, _WORKER, _BROKER = "SIGKILL of the Spark driver", "SIGKILL of the Connect worker", "SIGKILL of the broker"
_COPIES, _SINK = "SIGKILL of the copies' database", "the sink connector restarts"


def _world(recovery: Recovery) -> JdbcWorld:
    return cast("JdbcWorld", recovery.world)


def sending(recovery: Recovery) -> bool:
    """A table's corrections are about to be sent or on their way: not certain yet."""
    return any(not one.get("until") for one in _sent(recovery))


def one_sent(recovery: Recovery) -> bool:
    """The corrections of the first table are in its topic, and those of the second are not."""
    attempt = recovery.document().get("attempt")
    done = [one for one in _sent(recovery) if one.get("until") and one.get("attempt") == attempt]
    return len(done) == 1


def _sent(recovery: Recovery) -> list[dict[str, object]]:
    return list((recovery.document().get("corrections") or {}).values())


def kill_copies(recovery: Recovery) -> None:
    """SIGKILL of the database that the sink connector fills; somebody starts it again, and the connector with it."""
    kill_and_restart(recovery, "postgres", _world(recovery).restart_copies)


def restart_sink(recovery: Recovery) -> None:
    """Somebody restarts the sink connector."""
    _world(recovery).restart_sink()


_SENDING = ("recover", "a table's corrections on their way")
_BETWEEN = ("recover", "between two tables' corrections")
_COMPARES = ("verify", "the source is read")
MOMENTS: Moments = {
    **strikes.MOMENTS,
    ("diagnose", "reading the source"): Seen("source", b"SHOW BINARY LOGS"),
    _SENDING: When(sending),
    _BETWEEN: When(one_sent),
    _COMPARES: Seen("source", b"SHA2("),
}
FAULTS: dict[str, Fault] = {
    TASK_KILLED: strikes.kill_task,
    _DRIVER: strikes.kill_driver,
    _WORKER: strikes.kill_connect,
    _BROKER: strikes.kill_broker,
    _COPIES: kill_copies,
    _SINK: restart_sink,
}


def _at(step: str, moment: str, *faults: str) -> list[Cell]:
    return cells(MOMENTS, FAULTS, step, moment, *faults)


CELLS: tuple[Cell, ...] = (
    *_at("open_recovery", "opened", TASK_KILLED),
    *_at("fence_and_watermark", "W written", TASK_KILLED),
    *_at(*_BETWEEN, TASK_KILLED),
    *_at("reset_offset", "between write and read-back", TASK_KILLED),
    *_at("resume_connector", "between resume and release of the hold", TASK_KILLED),
    *_at("stop_connector", "stop asked, not answered", _WORKER),
    *_at("fence_and_watermark", "W written", _BROKER),
    *_at(*_SENDING, _DRIVER, _BROKER),
    *_at("resume_connector", "resume asked, not answered", _WORKER),
    *_at(*_COMPARES, _SINK, _COPIES),
    *_at(*_BETWEEN, _COPIES),
)
