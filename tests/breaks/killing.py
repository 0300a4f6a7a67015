"""Runs tests/breaks/killed_writes.py in a process that can be killed at a chosen change of a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.breaks.preloaded import library
from tests.paths import ROOT


def killed_at_each_change(folder: Path, **works: int) -> dict[str, Any]:
    """Work → what came of it, killed at every so manieth change of a file (1: at each).

    `changes` that the work makes, `kills`, the states found `before` and `after`, and `faults`.
    """
    env = {**os.environ, "LD_PRELOAD": str(library("kill_at", folder)), "PYTHONPATH": str(ROOT)}
    asked = [f"{name}={every}" for name, every in works.items()]
    argv = [sys.executable, "-m", "tests.breaks.killed_writes", str(folder), *asked]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return dict(zip(works, told, strict=True))
