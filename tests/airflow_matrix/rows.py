"""The versions to try, and what an environment of one of them answers."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

AIRFLOW = re.compile(r"apache-airflow(-core|-task-sdk)?$")


@dataclass(frozen=True, slots=True)
class Version:
    """One Airflow on one Python. `day`: only packages that were published before it; what Airflow's own constraints pin
    is what was newest on the day of its release.
    """

    airflow: str
    python: str
    day: str

    @property
    def name(self) -> str:
        return f"{self.airflow}-py{self.python}"


VERSIONS: Final = (
    Version("3.2.0", "3.11", "2026-04-08"),
    Version("3.2.2", "3.12", "2026-05-30"),
    Version("3.3.0", "3.11", "2026-07-07"),
    Version("3.3.2", "3.12", "2026-09-18"),
    Version("3.3.2", "3.13", "2026-09-18"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What was seen. `recovery`: "" if none was asked for, else MATCH or why not."""

    version: Version
    unchanged: bool
    changed: tuple[str, ...]
    passed: int
    failed: int
    seconds: float
    recovery: str = ""
    untried: str = ""

    @property
    def good(self) -> bool:
        tried = not self.untried and self.unchanged and self.passed > 0 and not self.failed
        return tried and self.recovery in ("", "MATCH")

    def text(self) -> str:
        """One line for people."""
        head = f"Airflow {self.version.airflow:8} Python {self.version.python:5}"
        if self.untried:
            return f"{head} not tried: {self.untried}"
        left = "Airflow as it was" if self.unchanged else f"AIRFLOW CHANGED: {', '.join(self.changed)}"
        tests = f"{self.passed} passed, {self.failed} failed"
        recovered = f"  recovery {self.recovery}" if self.recovery else ""
        return f"{head} {left}  {tests}{recovered}  {self.seconds:.0f} s"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "good": self.good}


def frozen(text: str) -> dict[str, str]:
    """Package → version, of `pip freeze`."""
    return dict(line.split("==", 1) for line in text.splitlines() if "==" in line)


def changes(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    """The packages that were there before and have another version now, or none."""
    return tuple(
        f"{name} {version} -> {after.get(name, 'gone')}"
        for name, version in sorted(before.items())
        if after.get(name) != version
    )


def touches_airflow(changed: tuple[str, ...]) -> bool:
    """Whether Airflow itself is among the changed packages."""
    return any(AIRFLOW.match(one.split(" ", 1)[0]) for one in changed)


def counted(output: str) -> tuple[int, int]:
    """How many tests passed and failed, by pytest's closing line; errors count as failed."""
    closing = next(
        (line for line in reversed(output.splitlines()) if re.search(r"\d+ (passed|failed|error)", line)), ""
    )
    found = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?)", closing)}
    return found.get("passed", 0), sum(count for word, count in found.items() if word != "passed")


def written(rows: list[Row]) -> str:
    """The content of build/airflow-matrix.json."""
    return json.dumps([row.to_json() for row in rows], indent=1) + "\n"
