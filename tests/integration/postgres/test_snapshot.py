"""W from a new slot: rows read under its snapshot and the changes after its point are every row once."""

from __future__ import annotations

import threading

import pytest

from airflow_cdc.sources.errors import SourceOutOfTimeError
from airflow_cdc.sources.postgres.errors import SlotError, SnapshotGoneError
from airflow_cdc.sources.postgres.position import Lsn
from airflow_cdc.sources.postgres.session import PostgresEndpoint, Session
from airflow_cdc.sources.postgres.slot import read_slot
from airflow_cdc.sources.postgres.snapshot import create_slot, read_view, replace_slot
from airflow_cdc.sources.row import Row
from stack.postgres import PostgresServer
from stack.process import wait_until


@pytest.fixture
def table(server: PostgresServer, database: str) -> str:
    """A table without a key, in a publication, and written to by the test."""
    server.execute(
        "CREATE TABLE public.t (n int, v text)",
        "ALTER TABLE public.t REPLICA IDENTITY FULL",
        "INSERT INTO public.t SELECT i, 'before' FROM generate_series(1, 100) i",
        "CREATE PUBLICATION p FOR TABLE public.t",
        dbname=database,
    )
    return "public.t"


def changes(server: PostgresServer, database: str, slot: str) -> list[bytes]:
    """The messages of pgoutput that the slot holds, without confirming any."""
    options = "'proto_version', '1', 'publication_names', 'p'"
    sql = f"SELECT data FROM pg_logical_slot_peek_binary_changes('{slot}', NULL, NULL, {options})"
    return [bytes(row[0]) for row in server.execute(sql, dbname=database)]


def test_rows_under_the_snapshot_and_changes_after_the_point_are_every_row_once(
    server: PostgresServer, database: str, at: PostgresEndpoint, session: Session, table: str
) -> None:
    stop, written = threading.Event(), [0]

    def write() -> None:
        with server.connect(dbname=database) as connection:
            while not stop.is_set():
                written[0] += 1
                connection.execute("INSERT INTO public.t VALUES (%s, 'while')", (1000 + written[0],))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        wait_until(lambda: written[0] > 20 or None, timeout=20, what="rows to be written")
        owner = create_slot(at, f"s_{database}")
        here = written[0]
        wait_until(lambda: written[0] > here + 20 or None, timeout=20, what="more rows to be written")
    finally:
        stop.set()
        thread.join()
    server.execute("DELETE FROM public.t WHERE n <= 50", dbname=database)
    views: list[list[Row]] = []
    for _ in range(2):  # several readers share one view
        with read_view(at, owner.snapshot) as reading:
            views.append(reading.rows(f"SELECT n FROM {table} ORDER BY n", doing="read"))
    assert views[0] == views[1]
    seen = [row["n"] for row in views[0]]
    assert seen[:100] == list(range(1, 101)), "what was deleted after the point is in the view"
    messages = changes(server, database, f"s_{database}")
    inserted = sum(message[:1] == b"I" for message in messages)
    assert inserted > 0
    assert len(seen) - 100 + inserted == written[0]
    assert sum(message[:1] == b"D" for message in messages) == 50
    slot = read_slot(session, f"s_{database}")
    assert slot is not None
    assert slot.confirmed == owner.snapshot.point
    owner.close()
    with pytest.raises(SnapshotGoneError, match="snapshot"), read_view(at, owner.snapshot):
        pass


def test_a_view_cannot_write(server: PostgresServer, at: PostgresEndpoint, database: str, table: str) -> None:
    server.execute("GRANT INSERT ON public.t TO cdc", dbname=database)
    from airflow_cdc.core.errors import SourceError

    with read_view(at, None) as reading, pytest.raises(SourceError, match="read-only transaction"):
        reading.run(f"INSERT INTO {table} VALUES (1, 'x')", doing="write")


def test_an_open_transaction_that_blocks_the_slot_is_named(
    server: PostgresServer, database: str, at: PostgresEndpoint, table: str
) -> None:
    with server.connect(dbname=database, autocommit=False) as other:
        other.execute("INSERT INTO public.t VALUES (0, 'open')")
        with pytest.raises(SourceOutOfTimeError, match=r"open transactions must end first \(process \d+ of postgres"):
            create_slot(at, f"s_{database}", timeout=1)
        other.rollback()
    left = server.execute(f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = 's_{database}'")
    assert left == [(0,)], "an attempt that failed leaves no slot behind"
    create_slot(at, f"s_{database}").close()


def test_a_new_slot_in_the_place_of_the_old(at: PostgresEndpoint, session: Session, database: str, table: str) -> None:
    first = create_slot(at, f"s_{database}")
    first.close()
    with pytest.raises(SlotError, match="already exists"):
        create_slot(at, f"s_{database}")
    second = replace_slot(at, session, f"s_{database}")
    slot = read_slot(session, f"s_{database}")
    assert slot is not None
    assert slot.confirmed == second.snapshot.point >= first.snapshot.point
    second.close()
    assert not second.alive
    with pytest.raises(SlotError, match="not a slot name"):
        create_slot(at, 'x"; DROP')


def test_failover_is_kept(
    server: PostgresServer, at: PostgresEndpoint, session: Session, database: str, table: str
) -> None:
    if session.version < 170000:
        owner = create_slot(at, f"s_{database}", failover=True)  # is not known there, and does no harm
        owner.close()
        return
    create_slot(at, f"s_{database}", failover=True).close()
    replace_slot(at, session, f"s_{database}").close()
    slot = read_slot(session, f"s_{database}")
    assert slot is not None
    assert slot.failover
    assert isinstance(slot.confirmed, Lsn)
