"""How a run goes on while a command waits for it: a bar on a terminal, a line for each change elsewhere. On stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from airflow_cdc.cli.trigger import IDLE, QUIET, Ended, Teller
from airflow_cdc.core.text import printable

# a task that will not change by itself any more
OVER = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
ASKS = frozenset({"awaiting_input", "deferred"})


class Lines:
    """Each change of a task's state on a line of its own, as logs want it."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def seen(self, now: Ended) -> None:
        for task, state in now.tasks.items():
            if self._told.get(task) != state and state not in QUIET | IDLE:
                self.say(f"{task}: {state}")
            self._told[task] = state

    def say(self, text: str) -> None:
        print(printable(text), file=sys.stderr)


class Bar:
    """Tasks that are over, of all; beside it what is at work, or waits for a person."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar = progress.add_task("the run is queued", total=None)

    def seen(self, now: Ended) -> None:
        at_work = [_doing(task, state) for task, state in now.tasks.items() if state not in OVER | QUIET]
        over = sum(state in OVER for state in now.tasks.values())
        waits = "waiting for the scheduler" if now.tasks else "the run is queued"
        text = ", ".join(at_work) or (now.state if now.tasks and over == len(now.tasks) else waits)
        self._progress.update(self._bar, completed=over, total=len(now.tasks) or None, description=text, refresh=True)

    def say(self, text: str) -> None:
        self._progress.console.print(printable(text), highlight=False, markup=False, emoji=False)


def _doing(task: str, state: str) -> str:
    return f"{task} waits for an answer" if state in ASKS else task


@contextmanager
def telling(console: Console | None = None) -> Iterator[Teller]:
    """Who is told of a run's progress within the block."""
    shown = console or Console(stderr=True)
    if not shown.is_terminal:
        yield Lines()
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=shown) as progress:
        yield Bar(progress)
