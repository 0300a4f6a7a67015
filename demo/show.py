"""What the demo prints: a line per event with its time, a progress bar per run, tables at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

QUOTED = 600  # characters
_DONE = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
_MARKS = {"success": "[green]✓[/]", "failed": "[red]✗[/]", "skipped": "[dim]–[/]", "upstream_failed": "[red]·[/]"}


class Show:
    """The demo's terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def title(self, text: str) -> None:
        self.console.rule(f"[bold]{escape(text)}")

    def line(self, text: str, seconds: float | None = None) -> None:
        took = "" if seconds is None else f" [dim]{seconds:.1f} s[/]"
        self.console.print(f"• {escape(text)}{took}")

    def problem(self, text: str) -> None:
        self.console.print(f"[red]✗ {escape(text)}[/]", markup=True)

    def quote(self, text: str) -> None:
        """What a system says, its long middle left out: the reason stands at the end."""
        said = text if len(text) <= QUOTED else f"{text[: QUOTED // 2]} … {text[-QUOTED // 2 :]}"
        self.console.print(f"  [red]{escape(said)}[/]", soft_wrap=True)

    def bar(self) -> Progress:
        """A progress bar over the tasks of a run."""
        return Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=self.console, transient=True,
        )  # fmt: skip

    def step(self, task: Mapping[str, Any]) -> None:
        """One ended Airflow task with its time."""
        mark = _MARKS.get(str(task["state"]), "?")
        self.console.print(f"  {mark} {task['task_id']:<24} [dim]{float(task.get('duration') or 0):6.1f} s[/]")

    def tables(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        made = Table(title=escape(title), title_justify="left")
        for number, column in enumerate(columns):
            made.add_column(escape(column), justify="left" if number == 0 else "right")
        for row in rows:
            made.add_row(*(escape(str(value)) for value in row))
        self.console.print(made)

    def addresses(self, world: Any, airflow: Any) -> None:
        """Where everything is, for a demo that is kept running."""
        server = world.shop.server
        self.title("left running: python -m stack down --dir build/demo ends it")
        self.line(f"Airflow  {airflow.url}  user {airflow.user}, password in {airflow.home}/passwords.json")
        self.line(f"{world.shop.title:<8} {server.host}:{server.port}, passwords in {world.folder}/stack.json")
        self.line(f"Connect  {world.stack.connect.url}")
        self.line(f"Kafka    {world.bootstrap}")


def ended(task: Mapping[str, Any]) -> bool:
    """Whether a task instance has reached a final state."""
    return task["state"] in _DONE
