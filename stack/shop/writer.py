"""A writer that keeps changing the shop: at least 200 row changes a second over all tables, counted as it goes.

Run as a process of its own: `python -m stack.shop.writer SETTINGS.json COUNTS.jsonl`. It ends on SIGTERM. A line of
COUNTS.jsonl is `{"t": unix seconds, "changes": changes so far, "tables": {table: changes so far}}`, one a second.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pymysql

from stack.shop.dataset import SCHEMA, insert_all_types

RATE = 230  # changes a second aimed at, above the 200 that are asked for
RETRIED = (1205, 1213)  # lock wait timeout, deadlock
LOST = (2003, 2006, 2013)  # no server, server gone, lost in the middle of a statement
PAUSE = 0.05  # the loop wakes this often and does what is due


class Writer:
    """Makes small transactions at an even rate; every kind of change on every table."""

    SQL: ClassVar[Mapping[str, str]] = {
        "highest": "SELECT COALESCE(MAX(id), 0) FROM orders",
        "order": "INSERT INTO orders (customer, status, amount, placed_at) VALUES (%s, 'new', %s, NOW(3))",
        "order changed": "UPDATE orders SET amount = amount + 1, note = %s WHERE id = %s",
        "order gone": "DELETE FROM orders WHERE id = %s",
        "order again": "INSERT IGNORE INTO orders (id, customer, status, amount, placed_at) VALUES (%s, 'again', 'paid', 1, NOW(3))",
        "item": "REPLACE INTO order_items VALUES (%s, %s, %s, %s, %s)",
        "item changed": "UPDATE order_items SET qty = qty + 1 WHERE order_id = %s AND line = 1",
        "item gone": "DELETE FROM order_items WHERE order_id = %s AND line = 2",
        "customer": "INSERT INTO customers (code, name, created_at) VALUES (%s, %s, NOW(6))",
        "customer moved": "UPDATE customers SET code = %s WHERE code = %s",
        "customer moved on": "UPDATE customers SET code = %s, balance = balance + 1 WHERE code = %s",
        "customer renamed": "UPDATE customers SET name = %s WHERE code = %s",
        "customer gone": "DELETE FROM customers WHERE code = %s",
        "events": "INSERT INTO events VALUES ('2026-01-01 00:00:00', %s, 'dup'), ('2026-01-01 00:00:00', %s, 'dup')",
        "events gone": "DELETE FROM events WHERE kind = %s AND payload = 'dup' LIMIT 5",
    }  # fmt: skip
    all_types_row: Callable[[int, int], str] = staticmethod(insert_all_types)

    def __init__(self, connection: Any, seed: int) -> None:
        self.connection = connection
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.pending: Counter[str] = Counter()
        with connection.cursor() as cursor:
            cursor.execute(self.SQL["highest"])
            self.last_order = int(cursor.fetchall()[0][0])
        self.born = 0
        self.tag = f"{int(time.time()) % 100_000:05d}"  # a writer started again must not meet its own keys

    def change(self, table: str, what: str, *values: Any) -> None:
        """Run one statement of SQL and count the rows it changed."""
        self.pending[table] += self.execute(self.SQL[what], values)

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        """Run a statement; the rows it changed."""
        with self.connection.cursor() as cursor:
            return int(cursor.execute(sql, values))

    def begin(self) -> None:
        """Begin a transaction."""
        self.connection.begin()

    def transaction(self) -> None:
        """One transaction of about ten row changes over all tables; counted when it is committed."""
        self.pending.clear()
        self.begin()
        for act in (self.orders, self.items, self.customers, self.events, self.all_types):
            act()
        self.connection.commit()
        self.counts.update(self.pending)

    def orders(self) -> None:
        r = self.random
        any_id = r.randint(1, self.last_order)
        self.last_order += 1
        self.change("orders", "order", f"Cust-{r.randint(0, 999)}", r.randint(1, 99999) / 100)
        self.change("orders", "order changed", f"upd {r.random()} 😀", any_id)
        doomed = r.randint(1, self.last_order)
        if self.born % 3 == 0:
            self.change("orders", "order gone", doomed)
        if self.born % 6 == 0:  # born again under the same key
            self.change("orders", "order again", doomed)

    def items(self) -> None:
        r = self.random
        order = r.randint(0, max(1, self.last_order // 2))
        self.change("order_items", "item", order, 7, f"N{order}"[:12], 1, r.random())
        self.change("order_items", "item changed", r.randint(0, self.last_order // 2))
        self.change("order_items", "item gone", r.randint(0, self.last_order // 2))

    def customers(self) -> None:
        self.born += 1
        code = f"New-{self.tag}-{self.born}-{self.random.randint(0, 9)}"
        self.change("customers", "customer", code, "born 👶")
        # the key itself changes: once only its case (where the collation ignores it, equal for it and not for bytes), once to
        # another value
        self.change("customers", "customer moved", code.upper(), code)
        if self.born % 2:
            self.change("customers", "customer moved on", f"{code}-moved", self.known_as(code))
        self.change("customers", "customer renamed", "renamed  ", f"Cust-{self.random.randint(0, 20000) * 4}")
        if self.born % 5 == 0:
            self.change("customers", "customer gone", f"{code}-moved")

    def known_as(self, code: str) -> str:
        """By what a customer is found whose code is in capitals by now: by either, for a collation that ignores case."""
        return code

    def events(self) -> None:
        kind = self.random.choice(("view", "click", "buy"))
        self.change("events", "events", kind, kind)
        # without a key each of these reads the table up to its first match: so seldom, and several rows at a time
        if self.born % 10 == 0:
            self.change("events", "events gone", kind)

    def all_types(self) -> None:
        row = self.random.randint(0, 400)
        sql = self.all_types_row(self.random.randint(0, 10_000), row)
        self.pending["all_types"] += self.execute(sql.replace("%", "%%"), ())


def run(connection: pymysql.connections.Connection, counts: Path, stop: threading.Event, seed: int = 7) -> int:
    """Write until `stop` is set; returns the number of row changes made."""
    writer = Writer(connection, seed)
    paced(lambda: kept_up(connection, writer.transaction, stop), writer.counts, RATE, counts, stop)
    return writer.counts.total()


def kept_up(connection: pymysql.connections.Connection, transaction: Callable[[], None], stop: threading.Event) -> None:
    """Make a transaction; a deadlock's victim is rolled back, and a server that went away is waited for."""
    try:
        transaction()
    except pymysql.err.OperationalError as error:
        if error.args[0] in RETRIED:
            connection.rollback()
        elif error.args[0] in LOST:
            connect_again(connection, stop)
        else:
            raise


