"""The shop's writer on PostgreSQL: `python -m stack.shop.postgres.writer SETTINGS.json COUNTS.jsonl`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from stack.shop import writer
from stack.shop.dataset import SCHEMA
from stack.shop.postgres.dataset import insert_all_types

RATE = writer.RATE


class Writer(writer.Writer):
    """See stack.shop.writer. Its table names are found by the session's search_path."""

    SQL: ClassVar[Mapping[str, str]] = {
        **writer.Writer.SQL,
        "order": "INSERT INTO orders (customer, status, amount, placed_at) VALUES (%s, 'new', %s, now())",
        "order again": "INSERT INTO orders (id, customer, status, amount, placed_at) VALUES (%s, 'again', 'paid', 1, now()) ON CONFLICT DO NOTHING",
        "item": "INSERT INTO order_items VALUES (%s, %s, %s, %s, %s) ON CONFLICT (order_id, line) DO UPDATE SET price = excluded.price",
        "customer": "INSERT INTO customers (code, name, created_at) VALUES (%s, %s, clock_timestamp())",
        "events gone": "DELETE FROM events WHERE ctid IN (SELECT ctid FROM events WHERE kind = %s AND payload = 'dup' LIMIT 5)",
    }  # fmt: skip
    all_types_row: Callable[[int, int], str] = staticmethod(insert_all_types)

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        """See stack.shop.writer.Writer."""
        return int(self.connection.execute(sql, values).rowcount)

    def begin(self) -> None:
        """Nothing: the first statement begins a transaction."""

    def known_as(self, code: str) -> str:
        """By its capitals alone."""
        return code.upper()


def main(settings: str, counts: str) -> None:
    """Entry point: connect with the settings file and write until SIGTERM."""
    stop = writer.stopped()
    address = json.loads(Path(settings).read_text())
    options = f"-c search_path={SCHEMA},public -c timezone=UTC"
    with psycopg.connect(**address, dbname=SCHEMA, options=options) as connection:
        made = Writer(connection, seed=7)

        def transaction() -> None:
            with suppress(psycopg.errors.DeadlockDetected):
                made.transaction()
                return
            connection.rollback()

        writer.paced(transaction, made.counts, RATE, Path(counts), stop)


if __name__ == "__main__":
    main(*sys.argv[1:3])
