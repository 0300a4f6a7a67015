"""A session of PostgreSQL: what is pinned, and what its errors say."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest

from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import MissingPrivilegeError, SourceError
from airflow_cdc.sources.errors import SourceAccessError, SourceOutOfTimeError, SourceTlsError, SourceUnreachableError
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.errors import SourceObjectMissingError
from airflow_cdc.sources.postgres.session import PostgresEndpoint, Session, connect, open_session
from stack.installation import User
from stack.ports import free_port
from stack.postgres import PostgresServer
from stack.process import wait_until
from tests.integration.certificates import Certificates
from tests.integration.postgres.support import endpoint


def test_what_the_server_is_set_to_does_not_change_how_values_are_printed(
    server: PostgresServer, database: str, at: PostgresEndpoint
) -> None:
    for name, value in {
        "DateStyle": "'German'",
        "IntervalStyle": "'iso_8601'",
        "TimeZone": "'Asia/Tokyo'",
        "bytea_output": "'escape'",
        "extra_float_digits": "-10",
        "search_path": "'public'",
        "statement_timeout": "200",
    }.items():
        server.execute(f"ALTER DATABASE {database} SET {name} = {value}")
    sql = (
        "SELECT DATE '2026-02-01' AS d, TIMESTAMPTZ '2026-02-01 00:00:00+09' AS t, INTERVAL '1 day 2 hours' AS i,"
        " '\\x00ff'::bytea AS b, 0.1::float8 + 0.2::float8 AS f, current_setting('search_path') AS p"
    )
    with open_session(at) as session:
        session.run("SELECT pg_catalog.pg_sleep(0.4)", doing="wait for longer than the database's own limit")
        row = session.row(f"SELECT d::text, t::text, i::text, b::text, f::text, p FROM ({sql}) AS x", doing="look")
    assert row == {
        "d": "2026-02-01",
        "t": "2026-01-31 15:00:00+00",
        "i": "1 day 02:00:00",
        "b": "\\x00ff",
        "f": "0.30000000000000004",
        "p": "",
    }


def test_a_table_whose_policy_hides_rows_is_refused_instead_of_read_in_part(
    server: PostgresServer, database: str, session: Session
) -> None:
    server.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY)",
        "INSERT INTO public.t VALUES (1), (2)",
        "CREATE POLICY one ON public.t USING (id = 1)",
        "ALTER TABLE public.t ENABLE ROW LEVEL SECURITY",
        dbname=database,
    )
    with pytest.raises(MissingPrivilegeError, match=r"row-level security.*BYPASSRLS"):
        session.rows("SELECT * FROM public.t", doing="read t")


@pytest.mark.parametrize(
    ("user", "database", "error", "says"),
    [
        (User("cdc", "wrong"), "postgres", SourceAccessError, "access denied.*Check login, password"),
        (User("nobody", "x"), "postgres", SourceAccessError, "access denied"),
        (None, "absent", SourceAccessError, "database .* does not exist.*Check the connection's database"),
    ],
)
def test_a_refused_login_says_why_and_never_the_password(
    newest: PostgresServer, user: User | None, database: str, error: type[SourceError], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        connect(endpoint(newest, database, user))
    assert (user or newest.cdc).password not in repr(caught.value) or len((user or newest.cdc).password) < 4
    assert caught.value.__cause__ is None


def test_a_server_that_is_not_there_is_unreachable(newest: PostgresServer) -> None:
    absent = PostgresEndpoint("127.0.0.1", free_port(), "cdc", "x", connect_timeout=2)
    with pytest.raises(SourceUnreachableError, match="Check host and port"):
        connect(absent)
    with pytest.raises(SourceUnreachableError, match="unknown host"):
        connect(PostgresEndpoint("no-such-host.invalid", 5432, "cdc", "x", connect_timeout=2))


def test_tls_that_the_server_does_not_offer_is_named(newest: PostgresServer) -> None:
    with pytest.raises(SourceTlsError, match="SSL"):
        connect(endpoint(newest, ssl={"mode": "required"}))


@pytest.fixture
def with_tls(newest: PostgresServer, certificates: Certificates) -> Iterator[PostgresServer]:
    """PostgreSQL 18 while it offers TLS."""
    files = {"ssl_cert_file": certificates.certificate, "ssl_key_file": certificates.key}
    newest.execute(
        *(f"ALTER SYSTEM SET {name} = '{path}'" for name, path in files.items()), "ALTER SYSTEM SET ssl = on"
    )
    newest.execute("SELECT pg_reload_conf()")
    wait_until(lambda: newest.execute("SHOW ssl") == [("on",)] or None, timeout=10, what="TLS to be on")
    yield newest
    newest.execute(*(f"ALTER SYSTEM RESET {name}" for name in ("ssl", *files)))
    newest.execute("SELECT pg_reload_conf()")
    wait_until(lambda: newest.execute("SHOW ssl") == [("off",)] or None, timeout=10, what="TLS to be off")


def _tls_check(at: PostgresEndpoint) -> Check:
    return next(one for one in PostgresSource(at).checks("shop", (), hold=False) if one.name == "tls")


def test_the_doctor_says_what_of_the_connection_is_not_verified(
    with_tls: PostgresServer, certificates: Certificates
) -> None:
    ca = {"ca": str(certificates.authority)}
    assert re.match(r"TLS \(TLS_\w+\), but nothing proves which server answers", _tls_check(endpoint(with_tls)).found)
    assert _tls_check(endpoint(with_tls, ssl={"mode": "disabled"})).found.startswith("no TLS")
    assert "its host name is not verified" in _tls_check(endpoint(with_tls, ssl={**ca, "mode": "preferred"})).found
    assert "certificate and host name verified" in _tls_check(endpoint(with_tls, ssl=ca)).found


def test_an_authority_that_is_named_is_used_whatever_the_mode(
    with_tls: PostgresServer, certificates: Certificates
) -> None:
    for mode in ("preferred", "required", "verify_ca", "verify_identity"):
        with pytest.raises(SourceTlsError, match="certificate"):
            connect(endpoint(with_tls, ssl={"mode": mode, "ca": str(certificates.stranger)}))


def test_statements_say_what_is_wrong(session: Session, at: PostgresEndpoint) -> None:
    with pytest.raises(SourceObjectMissingError, match=r"could not read it: relation .* does not exist"):
        session.rows("SELECT * FROM public.absent", doing="read it")
    with pytest.raises(MissingPrivilegeError, match="permission denied"):
        session.rows("SELECT * FROM pg_catalog.pg_authid", doing="read it")
    with open_session(at, read_timeout=0.1) as hurried, pytest.raises(SourceOutOfTimeError, match="statement timeout"):
        hurried.rows("SELECT pg_catalog.pg_sleep(30)", doing="sleep")


def test_a_killed_connection_is_unreachable(server: PostgresServer, at: PostgresEndpoint) -> None:
    with open_session(at) as session:
        pid, raised = session.pid, []

        def sleep() -> None:
            try:
                session.rows("SELECT pg_catalog.pg_sleep(60)", doing="sleep")
            except SourceError as error:
                raised.append(error)

        thread = threading.Thread(target=sleep)
        thread.start()
        wait_until(
            lambda: server.execute(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'") or None,
            timeout=10,
            what="the statement to run",
        )
        server.execute(f"SELECT pg_terminate_backend({pid})")
        thread.join(10)
    assert isinstance(raised[0], SourceUnreachableError), raised
