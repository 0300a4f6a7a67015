"""Many changes a second by few statements: `python -m tests.load.writer SETTINGS COUNTS RATE`; ends on SIGTERM.

A line of COUNTS is `{"t": unix seconds, "changes": row changes committed so far}`, one a second.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql

from demo.dataset import SCHEMA
from demo.world import World

PAUSE = 0.02
UPDATES, INSERTS, DELETES, EVENTS = 60, 20, 15, 5


def transaction(connection: pymysql.connections.Connection[Any], dice: random.Random) -> int:
    """About a hundred row changes in orders and events; returns how many."""
    place = dice.randint(1, 80_000)
    rows = ", ".join(["('load', 'new', 1, NOW(3))"] * INSERTS)
    events = ", ".join(["('2026-01-01 00:00:00', 'view', 'load')"] * EVENTS)
    statements = (
        f"UPDATE orders SET amount = amount + 1 WHERE id >= {place} ORDER BY id LIMIT {UPDATES}",
        f"INSERT INTO orders (customer, status, amount, placed_at) VALUES {rows}",
        f"DELETE FROM orders WHERE id >= {dice.randint(1, 80_000)} ORDER BY id LIMIT {DELETES}",
        f"INSERT INTO events VALUES {events}",
    )
    with connection.cursor() as cursor:
        changed = sum(cursor.execute(sql) for sql in statements)
    connection.commit()
    return changed


def run(connection: pymysql.connections.Connection[Any], counts: Path, rate: int, stop: threading.Event) -> None:
    """Keep to `rate` row changes a second until `stop` is set; a server that is slower sets the pace."""
    dice, began, said, changes = random.Random(7), time.monotonic(), 0.0, 0
    with counts.open("a") as out:
        while not stop.is_set():
            if changes < (time.monotonic() - began) * rate:
                changes += transaction(connection, dice)
            else:
                stop.wait(PAUSE)
            if time.monotonic() - said >= 1:
                said = time.monotonic()
                out.write(json.dumps({"t": time.time(), "changes": changes}) + "\n")
                out.flush()


@contextmanager
def heavy_writer(world: World, rate: int) -> Iterator[Path]:
    """The writer as a process of its own for the block; yields the file that it counts in."""
    settings, counts = world.folder / "heavy.json", world.folder / f"heavy-{rate}.jsonl"
    counts.unlink(missing_ok=True)
    with os.fdopen(os.open(settings, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(world.admin, out)
    argv = [sys.executable, "-m", "tests.load.writer", str(settings), str(counts), str(rate)]
    process = subprocess.Popen(argv)
    try:
        yield counts
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)
        settings.unlink()
    if code != 0:
        raise RuntimeError(f"the writer ended with {code}")


def main(settings: str, counts: str, rate: str) -> None:
    """Write until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    address = json.loads(Path(settings).read_text())
    connection = pymysql.connect(**address, database=SCHEMA, charset="utf8mb4", autocommit=False)
    run(connection, Path(counts), int(rate), stop)


if __name__ == "__main__":
    main(*sys.argv[1:4])
