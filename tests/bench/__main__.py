"""Every bench, one after the other: `python -m tests.bench` (`make bench`), or some: `python -m tests.bench --only large,whole`.

One that does not hold its goal, or fails, does not keep the others from running. At the end, or when it is broken off, every
row is printed with its ratio and goal, and where a goal is not reached, the decision that shows why. All of them take two to
three hours; with `--resume`, what was measured at this commit and was not wrong is not measured again. Ends with 1 if a
bench failed, or a row holds neither its goal nor what that decision says was reached.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.limits import limit_of
from tests.bench.result import FOLDER, MISSED, WRONG

CONSOLE = Console(width=160)
STATUS = FOLDER / "status.json"
_QUIET = {"AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING"}


@dataclass(frozen=True, slots=True)
class Bench:
    """A module of this package with its arguments, and the file that it writes; `{name}` are options of a run."""

    module: str
    result: str
    arguments: tuple[str, ...] = ()
    quiet: bool = False
    """Whether Airflow is asked to log warnings only: each request of a bench of hundreds would be a line."""

    def of(self, options: Mapping[str, str]) -> Bench:
        """With the options of a run."""
        return replace(self, arguments=tuple(word.format(**options) for word in self.arguments))

    @property
    def path(self) -> Path:
        """What it writes."""
        return FOLDER / self.result

    def run(self) -> tuple[int, list[dict[str, Any]]]:
        """Its exit status, and the rows that it wrote."""
        path, began = self.path, time.time()
        status = subprocess.run(
            [sys.executable, "-m", f"tests.bench.{self.module}", *self.arguments],
            check=False,
            env={**os.environ, **(_QUIET if self.quiet else {})},
        ).returncode
        fresh = path.exists() and path.stat().st_mtime >= began
        return status, rows_of(path, self.module) if fresh else []


BENCHES = (
    Bench("front_door", "front_door.json", quiet=True),
    Bench("watch", "watch.json", quiet=True),
    Bench("decode", "decode.json"),
    Bench("apply_batch", "apply_batch.json"),
    Bench("expectations", "expectations.json"),
    Bench("freshness", "freshness.json", ("--minutes", "{minutes}")),
    Bench("in_flight", "in_flight.json", ("--events", "{events}")),
    Bench("many_tables", "many_tables.json", ("--tables", "{tables}")),
    Bench("large", "large.json", ("--rows", "{rows}", "--wide", "{wide}")),
    Bench("source_load", "source_load.json"),
    Bench("cluster", "cluster.json"),
    Bench("small", "small.json"),
)


def main() -> int:
    """Run the benches; 0 if every row holds, or is a limit that a decision explains."""
    asked = _arguments()
    names = set(filter(None, asked.only.split(",")))
    whole = [Bench("whole", f"whole-{rows}.json", ("--rows", rows)) for rows in asked.whole.split(",") if rows]
    chosen = [bench.of(vars(asked)) for bench in (*BENCHES, *whole) if not names or bench.module in names]
    table, good = Table("bench", "row", "ours", "against", "ratio", "goal", "holds"), True
    done = Done(STATUS, commit())
    try:
        for bench in chosen:
            began = time.monotonic()
            if asked.resume and (known := done.status(bench)) is not None:
                status, rows = known, rows_of(bench.path, bench.module)
            else:
                status, rows = bench.run()
                done.note(bench, status if rows else WRONG)
            CONSOLE.print(f"{bench.module}: exit status {status} after {time.monotonic() - began:.0f} s")
            for row in rows:
                table.add_row(bench.module, *cells(row))
            if not rows:
                table.add_row(bench.module, f"no result, exit status {status}")
            good = good and (status == 0 or (status == MISSED and explained(rows)))
    finally:  # broken off after an hour, it still prints what was measured
        CONSOLE.print(table)
    return int(not good)


def commit() -> str:
    """The checkout's commit; empty if there are changes since, or if it is none."""
    words = ("git", "describe", "--always", "--dirty", "--abbrev=40")
    described = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    return "" if described.endswith("-dirty") else described


@dataclass(frozen=True, slots=True)
class Done:
    """What was measured at a commit, in a file: bench with its arguments → exit status."""

    file: Path
    at: str

    def status(self, bench: Bench) -> int | None:
        """How it ended; None if it is to be run: it was not, or at another commit, or what it measured was wrong."""
        status = self._read().get(self._key(bench))
        return status if bench.path.exists() and status in (0, MISSED) else None

    def note(self, bench: Bench, status: int) -> None:
        """Remember how it ended."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        content = {"commit": self.at, "status": self._read() | {self._key(bench): status}}
        self.file.write_text(json.dumps(content, indent=2) + "\n")

    @staticmethod
    def _key(bench: Bench) -> str:
        return " ".join((bench.module, *bench.arguments))

    def _read(self) -> dict[str, int]:
        content = json.loads(self.file.read_text()) if self.file.exists() else {}
        known: dict[str, int] = content.get("status", {}) if self.at and content.get("commit") == self.at else {}
        return known


def explained(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether goals were missed, and a decision shows why of each."""
    missed = [row for row in rows if not row.get("holds")]
    return bool(missed) and all(limit_of(row) for row in missed)


def rows_of(path: Path, name: str) -> list[dict[str, Any]]:
    """The rows in a bench's file; of one that has limits, each with what was found of it."""
    content = json.loads(path.read_text())
    found = content if isinstance(content, list) else [content]
    limited = [of_limit(what, limit) for row in found for what, limit in row.get("limits", {}).items()]
    return limited or [row for row in found if "ratio" in row] or [{"name": f"{name}: see {path}"}]


def of_limit(name: str, limit: Mapping[str, Any]) -> dict[str, Any]:
    """A limit as a row."""
    found, most = limit["found"], limit["limit"]
    ratio = round(found / most, 3)
    return {"name": name, "ours": found, "against": most, "ratio": ratio, "goal": 1.0, "holds": limit["kept"]}


def cells(row: Mapping[str, Any]) -> list[str]:
    """The row as it is printed."""
    limit = limit_of(row)
    holds = "yes" if row.get("holds") else f"no: {limit.decision}" if limit else "no" if "holds" in row else ""
    return [*(str(row.get(key, "")) for key in ("name", "ours", "against", "ratio", "goal")), holds]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", default="", help="names of benches, separated by commas")
    parser.add_argument("--resume", action="store_true", help="leave out what was measured at this commit")
    parser.add_argument("--minutes", default="15", help="how long freshness is watched")
    parser.add_argument("--events", default="500000,5000000", help="events in flight")
    parser.add_argument("--tables", default="100,2000", help="tables of the small pipeline and of the large one")
    parser.add_argument("--rows", default="2000000", help="rows of the narrow table")
    parser.add_argument("--wide", default="100000", help="rows of the wide table")
    parser.add_argument("--whole", default="200000,2000000,10000000", help="rows of whole recoveries")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
