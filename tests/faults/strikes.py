"""Moments and faults that are alike for every source."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tests.faults.cell import Fault, Moments, Seen, When, Written
from tests.faults.world import NAMESPACE

if TYPE_CHECKING:
    from tests.faults.runner import Recovery


def stage_commits(recovery: Recovery) -> int:
    """Commits in the stages of the open recovery."""
    world, epoch = recovery.world, recovery.document().get("epoch")
    stages = [stage for table in world.tables for stage in world.sink.stages(NAMESPACE, table)]
    return sum(len(world.sink.stage_chain(stage)) for stage in stages if stage.label.startswith(f"recov_{epoch}_"))


def caught_up(recovery: Recovery) -> bool:
    """A stage of a verify's own has a commit beyond those that `recover` left."""
    sink, read = recovery.world.sink, recovery.document().get("stages") or {}
    return any(
        sink.stage_head(stage) != filled["snapshot_id"]
        for name, filled in read.items()
        for stage in sink.stages(NAMESPACE, name.split(".")[1])
        if stage.label.startswith(f"{filled['label']}_v")
    )


def kill_task(recovery: Recovery) -> None:
    """SIGKILL of the step's process; a Spark driver goes on for a moment as an orphan."""
    recovery.kill_step()


def kill_driver(recovery: Recovery) -> None:
    """SIGKILL of the Spark driver; the step's process lives and says so."""
    os.kill(recovery.driver_pid(), signal.SIGKILL)


def kill_task_and_driver(recovery: Recovery) -> None:
    """SIGKILL of both, as when the machine goes."""
    kill_driver(recovery)
    recovery.kill_step()


def kill_connect(recovery: Recovery) -> None:
    """SIGKILL of the Connect worker, which somebody starts again."""
    kill_and_restart(recovery, "connect", recovery.world.stack.restart_connect)


def kill_broker(recovery: Recovery) -> None:
    """SIGKILL of the Kafka broker, which somebody starts again."""
    kill_and_restart(recovery, "kafka", recovery.world.stack.restart_kafka)


def kill_source(recovery: Recovery) -> None:
    """SIGKILL of the database server, which somebody starts again."""
    kill_and_restart(recovery, recovery.world.server, recovery.world.restart_server)


def kill_and_restart(recovery: Recovery, name: str, restart: Callable[[], Any]) -> None:
    """The server itself is killed, so that its guard takes its exit status: a zombie would still hold MySQL's socket."""
    os.kill(server_pid(recovery, name), signal.SIGKILL)
    recovery.mend(restart)


def server_pid(recovery: Recovery, name: str) -> int:
    """The pid of one of the world's servers."""
    return next(one.server_pid for one in recovery.world.stack.children if one.name.startswith(name))


def cut(system: str, seconds: float) -> Fault:
    """Nothing passes between the product and the system for so long."""
    return lambda recovery: getattr(recovery.world, system).cut(seconds)


def freeze_kafka(seconds: float) -> Fault:
    """The broker answers nobody for so long (SIGSTOP): its clients reach it by its own address, not by a proxy."""

    def freeze(recovery: Recovery) -> None:
        pid = server_pid(recovery, "kafka")
        os.kill(pid, signal.SIGSTOP)
        timer = threading.Timer(seconds, os.kill, (pid, signal.SIGCONT))
        timer.start()
        recovery.mend(timer.join)

    return freeze


def second_recovery(recovery: Recovery) -> None:
    """Another run wants to recover the same pipeline; it must be refused."""
    recovery.intrude()


TASK_KILLED: Final = "SIGKILL of the task"
DISK_FULL: Final = "disk full for Spark"
MOMENTS: Moments = {
    ("open_recovery", "opened"): Written("epoch"),
    ("stop_connector", "stop asked, not answered"): Seen("connect", b"/stop"),
    ("fence_and_watermark", "W written"): Written("watermark"),
    ("recover", "begun"): When(lambda _: True),
    ("recover", "between two chunks' commits"): When(lambda recovery: stage_commits(recovery) > 1),
    ("reset_offset", "between write and read-back"): Seen("connect", b"PATCH "),
    ("resume_connector", "resume asked, not answered"): Seen("connect", b"/resume"),
    ("resume_connector", "between resume and release of the hold"): Written("resumed_at"),
    ("verify", "between two tables' catch-up commits"): When(caught_up),
    ("publish", "between two tables"): Written("published"),
    ("close", "settings going back"): Seen("connect", b"PUT "),
    ("close", "closed"): Written(""),
    ("report", "begun"): When(lambda _: True),
}
FAULTS: dict[str, Fault] = {
    TASK_KILLED: kill_task,
    "SIGKILL of the Spark driver": kill_driver,
    "SIGKILL of task and driver": kill_task_and_driver,
    "SIGKILL of the Connect worker": kill_connect,
    "SIGKILL of the broker": kill_broker,
    "Connect cut off for 1 s": cut("connect", 1),
    "Connect cut off for 60 s": cut("connect", 60),
    "Kafka frozen for 1 s": freeze_kafka(1),
    "Kafka frozen for 60 s": freeze_kafka(60),
    "a second recovery": second_recovery,
    DISK_FULL: lambda _: None,  # from the start: see Recovery
}
