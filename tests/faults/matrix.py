"""The kill matrix as a table: which fault strikes at which moment inside which step."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demo.world import NAMESPACE
from stack.shop import connectors
from tests.faults.world import PIPELINE, TABLES

if TYPE_CHECKING:
    from tests.faults.runner import Recovery


@dataclass(frozen=True, slots=True)
class Seen:
    """The moment at which a request with this text has reached `system`, and its answer has not come back yet."""

    system: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Written:
    """The moment after the control document was written with this field of its open recovery ("": with none open).

    The step's process stops itself there (SIGSTOP) until the fault has struck: such a moment lasts some milliseconds.
    """

    field: str


@dataclass(frozen=True, slots=True)
class When:
    """The moment at which this holds, looked at again and again."""

    holds: Callable[[Recovery], bool]


def _stage_commits(recovery: Recovery) -> int:
    """Commits in the stages of the open recovery."""
    lake, epoch = recovery.world.lake, recovery.document().get("epoch")
    stages = [stage for table in TABLES for stage in lake.stages(NAMESPACE, table)]
    return sum(len(lake.stage_chain(stage)) for stage in stages if stage.label.startswith(f"recov_{epoch}_"))


def _caught_up(recovery: Recovery) -> bool:
    """A stage of a verify's own has a commit beyond those that `recover` left."""
    lake, read = recovery.world.lake, recovery.document().get("stages") or {}
    return any(
        lake.stage_head(stage) != filled["snapshot_id"]
        for name, filled in read.items()
        for stage in lake.stages(NAMESPACE, name.split(".")[1])
        if stage.label.startswith(f"{filled['label']}_v")
    )


# step → moment → how it is seen. Several steps have more than one.
MOMENTS: dict[tuple[str, str], Seen | Written | When] = {
    ("diagnose", "reading the source"): Seen("mysql", b"SHOW BINARY LOGS"),
    ("open_recovery", "opened"): Written("epoch"),
    ("stop_connector", "stop asked, not answered"): Seen("connect", b"/stop"),
    ("fence_and_watermark", "waiting until W is visible"): Seen("mysql", b"WAIT_FOR_EXECUTED_GTID_SET"),
    ("fence_and_watermark", "W written"): Written("watermark"),
    ("recover", "begun"): When(lambda _: True),
    ("recover", "between two chunks' commits"): When(lambda recovery: _stage_commits(recovery) > 1),
    ("reset_offset", "between write and read-back"): Seen("connect", b"PATCH "),
    ("resume_connector", "resume asked, not answered"): Seen("connect", b"/resume"),
    ("resume_connector", "between resume and release of the hold"): Written("resumed_at"),
    ("verify", "between two tables' catch-up commits"): When(_caught_up),
    ("publish", "between two tables"): Written("published"),
    ("close", "settings going back"): Seen("connect", b"PUT "),
    ("close", "closed"): Written(""),
    ("report", "begun"): When(lambda _: True),
}


def kill_task(recovery: Recovery) -> None:
    """SIGKILL of the step's process; a Spark driver goes on as an orphan."""
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
    _kill_and_restart(recovery, "connect", recovery.world.stack.restart_connect)


def kill_broker(recovery: Recovery) -> None:
    """SIGKILL of the Kafka broker, which somebody starts again."""
    _kill_and_restart(recovery, "kafka", recovery.world.stack.restart_kafka)


def kill_mysql(recovery: Recovery) -> None:
    """SIGKILL of MySQL, which somebody starts again."""
    _kill_and_restart(recovery, "mysql", recovery.world.stack.restart_mysql)


def _kill_and_restart(recovery: Recovery, name: str, restart: Callable[[], Any]) -> None:
    """The server itself is killed, so that its guard takes its exit status: a zombie would still hold MySQL's socket."""
    os.kill(_server(recovery, name), signal.SIGKILL)
    recovery.mend(restart)


def _server(recovery: Recovery, name: str) -> int:
    """The pid of one of the world's servers."""
    return next(one.server_pid for one in recovery.world.stack.children if one.name.startswith(name))


def cut(system: str, seconds: float) -> Callable[[Recovery], None]:
    """Nothing passes between the product and the system for so long."""
    return lambda recovery: getattr(recovery.world, system).cut(seconds)


def freeze_kafka(seconds: float) -> Callable[[Recovery], None]:
    """The broker answers nobody for so long (SIGSTOP): its clients reach it by its own address, not by a proxy."""

    def freeze(recovery: Recovery) -> None:
        pid = _server(recovery, "kafka")
        os.kill(pid, signal.SIGSTOP)
        timer = threading.Timer(seconds, os.kill, (pid, signal.SIGCONT))
        timer.start()
        recovery.mend(timer.join)

    return freeze


