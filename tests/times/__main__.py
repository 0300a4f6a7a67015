"""`python -m tests.times run`: everything that `.ci/run` runs, measured; `python -m tests.times`: what the last run took.

`python -m tests.times near` runs the unit tests that are nearest to what was changed.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.paths import ROOT
from tests.times import nearest
from tests.times.order import KNOWN, workers_here
from tests.times.parts import STEPS
from tests.times.report import RunTimes, by_file, lines
from tests.times.runner import Runner

KEPT: Final = ROOT / "build" / "test-times.json"
# a file that takes less is not worth a line
KEPT_S: Final = 2


def run() -> int:
    """Run everything; the tables stand at the end of what is printed, and in build/test-times.json."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # a shell's background job is started with SIGINT ignored, and so would be what it starts: Runner.end would end nothing
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(Path(scratch))
        try:
            return runner.run(STEPS)
        finally:
            times = runner.times()
            times.write(KEPT)
            print("\n".join(lines(times)), flush=True)


def show() -> int:
    """The tables of the last run."""
    if not KEPT.exists():
        print(f"there is no {KEPT.relative_to(ROOT)}: make test writes it", file=sys.stderr)
        return 2
    print("\n".join(lines(RunTimes.read(KEPT))))
    return 0


def keep() -> int:
    """Keep what each file of the last run took: the longest begin first (tests/times/order.py)."""
    files = by_file(RunTimes.read(KEPT))
    seconds = {one["file"]: round(one["seconds"]) for one in files if one["file"].startswith("tests/")}
    KNOWN.write_text(
        json.dumps({file: took for file, took in sorted(seconds.items()) if took >= KEPT_S}, indent=1) + "\n"
    )
    return 0


def near() -> int:
    """Run the unit tests that are nearest to the changed files."""
    files = nearest.leading_to(nearest.changed_files())
    tests = nearest.chosen(files, json.loads(KNOWN.read_text()))
    if left := len(files) - len(tests):
        print(
            f"{len(tests)} files of tests, the nearest to what you changed; {left} more can be reached by it: make unit"
        )
    command = (sys.executable, "-m", "pytest", *tests, "-n", "auto", "-m", "not slow", "-q")
    return subprocess.run(command, cwd=ROOT, check=False).returncode if tests else 0


def workers() -> int:
    """How many files with servers run at a time here."""
    print(workers_here())
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.times")
    words = {"show": show, "run": run, "keep": keep, "near": near, "workers": workers}
    parser.add_argument("word", nargs="?", choices=tuple(words), default="show")
    return words[parser.parse_args().word]()


if __name__ == "__main__":
    sys.exit(main())
