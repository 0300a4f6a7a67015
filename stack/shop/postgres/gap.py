"""The fault of the demo on PostgreSQL: while the connectors are down, rows come and go, tables change, the slots are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stack.shop.dataset import SCHEMA
from stack.shop.gap import Gap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stack.postgres import PostgresServer

# deletes hit more than 1 % of every keyed table; updates and inserts beside them; two ALTERs in between
_DELETES: Final = (
    ("customers", "DELETE FROM shop.customers WHERE abs(hashtext(code)) % 60 = 7"),
    ("orders", "DELETE FROM shop.orders WHERE id % 60 = 13"),
    ("order_items", "DELETE FROM shop.order_items WHERE order_id % 60 = 29"),
    ("events", "DELETE FROM shop.events WHERE payload = 'p7'"),
    ("all_types", "DELETE FROM shop.all_types WHERE id % 50 = 3"),
)
_CHANGES: Final = (
    ("", "ALTER TABLE shop.orders ADD COLUMN channel varchar(16) NOT NULL DEFAULT 'web'"),
    ("", "ALTER TABLE shop.customers DROP COLUMN note_a, ADD COLUMN note_b varchar(64)"),
    ("orders", "UPDATE shop.orders SET amount = amount + 0.5, channel = 'shop' WHERE id % 50 = 3"),
    ("customers", "UPDATE shop.customers SET note_b = 'b' || name WHERE abs(hashtext(code)) % 50 = 3"),
    ("order_items", "UPDATE shop.order_items SET qty = qty + 10 WHERE order_id % 50 = 3"),
    (
        "orders",
        "INSERT INTO shop.orders (customer, status, amount, placed_at) SELECT customer, 'new', 1, now() FROM shop.orders WHERE id % 100 = 1",
    ),
)


def make_gap(server: PostgresServer, slots: Sequence[str]) -> Gap:
    """Change rows and tables and drop the slots, so that nothing of it can be read from the log again."""
    gap = Gap()
    with server.connect(dbname=SCHEMA) as connection:
        for table, sql in (*_DELETES, *_CHANGES):
            changed = connection.execute(sql).rowcount
            if table:
                gap.changes[table] = gap.changes.get(table, 0) + changed
            if sql.startswith("DELETE"):
                gap.deletes[table] = changed
        for slot in slots:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
            gap.purged.append(slot)
    return gap
