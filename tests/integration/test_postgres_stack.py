"""A real PostgreSQL from the cache: it starts, answers, and ends; what it runs with is what a source needs."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import stack
from stack import versions
from stack.guard import descendants
from stack.mysql import User
from stack.postgres import PostgresServer, PostgresSettings
from stack.process import start_time, wait_until

pytestmark = pytest.mark.slow

SETTINGS = PostgresSettings(extra={"max_slot_wal_keep_size": "64MB"})


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    folder = tmp_path_factory.mktemp("postgres") / "stack"
    with stack.start(folder, ("kafka", "connect", "postgres"), postgres_settings=[SETTINGS]) as running:
        yield running


@pytest.fixture(scope="module")
def server(servers: stack.Stack) -> PostgresServer:
    return servers.postgres["postgres"]


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [("wal_level", "logical"), ("max_slot_wal_keep_size", "64MB"), ("listen_addresses", "127.0.0.1")],
)
def test_it_runs_as_a_source_must(server: PostgresServer, setting: str, wanted: str) -> None:
    assert server.execute(f"SHOW {setting}") == [(wanted,)]
    assert server.version == versions.POSTGRES_TESTED["18"].removesuffix(".0")


@pytest.mark.parametrize("login", [User("postgres", "wrong"), User("cdc", ""), User("nobody", "x")])
def test_nobody_comes_in_without_the_password(server: PostgresServer, login: User) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"password|fe_sendauth"):
        server.connect(login)


def test_its_users_may_replicate_and_change_nothing(server: PostgresServer) -> None:
    for user in (server.cdc, server.debezium):
        with server.connect(user) as connection:
            row = connection.execute("SELECT rolreplication, rolsuper FROM pg_roles WHERE rolname = current_user")
            assert row.fetchone() == (True, False)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("CREATE DATABASE not_allowed")


def test_a_change_arrives_through_the_connector(servers: stack.Stack, server: PostgresServer) -> None:
    assert servers.connect is not None
    server.execute(
        "CREATE TABLE public.greeting (id int PRIMARY KEY, text text)",
        "GRANT SELECT ON public.greeting TO debezium",
        "CREATE PUBLICATION greetings FOR TABLE public.greeting",
        "INSERT INTO public.greeting VALUES (1, 'hello')",
    )
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.debezium.user,
        "database.password": server.debezium.password,
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "topic.prefix": "greet",
        "slot.name": "greet",
        "publication.name": "greetings",
        "publication.autocreate.mode": "disabled",
        "table.include.list": "public.greeting",
    }
    servers.connect.call("PUT", "/connectors/greet/config", config)

    def confirmed() -> str | None:
        rows = server.execute(
            "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'greet' AND active"
        )
        return str(rows[0][0]) if rows else None

    wait_until(confirmed, timeout=120, what="the slot to be active")
    offsets = wait_until(lambda: _offset(servers), timeout=60, what="an offset to be stored")
    assert offsets["snapshot_completed"] is True
    servers.connect.call("DELETE", "/connectors/greet")


def _offset(servers: stack.Stack) -> dict[str, object] | None:
    assert servers.connect is not None
    stored = servers.connect.call("GET", "/connectors/greet/offsets")["offsets"]
    return dict(stored[0]["offset"]) if stored else None


def test_it_starts_restarts_on_its_data_and_ends(tmp_path: Path) -> None:
    with stack.start(tmp_path / "s", ("postgres",)) as own:
        first = own.postgres["postgres"]
        first.execute("CREATE TABLE kept (n int)")
        again = own.restart_postgres()
        assert (again.port, again.password) == (first.port, first.password)
        assert again.execute("SELECT count(*) FROM kept") == [(0,)]
        state = json.loads((own.folder / "stack.json").read_text())
        assert state["versions"]["postgres"] == {"postgres": again.version}
        assert stack.Stack.load(own.folder).postgres["postgres"] == again
        with again.connect():  # an idle client holds a server up that is asked politely
            pids = (again.child.pid, *descendants(again.child.pid))
            own.down()
    assert wait_until(lambda: all(start_time(pid) is None for pid in pids) or None, timeout=30, what="it is gone")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((again.host, again.port), timeout=5)


@pytest.mark.parametrize("series", [one for one in versions.POSTGRES_TESTED if one != versions.POSTGRES_DEFAULT])
def test_every_series_starts(tmp_path: Path, series: str) -> None:
    with stack.start(tmp_path / "s", ("postgres",), postgres_settings=[PostgresSettings(series=series)]) as own:
        assert own.postgres["postgres"].execute("SHOW server_version")[0][0].startswith(f"{series}.")


def test_an_unknown_series_is_named() -> None:
    with pytest.raises(stack.UnavailableError, match=r"PostgreSQL 9: known are 15, 17, 18"):
        PostgresSettings(series="9")
