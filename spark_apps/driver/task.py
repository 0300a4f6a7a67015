"""Who started a driver, and waits for it: the Airflow task, on a cluster with spark-submit between the two."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

# how often a driver looks for its parent, in seconds
_EVERY_S = 1.0
_ORPHANED = 1
_TERMINATED = 128 + signal.SIGTERM
# what has to be done before a driver that is ended goes
_before: list[Callable[[], None]] = []


def this_process() -> dict[str, object]:
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


def end_with_parent() -> None:
    """From now on, end this process within a second or two of its parent: spark-submit, or the Airflow task.

    Who ends a driver kills spark-submit. A driver that never asked for a session of Spark would not notice: it would go on
    waiting and renew its run's lease, which keeps the next recovery out (seen). All it does is safe to be killed.
    """
    threading.Thread(target=_outlive, args=(os.getppid(),), name="parent", daemon=True).start()


def _outlive(parent: int) -> None:
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_EVERY_S)
    with suppress(OSError):  # who read what we say may be gone, too
        print("cdc: who started this driver was ended, and the driver with it", file=sys.stderr, flush=True)
    end_now(_ORPHANED)


def before_end(act: Callable[[], None]) -> None:
    """Have this done before the driver goes because it, or its parent, was ended."""
    _before.append(act)


def end_in_order() -> None:
    """From now on, end this process by `end_now` when it gets SIGTERM. For the main thread."""
    end = threading.Event()

    def wait() -> None:
        end.wait()
        end_now(_TERMINATED)

    # not in the handler: the thread that it interrupts may hold a lock that the work before the end needs
    threading.Thread(target=wait, name="terminated", daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: end.set())


def end_now(status: int) -> NoReturn:
    """End this process at once, after what was asked for."""
    for act in _before:
        with suppress(Exception):
            act()
    os._exit(status)
