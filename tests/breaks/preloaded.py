"""Libraries that a process is started with (LD_PRELOAD): one kills it at a change of a file, one shifts its clock."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

SOURCES: Final = Path(__file__).with_name("preload")


def library(name: str, folder: Path) -> Path:
    """`name`.c, compiled into `folder`; the test is skipped, with the reason, where no C compiler is."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) is here, and without one no process can be struck at a chosen call")
    made = folder / f"{name}.so"
    argv = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(SOURCES / f"{name}.c"), "-ldl"]
    subprocess.run(argv, check=True, timeout=120)
    return made


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that can be shifted while its processes run. `env`: what they are started with."""

    library: Path
    file: Path

    @classmethod
    def make(cls, folder: Path) -> Clock:
        """In `folder`, not shifted."""
        made = cls(library("clock", folder), folder / "shift")
        made.file.write_bytes(struct.pack("l", 0))
        return made

    @property
    def env(self) -> dict[str, str]:
        """What a process is started with to have this clock."""
        return {"LD_PRELOAD": str(self.library), "CLOCK_SHIFT": str(self.file)}

    def shift(self, seconds: int) -> None:
        """Let the clock go so many seconds ahead of the machine's, or behind it, from now on."""
        with self.file.open("r+b") as out, mmap.mmap(out.fileno(), 0) as page:
            page[:] = struct.pack("l", seconds)
