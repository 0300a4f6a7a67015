"""Looks at one process five times a second, and says by file what it waited for, computed and held in memory."""

from __future__ import annotations

import faulthandler
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final

import psutil

from tests.times import waits

LOOK_S: Final = 0.2
MEMORY_S: Final = 5.0
MEGABYTE: Final = 1024 * 1024
# what is kept of the places that waited
PLACES: Final = 8
PLACE_S: Final = 1.0


@dataclass(slots=True)
class FileTimes:
    """One file's run on one worker.

    Attributes:
        seconds: by the clock.
        processor: seconds of the worker, of its servers and of all that they started.
        waits: seconds by what the test's thread waited for.
        places: seconds by what was waited for, and the function that did.
        megabytes: the most that the worker and its servers held, pages that they share counted once.
    """

    file: str
    worker: str
    seconds: float = 0.0
    processor: float = 0.0
    tests: int = 0
    waits: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    places: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    megabytes: int = 0

    def to_json(self) -> dict[str, Any]:
        places = [(name, round(value, 1)) for name, value in most(self.places)[:PLACES] if value >= PLACE_S]
        return {
            "file": self.file,
            "worker": self.worker,
            "seconds": round(self.seconds, 2),
            "processor": round(self.processor, 2),
            "tests": self.tests,
            "megabytes": self.megabytes,
            "waits": {name: round(value, 2) for name, value in most(self.waits)},
            "places": dict(places),
        }


def most(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    """The most seconds first."""
    return sorted(seconds.items(), key=lambda one: -one[1])


class Sampler:
    """A thread that looks at the one that made it. Files follow each other: `open` ends the one before."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.files: dict[str, FileTimes] = {}
        self._process = psutil.Process()
        self._watched = threading.get_ident()
        self._current: FileTimes | None = None
        self._since = (time.monotonic(), 0.0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="times", daemon=True)
        self._thread.start()

    def open(self, file: str) -> FileTimes:
        """What is measured from now on belongs to this file."""
        if self._current is None or self._current.file != file:
            self.close()
            self._since = (time.monotonic(), processor_time(self._process))
            self._current = self.files.setdefault(file, FileTimes(file, self.worker))
        return self._current

    def close(self) -> None:
        """What is measured from now on belongs to no file."""
        if (one := self._current) is not None:
            self._current = None
            clock, processor = self._since
            one.seconds += time.monotonic() - clock
            one.processor += processor_time(self._process) - processor

    def stop(self) -> list[dict[str, Any]]:
        """End; what was measured."""
        self.close()
        self._ended.set()
        self._thread.join()
        return [one.to_json() for one in self.files.values()]

    def _look(self) -> None:
        with tempfile.TemporaryFile() as scratch:
            self._look_on(scratch)

    def _look_on(self, scratch: IO[bytes]) -> None:
        before = weighed = time.monotonic()
        while not self._ended.wait(LOOK_S):
            now, one = time.monotonic(), self._current
            if one is None:
                before = now
                continue
            wait = waits.read(waits.calls(dumped(scratch), self._watched))
            one.waits[wait.kind] += now - before
            if wait.where and wait.kind != waits.COMPUTES:
                one.places[f"{wait.kind} | {wait.where}"] += now - before
            before = now
            if now > weighed + MEMORY_S:
                weighed = now
                one.megabytes = max(one.megabytes, memory(self._process) // MEGABYTE)


def dumped(scratch: IO[bytes]) -> str:
    """What every thread is in, written by one call that holds the interpreter.

    Frames that are walked one by one belong to a thread that goes on meanwhile: Python 3.11 gave a code object in place of one
    (once in 7,400 tests), and ended the process (once in 1,500).
    """
    scratch.seek(0)
    scratch.truncate()
    faulthandler.dump_traceback(file=scratch.fileno())
    scratch.seek(0)
    return scratch.read().decode(errors="replace")


def tree(root: psutil.Process) -> list[psutil.Process]:
    """A process and everything below it."""
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def processor_time(root: psutil.Process) -> float:
    """Seconds that a process and everything below it computed; what has ended is counted by its parent."""
    total = 0.0
    for process in tree(root):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def memory(root: psutil.Process) -> int:
    """Bytes of a process and everything below it: each one's own pages, and once the most that one shares."""
    own, shared = 0, 0
    for process in tree(root):
        try:
            info = process.memory_info()
        except psutil.Error:
            continue
        own, shared = own + info.rss - info.shared, max(shared, info.shared)
    return own + shared
