"""The kill matrix of MySQL as a table: which fault strikes at which moment inside which step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from stack.shop import connectors
from tests.faults import strikes
from tests.faults.cell import Cell, Fault, Moments, Seen, cells
from tests.faults.strikes import DISK_FULL, TASK_KILLED, cut, kill_source
from tests.faults.world import PIPELINE

if TYPE_CHECKING:
    from tests.faults.mysql import MySqlWorld
    from tests.faults.runner import Recovery

# in the order of the steps; several steps have more than one
MOMENTS: Moments = {
    ("diagnose", "reading the source"): Seen("source", b"SHOW BINARY LOGS"),
    ("fence_and_watermark", "waiting until W is visible"): Seen("source", b"WAIT_FOR_EXECUTED_GTID_SET"),
    **strikes.MOMENTS,
}


def purge_again(recovery: Recovery) -> None:
    """Somebody purges the log once more, W included."""
    cast("MySqlWorld", recovery.world).purge()


def move_offset(recovery: Recovery) -> None:
    """Somebody writes an old offset into the stopped connector behind our back."""
    worker = recovery.world.stack.connect
    assert worker is not None
    offset = {**connectors.stored(worker, PIPELINE), "pos": 4, "gtids": ""}
    body = {"offsets": [{"partition": {"server": PIPELINE}, "offset": offset}]}
    worker.call("PATCH", f"/connectors/{PIPELINE}/offsets", json.loads(json.dumps(body)))


FAULTS: dict[str, Fault] = {
    **strikes.FAULTS,
    "SIGKILL of MySQL": kill_source,
    "MySQL cut off for 1 s": cut("source", 1),
    "MySQL cut off for 60 s": cut("source", 60),
    "a second PURGE": purge_again,
    "the offset moved by hand": move_offset,
}


def _at(step: str, moment: str, *faults: str) -> list[Cell]:
    return cells(MOMENTS, FAULTS, step, moment, *faults)


TASK_KILLS: tuple[Cell, ...] = tuple(cell for step, moment in MOMENTS for cell in _at(step, moment, TASK_KILLED))
_CUTS = {system: (f"{system} cut off for 1 s", f"{system} cut off for 60 s") for system in ("MySQL", "Connect")}
_FROZEN = ("Kafka frozen for 1 s", "Kafka frozen for 60 s")
CELLS: tuple[Cell, ...] = (
    *TASK_KILLS,
    *_at("diagnose", "reading the source", *_CUTS["MySQL"], "SIGKILL of MySQL"),
    *_at("stop_connector", "stop asked, not answered", *_CUTS["Connect"], "SIGKILL of the Connect worker"),
    *_at("fence_and_watermark", "waiting until W is visible", *_CUTS["MySQL"], "SIGKILL of MySQL"),
    *_at("fence_and_watermark", "W written", "SIGKILL of the broker", *_FROZEN),
    *_at(
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
    *_at("recover", "begun", DISK_FULL),
    *_at(
        "reset_offset",
        "between write and read-back",
        *_CUTS["Connect"],
        "SIGKILL of the Connect worker",
        "a second PURGE",
        "the offset moved by hand",
    ),
    *_at(
        "resume_connector",
        "resume asked, not answered",
        *_CUTS["Connect"],
        "SIGKILL of the Connect worker",
        "SIGKILL of the broker",
        "SIGKILL of MySQL",
    ),
    *_at(
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
    *_at("publish", "between two tables", "a second recovery", "SIGKILL of MySQL"),
    *_at("close", "settings going back", *_CUTS["Connect"], "SIGKILL of the Connect worker"),
)