def connect_again(connection: pymysql.connections.Connection, stop: threading.Event) -> None:
    """Connect when the server is up again; what was under way is not counted, whether it was committed or not."""
    while not stop.wait(PAUSE):
        try:
            connection.connect()
        except pymysql.err.OperationalError as error:
            if error.args[0] not in LOST:
                raise
        else:
            return


def paced(transaction: Callable[[], None], made: Counter[str], rate: int, counts: Path, stop: threading.Event) -> None:
    """Make transactions until `stop` is set, at `rate` row changes a second as far as the server keeps up.

    `made` is what the transactions have changed so far, by table; it is written to `counts` once a second.
    """
    began, said = time.monotonic(), 0.0
    with counts.open("a") as out:
        while not stop.is_set():
            if made.total() < (time.monotonic() - began) * rate:
                transaction()
            else:
                stop.wait(PAUSE)
            if time.monotonic() - said >= 1:
                said = time.monotonic()
                out.write(json.dumps({"t": time.time(), "changes": made.total(), "tables": dict(made)}) + "\n")
                out.flush()


def connected(settings: str) -> tuple[pymysql.connections.Connection, threading.Event]:
    """A connection to the server of the settings file, and an event that SIGTERM or SIGINT sets."""
    address = json.loads(Path(settings).read_text())
    session = "SET SESSION sql_mode = '', time_zone = '+00:00'"
    return pymysql.connect(**address, database=SCHEMA, charset="utf8mb4", init_command=session), stopped()


def stopped() -> threading.Event:
    """An event that SIGTERM or SIGINT sets."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def main(settings: str, counts: str) -> None:
    """Entry point: connect with the settings file's `mysql` entry and write until SIGTERM."""
    connection, stop = connected(settings)
    run(connection, Path(counts), stop)


if __name__ == "__main__":
    main(*sys.argv[1:3])