def purge_again(recovery: Recovery) -> None:
    """Somebody purges the log once more, W included."""
    recovery.world.purge()


def second_recovery(recovery: Recovery) -> None:
    """Another run wants to recover the same pipeline; it must be refused."""
    recovery.intrude()


def move_offset(recovery: Recovery) -> None:
    """Somebody writes an old offset into the stopped connector behind our back."""
    worker = recovery.world.stack.connect
    assert worker is not None
    offset = {**connectors.stored(worker, PIPELINE), "pos": 4, "gtids": ""}
    body = {"offsets": [{"partition": {"server": PIPELINE}, "offset": offset}]}
    worker.call("PATCH", f"/connectors/{PIPELINE}/offsets", json.loads(json.dumps(body)))


Fault = Callable[["Recovery"], None]
FAULTS: dict[str, Fault] = {
    "SIGKILL of the task": kill_task,
    "SIGKILL of the Spark driver": kill_driver,
    "SIGKILL of task and driver": kill_task_and_driver,
    "SIGKILL of the Connect worker": kill_connect,
    "SIGKILL of the broker": kill_broker,
    "SIGKILL of MySQL": kill_mysql,
    "MySQL cut off for 1 s": cut("mysql", 1),
    "MySQL cut off for 60 s": cut("mysql", 60),
    "Connect cut off for 1 s": cut("connect", 1),
    "Connect cut off for 60 s": cut("connect", 60),
    "Kafka frozen for 1 s": freeze_kafka(1),
    "Kafka frozen for 60 s": freeze_kafka(60),
    "a second PURGE": purge_again,
    "a second recovery": second_recovery,
    "the offset moved by hand": move_offset,
    "disk full for Spark": lambda _: None,  # from the start: see Recovery
}
DISK_FULL = "disk full for Spark"


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault at one moment."""

    step: str
    moment: str
    fault: str

    @property
    def how(self) -> Seen | Written | When:
        """How the moment is seen."""
        return MOMENTS[(self.step, self.moment)]


def _cells(step: str, moment: str, *faults: str) -> list[Cell]:
    return [Cell(step, moment, fault) for fault in faults]


TASK_KILLS = tuple(Cell(step, moment, "SIGKILL of the task") for step, moment in MOMENTS)
_CUTS = {system: (f"{system} cut off for 1 s", f"{system} cut off for 60 s") for system in ("MySQL", "Connect")}
_FROZEN = ("Kafka frozen for 1 s", "Kafka frozen for 60 s")
CELLS: tuple[Cell, ...] = (
    *TASK_KILLS,
    *_cells("diagnose", "reading the source", *_CUTS["MySQL"], "SIGKILL of MySQL"),
    *_cells("stop_connector", "stop asked, not answered", *_CUTS["Connect"], "SIGKILL of the Connect worker"),
    *_cells("fence_and_watermark", "waiting until W is visible", *_CUTS["MySQL"], "SIGKILL of MySQL"),
    *_cells("fence_and_watermark", "W written", "SIGKILL of the broker", *_FROZEN),
    *_cells(
        "recover",
        "between two chunks' commits",
        "SIGKILL of the Spark driver",
        "SIGKILL of task and driver",
        "SIGKILL of MySQL",
        "SIGKILL of the Connect worker",
        *_CUTS["MySQL"],
        "a second PURGE",
        "a second recovery",
        "the offset moved by hand",
    ),
    *_cells("recover", "begun", DISK_FULL),
    *_cells(
        "reset_offset",
        "between write and read-back",
        *_CUTS["Connect"],
        "SIGKILL of the Connect worker",
        "a second PURGE",
        "the offset moved by hand",
    ),
    *_cells(
        "resume_connector",
        "resume asked, not answered",
        *_CUTS["Connect"],
        "SIGKILL of the Connect worker",
        "SIGKILL of the broker",
        "SIGKILL of MySQL",
    ),
    *_cells(
        "verify",
        "between two tables' catch-up commits",
        "SIGKILL of the Spark driver",
        "SIGKILL of task and driver",
        "SIGKILL of MySQL",
        "SIGKILL of the Connect worker",
        "SIGKILL of the broker",
        *_CUTS["MySQL"],
        *_FROZEN,
        "a second recovery",
    ),
    *_cells("publish", "between two tables", "a second recovery", "SIGKILL of MySQL"),
    *_cells("close", "settings going back", *_CUTS["Connect"], "SIGKILL of the Connect worker"),
)
