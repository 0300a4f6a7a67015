"""Processor time, from /proc (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
# of the line `cpu` in /proc/stat, which is user, nice, system, idle, iowait, irq, softirq …
_BUSY = (0, 1, 2, 5, 6)


def seconds(root: int | None = None) -> float:
    """Of a process (by default this one) and all its children, those that have ended included."""
    stats: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:  # ended meanwhile
            continue
        stats[int(path.parent.name)] = (int(fields[1]), sum(int(text) for text in fields[11:15]))
    ticks, waiting = 0, [root or os.getpid()]
    while waiting:
        pid = waiting.pop()
        ticks += stats[pid][1]
        waiting += [child for child, (parent, _) in stats.items() if parent == pid]
    return ticks / _TICKS


def of_machine() -> float:
    """Of everything on this machine since it was started."""
    times = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return sum(int(times[at]) for at in _BUSY) / _TICKS
