"""The demo's shop on a real server: filled, written to, broken, and compared by means of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from stack.postgres import PostgresServer
from stack.shop.dataset import SCHEMA, TABLES
from stack.shop.postgres import dataset
from stack.shop.postgres.gap import make_gap
from stack.shop.postgres.rows import PostgresRows
from stack.shop.postgres.writer import Writer

pytestmark = pytest.mark.slow

SLOT = "demo_shop"


@pytest.fixture
def shop(newest: PostgresServer) -> Iterator[PostgresServer]:
    """A server with a shop of 2,000 rows and a slot."""
    dataset.create(newest)
    newest.execute(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')", dbname=SCHEMA)
    dataset.fill(newest, 2_000)
    yield newest
    slots = f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{SCHEMA}'"
    newest.execute(slots, f"DROP DATABASE {SCHEMA} WITH (FORCE)")


def rows_of(server: PostgresServer) -> PostgresRows:
    admin = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    return PostgresRows({**admin, "dbname": SCHEMA}, SCHEMA)


def test_the_writer_changes_rows_of_every_table_and_counts_them(shop: PostgresServer) -> None:
    with shop.connect(dbname=SCHEMA, autocommit=False, options=f"-c search_path={SCHEMA},public") as connection:
        writer = Writer(connection, seed=7)
        for _ in range(30):
            writer.transaction()
    assert set(writer.counts) == set(TABLES)
    assert all(count >= 30 for count in writer.counts.values()), writer.counts
    assert writer.born == 30
    moved = shop.execute(f"SELECT count(*) FROM {SCHEMA}.customers WHERE code LIKE '%-moved'", dbname=SCHEMA)
    assert moved[0][0] > 5


def test_the_gap_deletes_rows_alters_tables_and_drops_the_slot(shop: PostgresServer) -> None:
    gap = make_gap(shop, (SLOT,))
    assert set(gap.deletes) == set(TABLES)
    assert all(gap.deletes.values()), gap.deletes
    assert gap.changes["customers"] > gap.deletes["customers"]
    assert gap.purged == [SLOT]
    assert shop.execute(f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{SLOT}'")[0][0] == 0


def test_the_check_sees_every_row_and_one_that_is_changed(shop: PostgresServer) -> None:
    rows = rows_of(shop)
    for table in TABLES:
        types, generated = rows.columns(table)
        assert generated == ({"c_gen_stored"} if table == "all_types" else set())
        before = Counter(rows.rows(table, list(types), types))
        assert before.total() == shop.execute(f"SELECT count(*) FROM {SCHEMA}.{table}", dbname=SCHEMA)[0][0]
        shop.execute(CHANGED[table], dbname=SCHEMA)
        assert (before - Counter(rows.rows(table, list(types), types))).total() == 1, table


CHANGED = {
    "customers": "UPDATE shop.customers SET name = name || ' ' WHERE code = 'x.3'",
    "orders": "UPDATE shop.orders SET flags = '{\"\"}' WHERE id = 3",
    "order_items": "UPDATE shop.order_items SET price = price + 0.0001 WHERE order_id = 3 AND line = 1",
    "events": "DELETE FROM shop.events WHERE ctid = (SELECT min(ctid) FROM shop.events)",
    "all_types": "UPDATE shop.all_types SET c_double = c_double * (1 + 3e-16) WHERE id = 2",
}


def test_values_of_the_sink_read_as_the_server_writes_them(shop: PostgresServer) -> None:
    """A few whose two forms are far apart; all of them meet in `make demo SOURCE=postgres`."""
    rows = rows_of(shop)
    types, _ = rows.columns("all_types")
    names = ["c_double", "c_bytea", "c_texts", "c_time"]
    theirs = list(rows.rows("all_types", names, types))
    ours = pa.table(
        {"c_double": [0.1], "c_bytea": [b"\x00\xff\x10"], "c_texts": [["a|b", "", None, 'N"1']], "c_time": [0]}
    )
    (read,) = ours.to_pylist()
    for position, name in enumerate(names):
        assert rows.of_sink(types[name][0])(read[name], "") in {row[position] for row in theirs}, name
