"""Many changes a second by few statements: `python -m tests.load.writer SETTINGS COUNTS RATE`; ends on SIGTERM."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pymysql

from stack.shop.writer import connected, kept_up, paced

UPDATES, INSERTS, DELETES, EVENTS = 60, 20, 15, 5


def transaction(connection: pymysql.connections.Connection[Any], dice: random.Random) -> Counter[str]:
    """About a hundred row changes in orders and events; how many in each."""
    rows = ", ".join(["('load', 'new', 1, NOW(3))"] * INSERTS)
    events = ", ".join(["('2026-01-01 00:00:00', 'view', 'load')"] * EVENTS)
    statements = (
        ("orders", f"UPDATE orders SET amount = amount + 1 WHERE id >= {place(dice)} ORDER BY id LIMIT {UPDATES}"),
        ("orders", f"INSERT INTO orders (customer, status, amount, placed_at) VALUES {rows}"),
        ("orders", f"DELETE FROM orders WHERE id >= {place(dice)} ORDER BY id LIMIT {DELETES}"),
        ("events", f"INSERT INTO events VALUES {events}"),
    )
    changed: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for table, sql in statements:
            changed[table] += cursor.execute(sql)
    connection.commit()
    return changed


def place(dice: random.Random) -> int:
    """Some order's id."""
    return dice.randint(1, 80_000)


def main(settings: str, counts: str, rate: str) -> None:
    """Write until SIGTERM."""
    connection, stop = connected(settings)
    dice, made = random.Random(7), Counter[str]()

    def once() -> None:
        made.update(transaction(connection, dice))

    paced(lambda: kept_up(connection, once, stop), made, int(rate), Path(counts), stop)


if __name__ == "__main__":
    main(*sys.argv[1:4])
