"""Which fast tests execute which lines: one record for each file of tests, kept under build/ and made anew when that file changes.

The code moves on after a record was made. A line is found again by comparing the text that was recorded with today's.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tests.mutants.change import IMPORTED, Change, cached, read, scopes
from tests.mutants.readers import reading
from tests.paths import ROOT

KEPT: Final = ROOT / "build" / "mutants"
FAST: Final = ("tests/unit", "tests/contract")
# tests of the tools, of pages and of other people's programs: none of them is about a room
NOT_OF_ROOMS: Final = ("adversary", "bench", "demo", "docs", "fuzz", "house", "stack", "times", "mutants")
# processor seconds of tests for one change: the fastest that execute the line come first
BUDGET_S: Final = 12.0
# what it costs to import a file of tests and what it tests
FILE_S: Final = 0.4
RECORD_LIMIT_S: Final = 7_200.0


def files_of_tests(only: Iterable[str] = ()) -> list[str]:
    """The files of fast tests, relative to the repository."""
    found = (
        path.relative_to(ROOT).as_posix() for folder in FAST for path in sorted((ROOT / folder).rglob("test_*.py"))
    )
    wanted = tuple(only)
    return [
        file
        for file in found
        if file.split("/")[2] not in NOT_OF_ROOMS and (not wanted or any(one in file for one in wanted))
    ]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _record_of(file: str) -> Path:
    return KEPT / "executed" / f"{file.replace('/', '.')}.json"


def _kept(file: str) -> dict[str, Any] | None:
    """A test file's record, if it is of the file as it is."""
    path = _record_of(file)
    if not path.exists():
        return None
    made: dict[str, Any] = json.loads(path.read_text())
    return made if made["digest"] == _digest((ROOT / file).read_bytes()) else None


def bring_up_to_date(only: Iterable[str] = ()) -> None:
    """Record the test files that have no record, or were changed since."""
    from tests.mutants.nursery import record

    missing: dict[str, list[str]] = defaultdict(list)
    for file in files_of_tests(only):
        if _kept(file) is None:
            missing[file.rpartition("/")[0]].append(file)
    for folder, files in missing.items():
        print(f"recording {len(files)} files of {folder}", file=sys.stderr, flush=True)
        raw = KEPT / "executed" / "raw"
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.unlink(missing_ok=True)
        record(files, raw, RECORD_LIMIT_S)
        if raw.exists():
            for file, made in _each(files, json.loads(raw.read_text())):
                _record_of(file).write_text(json.dumps(made))
            raw.unlink()


def _each(files: Iterable[str], raw: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What was recorded, for each file of tests by itself."""
    # the code may have moved on while the tests ran
    sources = {name: _keep_source(name) for name in raw["lines"] if (ROOT / name).exists()}
    for file in files:
        lines = {}
        for name in sources:
            tests_by_line = raw["lines"][name]
            kept = {
                line: [test for test in tests if not test or test.partition("::")[0] == file]
                for line, tests in tests_by_line.items()
            }
            if any(any(tests) for tests in kept.values()):
                lines[name] = {line: tests for line, tests in kept.items() if tests}
        seconds = {test: took for test, took in raw["tests"].items() if test.partition("::")[0] == file}
        used = {name: sources[name] for name in lines}
        yield file, {"digest": _digest((ROOT / file).read_bytes()), "tests": seconds, "lines": lines, "sources": used}


def _keep_source(file: str) -> str:
    """Keep a source file's text under its digest: lines are found again by it."""
    data = (ROOT / file).read_bytes()
    path = KEPT / "sources" / _digest(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path.name


@lru_cache(maxsize=2_000)
def _moved(file: str, digest: str) -> dict[int, int] | None:
    """Recorded line → today's line; None if the file is the same."""
    now = read(file)
    if _digest(now) == digest:
        return None
    before = (KEPT / "sources" / digest).read_bytes().splitlines()
    pairs = difflib.SequenceMatcher(None, before, now.splitlines(), autojunk=False).get_matching_blocks()
    return {block.a + i + 1: block.b + i + 1 for block in pairs for i in range(block.size)}


@dataclass(slots=True)
class Executed:
    """The records of all fast tests together.

    Attributes:
        seconds: test → processor seconds.
        lines: file → line → the tests that execute it, not counting what runs when the module is imported.
        at_import: file → the lines in functions that also run when a module is imported.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    at_import: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def read(cls) -> Executed:
        """The records that are of today's test files."""
        found = cls()
        for file in files_of_tests():
            if (record := _kept(file)) is not None:
                found.add(file, record)
        return found

    def add(self, file: str, record: dict[str, Any]) -> None:
        """Add one test file's record."""
        self.seconds |= record["tests"]
        for source, lines in record["lines"].items():
            if not (ROOT / source).exists():
                continue
            moved = _moved(source, record["sources"][source])
            here = self.lines[source]
            for text, tests in lines.items():
                line = int(text) if moved is None else moved.get(int(text), 0)
                if "" in tests:
                    self.at_import[source].add(line)
                here[line].update(test for test in tests if test in record["tests"])

    def tests(self, change: Change) -> list[str]:
        """The tests that execute the changed line, the fastest first, as many as the budget allows.

        What runs at import, and a function whose results are kept, has no tests of its own: then come those that execute
        a line which reads it, and those that execute anything else in the file.
        """
        by_line = self.lines.get(change.file, {})
        direct = self._of_lines(change, by_line)
        if change.scope != IMPORTED and not cached(change.file, change.scope):
            return self._within_budget([direct])
        readers = {test for file, line in reading(change) for test in self.lines.get(file, {}).get(line, ())}
        files = {test.partition("::")[0] for test in self.seconds}
        naming = {file for file in files if _module(change.file) in _text(file)}
        by_file = {test for test in self.seconds if test.partition("::")[0] in naming}
        return self._within_budget([direct, readers & by_file, readers, by_file])

    def _of_lines(self, change: Change, by_line: dict[int, set[str]]) -> set[str]:
        """The tests of the changed statement's first executed line; of its function, if the line is newer than the records."""
        if found := by_line.get(change.line):
            return found
        around = [scope for scope in scopes(change.file) if scope.name == change.scope]
        inside = [tests for line, tests in by_line.items() for s in around if s.first <= line <= s.last]
        before = [line for s in around for line in by_line if s.first <= line < change.line and by_line[line]]
        if before:  # a statement of several lines counts where it begins
            return by_line[max(before)]
        return set().union(*inside) if inside else set()

    def _within_budget(self, tiers: list[set[str]]) -> list[str]:
        chosen: dict[str, None] = {}
        files: set[str] = set()
        left = BUDGET_S
        for tier in tiers:
            for test in sorted(tier, key=lambda name: (self.seconds.get(name, 0.0), name)):
                file = test.partition("::")[0]
                cost = self.seconds.get(test, 0.0) + (0.0 if file in files else FILE_S)
                if test not in chosen and (cost <= left or not chosen):
                    chosen[test] = None
                    files.add(file)
                    left -= cost
        return list(self._by_file(chosen))

    def _by_file(self, tests: Iterable[str]) -> Iterator[str]:
        """File by file, so that what a file's tests share is made once."""
        files: dict[str, list[str]] = {}
        for test in tests:
            files.setdefault(test.partition("::")[0], []).append(test)
        for of_file in files.values():
            yield from of_file


@lru_cache(maxsize=1_000)
def _text(file: str) -> str:
    return (ROOT / file).read_text()


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
