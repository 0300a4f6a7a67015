"""Which file a worker of pytest-xdist runs next: the longest first, and those that share a server on one worker.

A folder of tests/integration is a room: its files share a server of their own (Flink, Canal, PostgreSQL, OpenSearch). A
worker that is in a room stays until it is empty, so its server starts once and ends when the worker leaves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import psutil
from xdist.scheduler.loadfile import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# file → seconds that it took; `python -m tests.times keep` writes it from a run on a machine with nothing beside it
KNOWN: Final = Path(__file__).with_name("seconds.json")
# a file that is not in it
BEGIN_S: Final = 10.0
TEST_S: Final = 2.0

# with four on two cores the processors were never idle, and steps that take two seconds took thirty
MOST_PER_CORE: Final = 1.5
# the most that one was seen to hold with its servers and its Spark, and what is left for everything else
WORKER_GB: Final = 4.5
REST_GB: Final = 4.0


def workers(cores: int, gigabytes: float) -> int:
    """How many files run at a time: half of a file is waiting, so three for two cores, where there is memory for their servers."""
    return max(1, min(int(cores * MOST_PER_CORE), int((gigabytes - REST_GB) / WORKER_GB)))


def workers_here() -> int:
    """That for this machine."""
    return workers(os.cpu_count() or 1, psutil.virtual_memory().total / 2**30)


def room(file: str) -> str:
    """The folder whose files share a server; "" where a file shares only what every worker has."""
    parts = PurePosixPath(file).parts[1:-1]
    return "" if parts == ("integration",) else "/".join(parts)


def following(left: Mapping[str, float], visited: Sequence[str], taken: Sequence[str]) -> str:
    """The next file of those left (file → seconds), for a worker that has `visited` rooms while others have `taken` some.

    The last room that it is in; then the room with the most to do that nobody has taken; then the files of no room; then
    whatever is left, so that nobody is idle.
    """
    rooms: dict[str, float] = {}
    for file, seconds in left.items():
        rooms[room(file)] = rooms.get(room(file), 0.0) + seconds
    free = {name: seconds for name, seconds in rooms.items() if name and name not in taken}
    own = [name for name in reversed(visited) if name in rooms and name]
    new = [max(free, key=lambda name: free[name])] if free else []
    chosen = next(iter([*own, *new, *([""] if "" in rooms else [])]), None)
    return max((file for file in left if chosen is None or room(file) == chosen), key=lambda file: left[file])


class ByRoom(LoadFileScheduling):  # type: ignore[misc]
    """Files for workers as `following` says."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self.known: dict[str, float] = json.loads(KNOWN.read_text())
        self.visited: dict[WorkerController, list[str]] = {}

    def _assign_work_unit(self, node: WorkerController) -> None:
        own = self.visited.setdefault(node, [])
        taken = [name for rooms in self.visited.values() for name in rooms]
        left = {file: self.known.get(file, BEGIN_S + TEST_S * len(tests)) for file, tests in self.workqueue.items()}
        file = following(left, own, taken)
        own.append(room(file))
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """One test that waits is enough: more would keep a file from a worker that is idle.

        A worker that replaces one that crashed is asked before it has collected its tests, where another has just done so.
        """
        if node not in self.registered_collections:
            return
        if self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) > 1:
            return
        super()._reschedule(node)
