"""The fault of the demo: while the connector is down, rows come and go, tables change, and the binlog is purged."""

from __future__ import annotations

from dataclasses import dataclass, field

import pymysql

from stack.shop.dataset import SCHEMA

# deletes hit more than 1 % of every keyed table; updates and inserts beside them; two ALTERs in between
_DELETES = (
    ("customers", "DELETE FROM customers WHERE CRC32(code) % 60 = 7 + {shift}"),
    ("orders", "DELETE FROM orders WHERE id % 60 = 13 + {shift}"),
    ("order_items", "DELETE FROM order_items WHERE order_id % 60 = 29 + {shift}"),
    ("events", "DELETE FROM events WHERE payload = CONCAT('p', 7 + {shift}) LIMIT 100000"),
    ("all_types", "DELETE FROM all_types WHERE id % 50 = 3 + {shift}"),
)
_ALTERS = (
    ("", "ALTER TABLE orders ADD COLUMN channel VARCHAR(16) NOT NULL DEFAULT 'web'"),
    ("", "ALTER TABLE customers DROP COLUMN note_a, ADD COLUMN note_b VARCHAR(64)"),
    ("orders", "UPDATE orders SET amount = amount + 0.5, channel = 'shop' WHERE id % 50 = 3"),
    ("customers", "UPDATE customers SET note_b = CONCAT('b', name) WHERE CRC32(code) % 50 = 3"),
)
_WRITES = (
    ("order_items", "UPDATE order_items SET qty = qty + 10 WHERE order_id % 50 = 3 + {shift}"),
    (
        "orders",
        "INSERT INTO orders (customer, status, amount, placed_at) SELECT customer, 'new', 1, NOW(3) FROM orders WHERE id % 100 = 1",
    ),
)


@dataclass
class Gap:
    """What was done: row changes per table, deletes per table, and the files that are gone."""

    changes: dict[str, int] = field(default_factory=dict)
    deletes: dict[str, int] = field(default_factory=dict)
    purged: list[str] = field(default_factory=list)


def make_gap(admin: pymysql.connections.Connection, *, alter: bool = True, shift: int = 0) -> Gap:
    """Change rows and tables, rotate the log and purge every file but the newest.

    A table is altered once: a further gap in the same shop leaves it as it is (`alter` False), and deletes other rows
    (another `shift`).
    """
    gap = Gap()
    with admin.cursor() as cursor:
        cursor.execute(f"USE {SCHEMA}")
        cursor.execute("SET SESSION sql_mode = '', time_zone = '+00:00'")
        for table, sql in (*_DELETES, *(_ALTERS if alter else ()), *_WRITES):
            changed = cursor.execute(sql.format(shift=shift))
            if table:
                gap.changes[table] = gap.changes.get(table, 0) + changed
            if sql.startswith("DELETE"):
                gap.deletes[table] = changed
            cursor.execute("COMMIT")
            if table == "":
                cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("FLUSH BINARY LOGS")
        before = binlog_files(cursor)
        cursor.execute(f"PURGE BINARY LOGS TO '{binlog_files(cursor)[-1]}'")
        after = set(binlog_files(cursor))
    gap.purged = [name for name in before if name not in after]
    return gap


def binlog_files(cursor: pymysql.cursors.Cursor) -> list[str]:
    """Names of the server's binlog files, oldest first."""
    cursor.execute("SHOW BINARY LOGS")
    return [str(row[0]) for row in cursor.fetchall()]
