"""The Airflow task that started a driver: a driver that works on for long asks whether it is still waited for."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any


def this_process() -> dict[str, Any]:
    """How a driver recognises the process that starts it: {"host", "pid"}."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def is_waited_for(task: Mapping[str, Any]) -> bool:
    """Whether the process `task` lives. One of another machine can't be seen from here, and counts as living."""
    return task["host"] != socket.gethostname() or lives(int(task["pid"]))


def lives(pid: int) -> bool:
    """Whether there is a process of that number on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
