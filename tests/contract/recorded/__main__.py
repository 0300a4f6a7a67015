"""`make recordings`: record the tests of this folder on real servers, play them several times, and keep those that can be played."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.contract.recorded.shelf import Shelf
from tests.paths import ROOT

PLAYED: Final = 3
HERE: Final = "tests/contract/recorded"
_FAILED: Final = re.compile(rf"^(?:FAILED|ERROR) ({HERE}/test_\w+\.py)::(.+?)(?: - .*)?$", re.MULTILINE)


def run(files: list[str], **environment: str) -> list[tuple[str, str]]:
    """Run the tests of these files; file and name of each that failed."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--tb=no", "--timeout=90", *(files or [HERE])]
    done = subprocess.run(argv, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    print(done.stdout[-1_500:], done.stderr[-1_500:], flush=True)
    return list(dict.fromkeys(_FAILED.findall(done.stdout)))


def main(files: list[str]) -> int:
    run(files, CDC_RECORD="1")
    for _ in range(PLAYED):
        left = set[Shelf]()
        for file, name in run(files):
            print(f"can't be played, so real servers alone are asked: {file}::{name}")
            shelf = Shelf.of(Path(file))
            shelf.takes.pop(name, None)
            left.add(shelf)
        for shelf in left:
            shelf.write()
    return 1 if run(files) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
