"""Guarded processes: nothing stays behind, and nothing that is not ours is ever ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import cluster
from stack.errors import StackError, UnavailableError
from stack.guard import descendants
from stack.process import Child, end, spawn, start_time, wait_until

# a server with a child in a session of its own and one that ignores SIGTERM: both are missed by a plain kill of a group
FAMILY = "setsid sleep 300 & (trap '' TERM; sleep 301; sleep 302) & echo started; wait"


def gone(pids: tuple[int, ...]) -> bool | None:
    return all(start_time(pid) is None for pid in pids) or None


def family_of(child: Child, count: int) -> tuple[int, ...]:
    """The guard and everything below it, once the server has its children."""
    pids = wait_until(
        lambda: tree if len(tree := descendants(child.pid)) >= count else None, timeout=10, what="the family"
    )
    return (child.pid, *pids)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    made: list[Child] = []

    def make(script: str, **options: object) -> Child:
        log = tmp_path / "server.log"
        made.append(spawn("server", ["/bin/sh", "-c", script], log=log, **{"grace": 1.0, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    end(*made)


def test_the_end_takes_every_descendant_along(started: Callable[..., Child]) -> None:
    child = started(FAMILY)
    pids = family_of(child, 4)
    end(child)
    assert gone(pids)


def test_a_server_that_ends_takes_its_children_along(started: Callable[..., Child], tmp_path: Path) -> None:
    child = started(f"setsid sleep 300 & until test -e {tmp_path}/end; do sleep 0.05; done; exit 3")
    pids = family_of(child, 2)
    (tmp_path / "end").touch()
    assert wait_until(lambda: gone(pids), timeout=10, what="all to be gone")


def test_a_killed_guard_takes_its_server_along(started: Callable[..., Child]) -> None:
    child = started("exec sleep 300")
    pids = family_of(child, 1)
    os.kill(child.pid, signal.SIGKILL)
    assert wait_until(lambda: gone(pids), timeout=10, what="all to be gone")


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_process_that_started_it(tmp_path: Path, signum: signal.Signals) -> None:
    code = (
        "import sys, pathlib\nfrom stack.process import spawn\n"
        f"child = spawn('server', ['/bin/sh', '-c', {FAMILY!r}], log=pathlib.Path(sys.argv[1]), grace=1.0)\n"
        "print(child.pid, flush=True)\nsys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "server.log")]
    parent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert parent.stdout is not None
    guard = int(parent.stdout.readline())
    pids = family_of(Child("server", guard, start_time(guard) or -1, ""), 4)
    parent.send_signal(signum)
    parent.communicate(timeout=10)
    assert wait_until(lambda: gone(pids), timeout=15, what="all to be gone")


def test_a_kept_server_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\nfrom stack.process import spawn\n"
        "child = spawn('server', ['/bin/sleep', '300'], log=pathlib.Path(sys.argv[1]), keep=True, grace=1.0)\n"
        "print(child.pid, child.started, flush=True)\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "server.log")]
    pid, started = map(int, subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    child = Child("server", pid, started, str(tmp_path / "server.log"), grace=1.0)
    try:
        assert child.alive
    finally:
        end(child)
    assert not child.alive


def test_a_pid_that_belongs_to_another_process_now_is_left_alone() -> None:
    other = subprocess.Popen(["/bin/sleep", "300"])
    try:
        stale = Child("server", other.pid, (start_time(other.pid) or 0) - 1, "", grace=1.0)
        end(stale)
        assert not stale.alive
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_server_that_dies_while_one_waits_is_an_error_with_its_log(started: Callable[..., Child]) -> None:
    child = started("echo it hurts here; exit 1")
    with pytest.raises(StackError, match=r"server ended while waiting for its port[\s\S]*it hurts here"):
        wait_until(lambda: None, timeout=20, what="its port", child=child)


def test_the_deadline_names_what_was_waited_for() -> None:
    with pytest.raises(StackError, match=r"waited 0 s for a miracle"):
        wait_until(lambda: None, timeout=0, what="a miracle")


def test_a_command_that_does_not_exist_is_said_in_the_log(tmp_path: Path) -> None:
    child = spawn("server", ["/no/such/program"], log=tmp_path / "server.log")
    with pytest.raises(StackError, match="can't start /no/such/program"):
        wait_until(lambda: None, timeout=20, what="its port", child=child)


def test_a_folder_without_a_stack_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no stack in"):
        cluster.down(tmp_path)


def test_wipe_leaves_a_folder_that_is_no_stack_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    cluster.wipe(tmp_path)
    assert (tmp_path / "mine.txt").exists()


@pytest.mark.parametrize(
    ("services", "said"), [(("mysql", "mongo"), "unknown service 'mongo'"), (("connect",), "connect needs kafka")]
)
def test_services_that_make_no_sense_are_refused(tmp_path: Path, services: tuple[str, ...], said: str) -> None:
    with pytest.raises(UnavailableError, match=said):
        cluster.start(tmp_path / "s", services)
