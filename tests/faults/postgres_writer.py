"""Changes the PostgreSQL shop of the kill matrix: about 200 row changes a second, every kind of change on every table.

A process of its own: `python -m tests.faults.postgres_writer SETTINGS.json COUNTS.jsonl`. It ends on SIGTERM; a server that
goes away is waited for. COUNTS.jsonl as that of stack.shop.writer.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from stack.shop.writer import PAUSE, RATE, paced


@dataclass
class Writer:
    """Makes small transactions. `address`: psycopg's connection parameters."""

    address: dict[str, Any]
    stop: threading.Event
    counts: Counter[str] = field(default_factory=Counter)
    born: int = 0
    random: random.Random = field(default_factory=lambda: random.Random(7))
    _connection: psycopg.Connection[Any] | None = None

    def __post_init__(self) -> None:
        self.tag = f"{int(time.time()) % 100_000:05d}"  # a writer started again must not meet its own keys
        self.last_order = int(
            self._connected().execute("SELECT coalesce(max(id), 0) FROM shop.orders").fetchall()[0][0]
        )

    def kept_up(self) -> None:
        """Make a transaction; what was under way when the server went is not counted, whether it was committed or not."""
        try:
            self.transaction(self._connected())
        except psycopg.OperationalError:
            if self._connection is not None and not self._connection.closed:
                raise
            self._connection = None
            self.stop.wait(PAUSE)

    def transaction(self, connection: psycopg.Connection[Any]) -> None:
        """One transaction of about ten row changes; counted when it is committed."""
        pending: Counter[str] = Counter()
        with connection.transaction():
            for table, sql, values in (*self.orders(), *self.customers(), *self.events()):
                pending[table] += connection.execute(sql, values).rowcount
        self.counts.update(pending)

    def orders(self) -> list[tuple[str, str, tuple[Any, ...]]]:
        """A row comes, two change (one of them perhaps with a long value that stays), some go and come again."""
        self.born += 1
        self.last_order += 1
        r = self.random
        changed, doomed = r.randint(1, self.last_order), r.randint(1, self.last_order)
        made = [
            ("INSERT INTO shop.orders (customer, status, amount, placed_at) VALUES (%s, 'new', %s, now())", ("c", 1.5)),
            ("UPDATE shop.orders SET amount = amount + 1 WHERE id = %s", (changed,)),
            ("UPDATE shop.orders SET note = %s WHERE id = %s", (f"upd {r.random()} 😀", changed + 1)),
        ]
        if self.born % 3 == 0:
            made.append(("DELETE FROM shop.orders WHERE id = %s", (doomed,)))
        if self.born % 6 == 0:
            again = "INSERT INTO shop.orders (id, customer, status, amount, placed_at) VALUES (%s, 'again', 'paid', 1, now())"
            made.append((f"{again} ON CONFLICT DO NOTHING", (doomed,)))
        return [("orders", sql, values) for sql, values in made]

    def customers(self) -> list[tuple[str, str, tuple[Any, ...]]]:
        """A row comes, its key changes, others change and go."""
        code, r = f"New-{self.tag}-{self.born}", self.random
        made = [
            ("INSERT INTO shop.customers (code, name, created_at) VALUES (%s, 'born', now())", (code,)),
            ("UPDATE shop.customers SET code = %s, balance = balance + 1 WHERE code = %s", (f"{code}-moved", code)),
            ("UPDATE shop.customers SET name = 'renamed  ' WHERE code = %s", (f"Cust-{r.randint(0, 2000)}",)),
        ]
        if self.born % 5 == 0:
            made.append(("DELETE FROM shop.customers WHERE code = %s", (f"{code}-moved",)))
        return [("customers", sql, values) for sql, values in made]

    def events(self) -> list[tuple[str, str, tuple[Any, ...]]]:
        """Two equal rows come; now and then some go, of which others stay."""
        kind = self.random.choice(("view", "click", "buy"))
        row = "('2026-01-01 00:00:00', %s, 'dup')"
        made: list[tuple[str, str, tuple[Any, ...]]] = [
            ("events", f"INSERT INTO shop.events VALUES {row}, {row}", (kind, kind))
        ]
        if self.born % 10 == 0:
            some = "SELECT ctid FROM shop.events WHERE kind = %s AND payload = 'dup' LIMIT 5"
            made.append(("events", f"DELETE FROM shop.events WHERE ctid IN ({some})", (kind,)))
        return made

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(**self.address, autocommit=True, connect_timeout=10)
        return self._connection


def main(settings: str, counts: str) -> None:
    """Write until SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    writer = Writer(json.loads(Path(settings).read_text()), stop)
    paced(writer.kept_up, writer.counts, RATE, Path(counts), stop)


if __name__ == "__main__":
    main(*sys.argv[1:3])
