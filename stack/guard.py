"""Stands between the stack and one server, so that nothing stays behind (run as a script, standard library only).

    python guard.py WATCHED_PID GRACE_SECONDS -- COMMAND...

The guard adopts every orphan below it (child subreaper), so it knows all descendants of the server, also those that
put themselves into sessions of their own (Airflow's task processes, Spark's JVM). It ends all of them
- when it gets SIGTERM or SIGINT: the server gets SIGTERM, after the grace period everything left gets SIGKILL;
- when the watched process ends in any way, SIGKILL included (WATCHED_PID 0: nobody is watched);
- when the server itself ends.
The server gets SIGKILL from the kernel if the guard itself is killed.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process; fails loudly."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


def parents() -> dict[int, int]:
    """Pid → parent pid of every process now."""
    by_pid: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # the command may hold spaces and brackets: the fields begin after the last bracket
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            by_pid[int(entry.name)] = int(fields[1])
    return by_pid


def descendants(root: int) -> tuple[int, ...]:
    """All processes below one, nearest first."""
    tree = parents()

    def below(pid: int) -> Iterator[int]:
        for child in (pid_ for pid_, parent in tree.items() if parent == pid):
            yield child
            yield from below(child)

    return tuple(below(root))


def _kill(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return


def _reap() -> None:
    """Collect every dead child, adopted ones too."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def _end_all() -> None:
    """SIGKILL until no descendant is left: new ones can be born while the list is read."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = descendants(os.getpid())
        if not left:
            return
        for pid in left:
            _kill(pid, signal.SIGKILL)
        select.select([], [], [], 0.05)
        _reap()


class Guard:
    """One server and the two reasons to end it."""

    def __init__(self, watched: int, grace: float, command: list[str]) -> None:
        self.grace = grace
        self.wake, notify = os.pipe()
        os.set_blocking(notify, False)
        signal.set_wakeup_fd(notify, warn_on_full_buffer=False)
        for signum in _ENDING:
            signal.signal(signum, lambda *_: None)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.watched = os.pidfd_open(watched) if watched else None
        # S603: the command is the stack's own
        self.child = subprocess.Popen(command, preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL))  # noqa: PLW1509
        self.child_fd = os.pidfd_open(self.child.pid)

    def wait(self) -> str:
        """Block until there is a reason to end; "server", "signal" or "parent"."""
        poller = select.poll()
        reasons = {self.child_fd: "server", self.wake: "signal"}
        if self.watched is not None:
            reasons[self.watched] = "parent"
        for fd in reasons:
            poller.register(fd, select.POLLIN)
        while True:
            ready = [reasons[fd] for fd, _ in poller.poll(5000)]
            if ready:
                return ready[0]
            self.reap_orphans()

    def reap_orphans(self) -> None:
        """Adopted processes that ended; the server itself is left to Popen."""
        children = (pid for pid, parent in parents().items() if parent == os.getpid() and pid != self.child.pid)
        for pid in children:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue

    def run(self) -> int:
        reason = self.wait()
        if reason != "server":
            self.child.terminate()
        try:
            status = self.child.wait(self.grace)
        except subprocess.TimeoutExpired:
            self.child.kill()
            status = self.child.wait()
        _end_all()
        return status if status >= 0 else 128 - status


def main(argv: list[str]) -> int:
    watched, grace, dashes, *command = argv
    if dashes != "--" or not command:
        print("usage: guard.py WATCHED_PID GRACE_SECONDS -- COMMAND...", file=sys.stderr)
        return 2
    try:
        guard = Guard(int(watched), float(grace), command)
    except ProcessLookupError:
        return 1  # the watched process was gone before its server began
    except OSError as error:
        print(f"guard: can't start {command[0]}: {error}", file=sys.stderr)
        return 127
    return guard.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
