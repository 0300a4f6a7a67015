"""A disk of a few megabytes that can be filled: a tmpfs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system of its own at `folder`."""

    folder: Path

    def touched(self, since_ns: int) -> int:
        """How many of its files and folders were written to, or tried, since then."""
        return sum(path.stat().st_mtime_ns > since_ns for path in [self.folder, *self.folder.rglob("*")])

    @contextmanager
    def filled(self, left: int = 0) -> Iterator[None]:
        """Full but for `left` bytes, until the end of the block."""
        filler = self.folder / "filler"
        free = shutil.disk_usage(self.folder).free
        with filler.open("wb") as out:
            os.posix_fallocate(out.fileno(), 0, max(1, free - left))
        try:
            yield
        finally:
            filler.unlink()


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Disk]:
    """Mount one at `folder`; the test is skipped, with the reason, where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no disk can be filled here: mounting a tmpfs needs root ({done.stderr.strip()})")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
