"""The Airflow task that started a driver: a long-running driver checks whether the task still waits for it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any


def this_process() -> dict[str, Any]:
    """The process that starts a driver, so that the driver recognises it: {"host", "pid"}."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def is_waited_for(task: Mapping[str, Any]) -> bool:
    """Whether the process `task` is alive. A process on another machine cannot be checked and counts as alive."""
    return task["host"] != socket.gethostname() or lives(int(task["pid"]))


def lives(pid: int) -> bool:
    """Whether a process with this id exists on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
