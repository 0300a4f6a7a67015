"""Starting, recognising and ending the servers: always by pid and start time, never by name."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from stack.errors import StackError, log_tail
from stack.guard import descendants

T = TypeVar("T")

_FIRST_PAUSE_S = 0.02
# the same machine was seen at a third of its speed: a deadline is to tell what hangs from what is slow
SLOWEST = 3
_GUARD = Path(__file__).with_name("guard.py")


@dataclass(frozen=True, slots=True)
class Child:
    """A guarded server. `pid` is the guard's, in a session of its own; `started` its start time in clock ticks."""

    name: str
    pid: int
    started: int
    log: str
    grace: float = 20.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Child:
        return cls(**value)

    @property
    def alive(self) -> bool:
        """True while this very process runs: a pid that was given to another process does not count."""
        return start_time(self.pid) == self.started

    @property
    def server_pid(self) -> int:
        """The server itself, below its guard. Raises IndexError when it is gone."""
        return descendants(self.pid)[0]


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def spawn(
    name: str,
    argv: Sequence[str],
    *,
    log: Path,
    keep: bool = False,
    grace: float = 20.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    owner: int | None = None,
) -> Child:
    """Start a server under a guard. Unless `keep`, it ends with the process `owner` (the caller), however that ends."""
    log.parent.mkdir(parents=True, exist_ok=True)
    guard = [sys.executable, "-I", "-S", str(_GUARD), str(0 if keep else owner or os.getpid()), str(grace), "--", *argv]
    with log.open("ab") as out:
        process = subprocess.Popen(
            guard,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(env) if env is not None else None,
            cwd=cwd,
            start_new_session=True,
        )
    started = start_time(process.pid)
    # the guard is this process's child: somebody has to take its exit status, or it stays a zombie
    threading.Thread(target=process.wait, name=f"reap-{name}", daemon=True).start()
    return Child(name, process.pid, started if started is not None else -1, str(log), grace)


def ask_to_end(child: Child) -> None:
    """Send SIGTERM to the guard, if it is still the same process."""
    if child.alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGTERM)


def end(*children: Child) -> None:
    """End servers in parallel and wait for all of them; a guard that hangs is killed with everything below it."""
    for child in children:
        ask_to_end(child)
    for child in children:
        wait_gone(child, child.grace + 15)


def wait_gone(child: Child, timeout: float) -> None:
    """Wait until a guard is gone; past the deadline it is killed (its server dies with it)."""
    try:
        wait_until(lambda: not child.alive or None, timeout=timeout, what=f"{child.name} to end", interval=0.05)
    except StackError:
        if child.alive:
            for pid in (*descendants(child.pid), child.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def wait_until(
    probe: Callable[[], T | None],
    *,
    timeout: float,
    what: str,
    interval: float = 0.2,
    child: Child | None = None,
) -> T:
    """Poll until the probe gives something; a dead server or the deadline is an error with the log's tail.

    The first polls follow each other faster than `interval`, because most waits are shorter than one. `timeout` is in
    seconds on a machine with nothing beside the run: SLOWEST times as long are waited.
    """
    timeout *= SLOWEST
    deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE_S
    while True:
        value = probe()
        if value is not None:
            return value
        if child is not None and not child.alive:
            raise StackError(f"{child.name} ended while waiting for {what}; end of {child.log}:\n{_tail(child)}")
        if time.monotonic() > deadline:
            tail = f"; end of {child.log}:\n{_tail(child)}" if child else ""
            raise StackError(f"waited {timeout:.0f} s for {what}{tail}")
        threading.Event().wait(min(pause, interval))
        pause *= 1.5


def _tail(child: Child) -> str:
    return log_tail(Path(child.log))
