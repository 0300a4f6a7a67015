"""A role made by examples/grants_postgres.sql, and by nothing else, can do all that a recovery does on the server."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_cdc.core.errors import CdcError, MissingPrivilegeError
from airflow_cdc.core.pipeline import ThrottlePolicy
from airflow_cdc.decisions.compare.leaves import HashLeaves
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.session import PostgresEndpoint
from airflow_cdc.spark_apps.adapters.postgres import PostgresReader
from stack.postgres import PostgresServer

TABLES = ("shop.orders", "shop.events")
GRANTS = Path(__file__).parents[3] / "examples/grants_postgres.sql"


@pytest.fixture
def source(server: PostgresServer, database: str) -> Iterator[PostgresSource]:
    """Two tables, and the role under a name of its own."""
    role, password = f"r_{database}", secrets.token_hex(8)
    written = GRANTS.read_text().replace(" cdc", f" {role}").replace("choose-one", password)
    server.execute(
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.orders (id int PRIMARY KEY, v text)",
        "CREATE TABLE shop.events (v text)",
        "ALTER TABLE shop.events REPLICA IDENTITY FULL",
        f"CREATE PUBLICATION {role} FOR TABLE shop.orders, shop.events",
        "INSERT INTO shop.orders VALUES (1, 'a')",
        "INSERT INTO shop.events VALUES ('b'), ('b')",
        *(statement for statement in written.split(";") if statement.strip()),
        dbname=database,
    )
    made = PostgresEndpoint(server.host, server.port, role, password, database, role, role)
    yield PostgresSource(made)
    server.execute(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{role}'")
    server.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}", dbname=database)


def test_the_documented_grants_suffice(source: PostgresSource) -> None:
    assert {check.name: check.state for check in source.checks("shop", TABLES, hold=True)}["privileges"] == "ok"
    source.check_logged(TABLES)
    source.reserve_log(30)
    taken = source.watermark()
    source.wait_visible(taken, 30)
    source.check_same_server(taken)
    assert source.still_available(taken)
    assert source.availability(source.position().position)
    definitions, _defaults = source.definitions_and_defaults(TABLES)
    assert source.table_ids(TABLES)
    assert source.count_rows("shop.orders", 10) == 1
    reader = PostgresReader(source)
    for name, rows in zip(TABLES, (1, 2), strict=True):
        with reader.view(definitions[name], at=taken) as view:
            assert view.position is not None
            assert view.count() == rows
            assert len(view.hashes(HashLeaves(1, reader.key_hash), [0])) == rows
    assert source.forecast(taken.position)
    source.reserve_log(30)  # the slot is there: it stays


@pytest.mark.parametrize(
    ("taken", "act"),
    [
        ("ALTER ROLE {role} NOREPLICATION", lambda source: source.reserve_log(10)),
        ("REVOKE SELECT ON shop.orders FROM {role}", lambda source: source.count_rows("shop.orders", 10)),
        ("REVOKE USAGE ON SCHEMA shop FROM {role}", lambda source: source.count_rows("shop.orders", 10)),
    ],
)
def test_each_of_them_is_needed(
    source: PostgresSource, server: PostgresServer, database: str, taken: str, act: object
) -> None:
    assert callable(act)
    server.execute(taken.format(role=source.endpoint.user), dbname=database)
    assert {check.name: check.state for check in source.checks("shop", TABLES, hold=True)}["privileges"] != "ok"
    with pytest.raises(CdcError):
        act(source)


def test_hidden_sessions_are_not_counted_as_idle(source: PostgresSource, server: PostgresServer) -> None:
    """Who may not see what others execute is told what to grant."""
    with pytest.raises(
        MissingPrivilegeError, match=r"other users' sessions execute is hidden.*GRANT pg_read_all_stats"
    ):
        source.load(ThrottlePolicy(threads_running=1))
    server.execute(f"GRANT pg_read_all_stats TO {source.endpoint.user}")
    assert source.load(ThrottlePolicy(threads_running=1)).running is not None
