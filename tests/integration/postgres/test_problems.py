"""Each fault of a slot, a publication or a server, made on the real servers: what the diagnosis makes of the facts.

The connector is not there: its state and its stored offset are made up beside the server's own facts, as Debezium was seen
to leave them (docs/measured-facts.md).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import stack
from airflow_cdc.connectors.debezium.offsets.postgres import value_at
from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.position import Availability
from airflow_cdc.sources.errors import WrongServerError
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.position import Lsn, PgPosition
from airflow_cdc.sources.postgres.session import connect
from airflow_cdc.sources.postgres.snapshot import create_slot
from stack.postgres import PostgresServer, PostgresSettings, hang_up, restart_postgres
from stack.process import end, wait_until
from tests.diagnosing import diagnose
from tests.integration.postgres.support import endpoint
from tests.unit.sources.postgres.pg_scene import TABLES, connector, observed

COMMIT = "SELECT pg_logical_emit_message(true, 't', 'x')"


@pytest.fixture
def ready(server: PostgresServer, database: str) -> PostgresSource:
    """Two tables, a publication and a slot, named as the pipeline names them."""
    name = f"s_{database}"
    server.execute(
        *(f"CREATE TABLE {table} (id int PRIMARY KEY)" for table in TABLES),
        f"CREATE PUBLICATION {name} FOR TABLE {', '.join(TABLES)}",
        dbname=database,
    )
    own = replace(endpoint(server, database), slot=name, publication=name)
    create_slot(own, name).close()
    server.execute(COMMIT)
    return PostgresSource(own)


def stored_at(source: PostgresSource) -> Lsn:
    facts = source.facts()
    assert facts.slot is not None
    assert facts.slot.confirmed is not None
    return facts.slot.confirmed


def code(source: PostgresSource, lsn: Lsn, *, state: str = "STOPPED", trace: str = "", read_from: str = "") -> str:
    facts = replace(source.facts_for(TABLES, None), address="10.0.0.7:5432")
    found = diagnose(observed(facts, connector(value_at(lsn), state=state, trace=trace), read_from=read_from))
    return "HEALTHY" if found.code == "CONNECTOR_STOPPED" else found.code


def test_all_is_well(ready: PostgresSource) -> None:
    assert code(ready, stored_at(ready)) == "HEALTHY"
    assert ready.availability(PgPosition(stored_at(ready)))
    now = ready.position()
    ready.check_same_server(now)
    assert ready.still_available(now)
    with pytest.raises(WrongServerError, match="reaches the server"):
        ready.check_same_server(replace(now, server="1/1"))


def test_a_dropped_slot(server: PostgresServer, ready: PostgresSource) -> None:
    lsn = stored_at(ready)
    server.execute(f"SELECT pg_drop_replication_slot('{ready.endpoint.slot}')")
    assert code(ready, lsn) == "SLOT_MISSING"
    assert ready.availability(PgPosition(lsn)).state is Availability.LOST


def test_a_slot_that_was_moved_on(server: PostgresServer, ready: PostgresSource) -> None:
    lsn = stored_at(ready)
    moved = f"SELECT pg_replication_slot_advance('{ready.endpoint.slot}', pg_current_wal_lsn())"
    server.execute(COMMIT, moved, dbname=ready.endpoint.database)  # 15 moves a slot only from its own database
    assert code(ready, lsn) == "LSN_BEFORE_SLOT"
    assert ready.availability(PgPosition(lsn)).state is Availability.LOST
    assert code(ready, Lsn(1)) == "LSN_BEHIND_RESTART"


def test_an_offset_ahead_of_the_log(ready: PostgresSource) -> None:
    ahead = Lsn(ready.facts().log.lsn.value + (64 << 20))
    assert code(ready, ahead) == "LSN_AHEAD"
    assert ready.availability(PgPosition(ahead)).state is Availability.NOT_YET


def test_another_reader_on_the_slot(ready: PostgresSource) -> None:
    lsn, slot = stored_at(ready), ready.endpoint.slot
    reader = connect(ready.endpoint, replication="database")
    start = f"START_REPLICATION SLOT \"{slot}\" LOGICAL 0/0 (proto_version '1', publication_names '{slot}')"
    reader.pgconn.send_query(start.encode())
    wait_until(
        lambda: ((found := ready.facts().slot) is not None and found.active) or None, timeout=10, what="a reader"
    )
    assert code(ready, lsn) == "SLOT_ACTIVE_ELSEWHERE"
    reader.close()


@pytest.mark.parametrize(
    ("ddl", "wanted"),
    [
        ("DROP PUBLICATION {slot}", "PUBLICATION_MISSING"),
        ("ALTER PUBLICATION {slot} DROP TABLE public.orders", "PUBLICATION_MISSING"),
        ("ALTER PUBLICATION {slot} SET (publish = 'insert, update')", "SOURCE_MISCONFIGURED"),
        ("ALTER PUBLICATION {slot} SET TABLE public.customers WHERE (id > 1), public.orders", "SOURCE_MISCONFIGURED"),
        ("ALTER TABLE public.orders REPLICA IDENTITY NOTHING", "REPLICA_IDENTITY"),
        ("ALTER TABLE public.orders DROP CONSTRAINT orders_pkey", "REPLICA_IDENTITY"),
        ("CREATE TABLE public.child () INHERITS (public.orders)", "LOG_INCOMPLETE"),
        ("REVOKE SELECT ON public.orders FROM cdc", "SOURCE_MISCONFIGURED"),
        ("ALTER TABLE public.orders REPLICA IDENTITY FULL", "HEALTHY"),
        ("ALTER PUBLICATION {slot} SET (publish_via_partition_root = true)", "HEALTHY"),
    ],
)
def test_publications_and_tables(server: PostgresServer, ready: PostgresSource, ddl: str, wanted: str) -> None:
    slot, database = ready.endpoint.slot, ready.endpoint.database
    server.execute(ddl.format(slot=slot), dbname=database)
    assert code(ready, stored_at(ready), state="RUNNING") == wanted


def test_a_recovery_goes_no_further_than_a_publication_that_lacks_its_tables(
    server: PostgresServer, ready: PostgresSource
) -> None:
    """What is written from then on would not be sent: a table that is equal now would not stay so."""
    slot, database = ready.endpoint.slot, ready.endpoint.database
    ready.check_logged(TABLES)
    server.execute(f"ALTER PUBLICATION {slot} DROP TABLE public.orders", dbname=database)
    ready.check_logged(["public.customers"])
    with pytest.raises(SourceError, match=f"ALTER PUBLICATION {slot} ADD TABLE public.orders, then clear"):
        ready.check_logged(TABLES)
    server.execute(f"DROP PUBLICATION {slot}", dbname=database)
    with pytest.raises(SourceError, match=f"CREATE PUBLICATION {slot} FOR TABLE public.customers, public.orders"):
        ready.check_logged(TABLES)


def test_the_doctor(server: PostgresServer, ready: PostgresSource) -> None:
    def states() -> dict[str, str]:
        return {check.name: check.state for check in ready.checks("shop", TABLES, hold=False)}

    slot = ready.endpoint.slot
    well = states()
    assert set(well.values()) == {"ok"}
    assert {"source", "wal_level", f"slot {slot}", f"publication {slot}", "privileges"} <= set(well)
    server.execute(
        f"ALTER PUBLICATION {slot} DROP TABLE public.orders",
        "ALTER TABLE public.customers REPLICA IDENTITY NOTHING",
        "REVOKE SELECT ON public.orders FROM cdc",
        f"SELECT pg_drop_replication_slot('{slot}')",
        dbname=ready.endpoint.database,
    )
    ill = {name: state for name, state in states().items() if state != "ok"}
    assert ill == {
        f"slot {slot}": "warn",
        f"publication {slot}": "bad",
        "replica identity of public.customers": "bad",
        "privileges": "warn",
    }


def test_what_else_the_source_says(server: PostgresServer, ready: PostgresSource) -> None:
    server.execute("INSERT INTO public.orders VALUES (1), (2)", dbname=ready.endpoint.database)
    assert ready.count_rows("public.orders", 10) == 2
    assert ready.has_row("public.orders", "id = 2", 10) is True
    assert ready.has_row("public.orders", "id = 3", 10) is False
    assert ready.has_row("public.orders", "pg_sleep(30) IS NOT NULL", 0.2) is None
    definitions, defaults = ready.definitions_and_defaults(TABLES)
    assert sorted(definitions) == sorted(TABLES)
    assert defaults["public.orders"] == {"id": None}
    said, retention = ready.forecast(ready.position().position)
    assert said.earliest_s is None
    assert said.write_bytes_s is not None
    assert retention.expire_s == 0


@pytest.fixture
def limit(server: PostgresServer) -> Iterator[Callable[[str], None]]:
    """Sets max_slot_wal_keep_size, and takes it back."""

    def change(size: str) -> None:
        server.execute(f"ALTER SYSTEM SET max_slot_wal_keep_size = '{size}'", "SELECT pg_reload_conf()")
        shown = "SHOW max_slot_wal_keep_size"
        wait_until(lambda: server.execute(shown)[0][0] == size or None, timeout=10, what="the reload")

    yield change
    change("-1")


def test_a_slot_that_lost_its_log_and_was_warned_of(
    server: PostgresServer, ready: PostgresSource, limit: Callable[[str], None]
) -> None:
    source = ready
    lsn, fill = stored_at(source), "SELECT pg_logical_emit_message(false, 't', repeat(md5('x'), 100000))"
    limit("48MB")
    while (slot := source.facts().slot) is not None and (slot.safe_bytes or 0) > 30 << 20:
        server.execute(fill)
    assert code(source, lsn, state="RUNNING") == "AT_RISK"  # at 3 MB a second it is a matter of seconds
    facts = source.facts()
    assert facts.margin(PgPosition(lsn)) is not None
    outlook = facts.purge_forecast(PgPosition(lsn))
    assert outlook is not None
    assert outlook.earliest_s is not None
    while (slot := source.facts().slot) is not None and (slot.safe_bytes or 0) > 0:
        server.execute(fill)
    server.execute("CHECKPOINT")
    assert code(source, lsn) == "SLOT_INVALIDATED"
    assert code(source, lsn, state="RUNNING") == "SLOT_INVALIDATED"
    assert source.availability(PgPosition(lsn)).state is Availability.LOST
    with pytest.raises(SourceError, match="keeps no log"):
        source.forecast(PgPosition(lsn))


def test_no_wal_sender_to_spare(server: PostgresServer, ready: PostgresSource) -> None:
    lsn, most = stored_at(ready), int(server.execute("SHOW max_wal_senders")[0][0])
    holders = [connect(ready.endpoint, replication="database") for _ in range(most)]
    wait_until(lambda: ready.facts().wal_senders >= most or None, timeout=10, what="the senders to be counted")
    assert code(ready, lsn) == "MAX_WAL_SENDERS"
    with pytest.raises(SourceError, match="max_wal_senders"):
        create_slot(ready.endpoint, "other")
    for holder in holders:
        holder.close()


# ---- servers of their own, which these faults change for good ----------------------------------


@pytest.fixture(params=[pytest.param("15", marks=pytest.mark.slow), "18"])
def own(request: pytest.FixtureRequest, servers: stack.Stack, tmp_path: Path) -> Iterator[PostgresServer]:
    """A server that ends with the test."""
    from stack.postgres import start_postgres, wait_ready

    made = wait_ready(start_postgres(tmp_path, tmp_path, PostgresSettings(name="own", series=request.param)))
    yield made
    hang_up(made)
    end(made.child)


def of_own(server: PostgresServer) -> PostgresSource:
    server.execute(
        *(f"CREATE TABLE {table} (id int PRIMARY KEY)" for table in TABLES),
        f"CREATE PUBLICATION shop FOR TABLE {', '.join(TABLES)}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO cdc",
    )
    source = PostgresSource(replace(endpoint(server), slot="shop", publication="shop"))
    create_slot(source.endpoint, "shop").close()
    server.execute(COMMIT)
    return source


def test_a_server_put_back_to_older_files(own: PostgresServer, tmp_path: Path) -> None:
    """Same system identifier, same timeline: only the end of its log shows it."""
    source = of_own(own)
    data, copy = Path(own.folder) / "data", tmp_path / "older"
    hang_up(own)
    end(own.child)
    shutil.copytree(data, copy)
    running = restart_postgres(own)
    running.execute("SELECT pg_logical_emit_message(false, 't', repeat(md5('x'), 100000))", COMMIT)
    read, name = running.execute("SELECT pg_current_wal_lsn()")[0][0], source.facts().log.name
    hang_up(running)
    end(running.child)
    shutil.rmtree(data)
    shutil.move(copy, data)
    again = restart_postgres(running)
    try:
        assert source.facts().log.name == name
        assert code(source, Lsn.parse(read), read_from=name) == "LSN_AHEAD"
        assert code(source, Lsn.parse(read), state="RUNNING", read_from=name) == "LSN_AHEAD"
    finally:
        hang_up(again)
        end(again.child)


def test_a_promoted_standby_has_no_slot_and_another_timeline(own: PostgresServer, tmp_path: Path) -> None:
    source = of_own(own)
    before, lsn = source.facts().log.name, stored_at(source)
    hang_up(own)
    end(own.child)
    (Path(own.folder) / "data" / "standby.signal").touch()
    running = restart_postgres(own)
    try:
        facts = source.facts()
        assert facts.log.standby
        assert facts.available(PgPosition(lsn)).state is not Availability.NOT_YET
        running.execute("SELECT pg_promote()")
        wait_until(lambda: not source.facts().log.standby or None, timeout=30, what="the promotion")
        after = source.facts().log
        assert after.timeline == 2
        assert after.name != before
        assert code(source, lsn, read_from=before) == "OTHER_TIMELINE"
        running.execute("SELECT pg_drop_replication_slot('shop')")
        assert code(source, lsn, read_from=before) == "SLOT_MISSING"
        assert code(source, lsn, read_from=f"1{before}") == "SLOT_MISSING"
    finally:
        hang_up(running)
        end(running.child)


def test_a_log_that_is_not_logical(own: PostgresServer) -> None:
    own.execute("ALTER SYSTEM SET wal_level = 'replica'")
    running = restart_postgres(own)
    try:
        source = PostgresSource(endpoint(running))
        assert code(source, Lsn(1)) == "WAL_LEVEL"
        with pytest.raises(SourceError, match=r"wal_level.*Set wal_level = logical"):
            create_slot(source.endpoint, "shop")
    finally:
        hang_up(running)
        end(running.child)
