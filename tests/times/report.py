"""The tables of a run: its parts against their budgets, the slowest files, and what was waited for."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.times.sampler import most

SLOWEST: Final = 20
LONGEST_FILE_S: Final = 240.0


@dataclass(frozen=True, slots=True)
class PartTimes:
    """One part of a run. `begun` is in seconds since the run began; `idle`: seconds of cores that nobody used meanwhile."""

    name: str
    begun: float
    seconds: float
    processor: float
    budget: float
    status: int
    files: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "part": self.name,
            "begun": round(self.begun, 1),
            "seconds": round(self.seconds, 1),
            "processor": round(self.processor, 1),
            "budget": self.budget,
            "status": self.status,
            "files": list(self.files),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PartTimes:
        return cls(
            value["part"],
            value["begun"],
            value["seconds"],
            value["processor"],
            value["budget"],
            value["status"],
            tuple(value["files"]),
        )


@dataclass(frozen=True, slots=True)
class RunTimes:
    """A whole run. `idle`: seconds of all cores in which none of them had work; `machine`: what it ran on."""

    date: str
    commit: str
    machine: str
    seconds: float
    idle: float
    parts: tuple[PartTimes, ...] = field(default_factory=tuple)

    def write(self, path: Path) -> None:
        value = {
            "date": self.date,
            "commit": self.commit,
            "machine": self.machine,
            "seconds": round(self.seconds, 1),
            "idle": round(self.idle, 1),
            "parts": [part.to_json() for part in self.parts],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=1))

    @classmethod
    def read(cls, path: Path) -> RunTimes:
        value = json.loads(path.read_text())
        parts = tuple(map(PartTimes.from_json, value["parts"]))
        return cls(value["date"], value["commit"], value["machine"], value["seconds"], value["idle"], parts)


def lines(run: RunTimes) -> list[str]:
    """All tables, as Markdown."""
    files = by_file(run)
    return [
        f"{run.date}, {run.machine}, at {run.commit}: {run.seconds:,.0f} s, and {run.idle:,.0f} s of cores without work.",
        "",
        *_table("part | begun | seconds | processor | budget | ", map(_part_row, run.parts)),
        "",
        *_table(
            "file | worker | tests | seconds | processor | waiting | MB | waits for | ", map(_file_row, files[:SLOWEST])
        ),
        "",
        *_table("what is waited for | seconds | where most of it | ", _wait_rows(files)),
        "",
        *over_budget(run),
    ]


def by_file(run: RunTimes) -> list[Mapping[str, Any]]:
    """The files, the slowest first."""
    return sorted((one for part in run.parts for one in part.files), key=lambda one: -float(one["seconds"]))


def over_budget(run: RunTimes) -> list[str]:
    """What took longer than it may: a warning, because a busy machine makes everything slow."""
    parts = [
        f"over its budget: {part.name} took {part.seconds:,.0f} s of {part.budget:,.0f} s"
        for part in run.parts
        if part.seconds > part.budget
    ]
    files = [
        f"over four minutes: {one['file']} ({one['seconds']:,.0f} s)"
        for one in by_file(run)
        if float(one["seconds"]) > LONGEST_FILE_S
    ]
    return [*parts, *files]


def _table(head: str, rows: Iterable[Sequence[object]]) -> list[str]:
    names = head.rstrip(" |").split(" | ")
    body = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}", *body]


def _part_row(part: PartTimes) -> tuple[object, ...]:
    said = "" if part.status == 0 else " (failed)"
    return (
        f"{part.name}{said}",
        f"{part.begun:,.0f}",
        f"{part.seconds:,.0f}",
        f"{part.processor:,.0f}",
        f"{part.budget:,.0f}",
    )


def _file_row(one: Mapping[str, Any]) -> tuple[object, ...]:
    seconds, processor = float(one["seconds"]), float(one["processor"])
    waits = most(one["waits"])[:3]
    said = ", ".join(f"{name} {value:.0f}" for name, value in waits if value >= 1)
    waiting = max(0.0, seconds - processor)
    return (
        one["file"].removeprefix("tests/"),
        one["worker"],
        one["tests"],
        f"{seconds:.0f}",
        f"{processor:.0f}",
        f"{waiting:.0f}",
        one["megabytes"],
        said,
    )


def _wait_rows(files: Iterable[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    waits: defaultdict[str, float] = defaultdict(float)
    places: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for one in files:
        for kind, value in one["waits"].items():
            waits[kind] += value
        for name, value in one["places"].items():
            kind, _, place = name.partition(" | ")
            places[kind][place] += value
    return [
        (kind, f"{seconds:,.0f}", ", ".join(f"{place} {value:.0f}" for place, value in most(places[kind])[:3]))
        for kind, seconds in most(waits)
        if seconds >= 1
    ]
