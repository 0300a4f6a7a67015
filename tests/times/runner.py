"""Runs parts beside and after each other, and measures them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from tests.paths import ROOT
from tests.times.parts import Part
from tests.times.plugin import WHERE
from tests.times.report import PartTimes, RunTimes


class Runner:
    """Runs parts beside and after each other, and ends all of them if it is ended."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.begun = time.monotonic()
        self.idle = psutil.cpu_times().idle
        self.parts: list[PartTimes] = []
        self.running: set[subprocess.Popen[bytes]] = set()

    def run(self, steps: Sequence[Sequence[Sequence[Part]]]) -> int:
        """Every step until one fails; 0 if none did."""
        for lanes in steps:
            with ThreadPoolExecutor(len(lanes)) as pool:
                try:
                    done = [pool.submit(self.lane, lane, shown=number == 0) for number, lane in enumerate(lanes)]
                    statuses = [one.result() for one in done]
                except BaseException:
                    self.end()
                    raise
            if any(statuses):
                return 1
        return 0

    def lane(self, lane: Sequence[Part], *, shown: bool) -> int:
        """One part after the other, until one fails."""
        for part in lane:
            status = self.part(part, shown=shown)
            if status:
                return status
        return 0

    def part(self, part: Part, *, shown: bool) -> int:
        """Run one command. What it prints is shown now, or when it has ended, so that two don't mix."""
        name = part.name.replace(" ", "-")
        begun, files, log = time.monotonic(), self.scratch / f"{name}.json", self.scratch / f"{name}.log"
        program = Path(sys.executable).with_name(part.command[0])
        command = [str(program if program.exists() else part.command[0]), *part.command[1:]]
        print(f"--- {part.name}: {' '.join(part.command)}", flush=True)
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, WHERE: str(files)},
                stdin=subprocess.DEVNULL,
                stdout=None if shown else out,
                stderr=None if shown else subprocess.STDOUT,
                process_group=0,
            )
            self.running.add(process)
            _, waited, usage = os.wait4(process.pid, 0)
            self.running.discard(process)
        process.returncode = os.waitstatus_to_exitcode(waited)
        if not shown:
            print(f"--- {part.name}, which ran beside:\n{log.read_text(errors='replace')}", flush=True)
        measured: list[dict[str, Any]] = json.loads(files.read_text()) if files.exists() else []
        self.parts.append(
            PartTimes(
                part.name,
                begun - self.begun,
                time.monotonic() - begun,
                usage.ru_utime + usage.ru_stime,
                part.budget,
                process.returncode,
                tuple(measured),
            )
        )
        return process.returncode

    def end(self) -> None:
        """Do to what runs what Ctrl-C does: pytest then ends its servers. Each is a group of its own, so that it gets one."""
        for process in tuple(self.running):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)

    def times(self) -> RunTimes:
        """What was measured until now."""
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        memory = psutil.virtual_memory().total / 2**30
        return RunTimes(
            f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
            commit.stdout.strip() or "no commit",
            f"{os.cpu_count()} cores, {memory:.0f} GB",
            time.monotonic() - self.begun,
            psutil.cpu_times().idle - self.idle,
            tuple(sorted(self.parts, key=lambda part: part.begun)),
        )
