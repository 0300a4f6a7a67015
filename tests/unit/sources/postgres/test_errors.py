"""PostgreSQL's error codes (its manual's appendix A) and libpq's messages, and what a user is told of each."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_cdc.core.errors import MissingPrivilegeError, SourceError
from airflow_cdc.sources.errors import (
    SourceAccessError,
    SourceLockTimeoutError,
    SourceOutOfTimeError,
    SourceSettingError,
    SourceTlsError,
    SourceUnreachableError,
)
from airflow_cdc.sources.postgres.errors import (
    SlotError,
    SnapshotGoneError,
    SourceBusyError,
    SourceObjectMissingError,
    explain,
)


class AnsweredError(Exception):
    """An error as psycopg raises it: with the server's code, text and detail; or libpq's text alone."""

    def __init__(self, state: str, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.sqlstate = state or None
        self.diag = SimpleNamespace(message_primary=text if state else None, message_detail=detail or None)


# code, the server's text, what it is told as, words of what is said, words of what to do
CODES: tuple[tuple[str, str, type[SourceError], str, str], ...] = (
    ("28P01", "password authentication failed", SourceAccessError, "access denied: ", "pg_hba.conf"),
    ("28000", 'no pg_hba.conf entry for host "h", no encryption', SourceTlsError, "demands TLS", "ssl mode"),
    ("28000", "no pg_hba.conf entry, SSL off", SourceTlsError, "demands TLS", "ssl mode"),
    ("28000", 'role "cdc" is not permitted to log in', SourceAccessError, "access denied: ", "pg_hba.conf"),
    ("3D000", 'database "x" does not exist', SourceAccessError, "could not read it: ", "connection's database"),
    ("42501", "must be superuser or replication role", MissingPrivilegeError, "could not", "ALTER ROLE … REPLICATION"),
    ("42501", "permission denied to start WAL sender", MissingPrivilegeError, "could not", "ALTER ROLE … REPLICATION"),
    ("42501", "query would be affected by row-level security", MissingPrivilegeError, "could not", "BYPASSRLS"),
    ("42501", "permission denied for table orders", MissingPrivilegeError, "could not", "airflow cdc doctor"),
    ("53300", "number of requested standby connections exceeds max_wal_senders", SourceBusyError, "max_wal_senders is exhausted", "not needed"),
    ("53300", "sorry, too many clients already", SourceBusyError, "too many connections", "max_connections"),
    ("53400", "all replication slots are in use", SourceBusyError, "could not read it", "max_replication_slots"),
    ("53100", "could not extend file", SourceSettingError, "disk is full", "Free space"),
    ("55P03", "canceling statement due to lock timeout", SourceLockTimeoutError, "was not granted", "which session"),
    ("57014", "canceling statement due to statement timeout", SourceOutOfTimeError, "[57014]", ""),
    ("40001", "canceling statement due to conflict with recovery", SourceOutOfTimeError, "[40001]", "max_standby_streaming_delay"),
    ("55006", "replication slot is active for PID 7", SlotError, "could not read it", "End the reader"),
    ("55000", "logical decoding requires wal_level >= logical", SourceSettingError, "could not", "wal_level = logical"),
    ("55000", "can no longer get changes from replication slot", SlotError, "could not", "a new slot is needed"),
    ("55000", "can no longer access replication slot", SlotError, "could not", "a new slot is needed"),
    ("55000", "this slot has been invalidated", SlotError, "could not", "a new slot is needed"),
    ("55000", "cannot copy a physical replication slot", SlotError, "could not read it: cannot copy", ""),
    ("55000", "cannot do that now", SourceError, "[55000]", ""),
    ("42704", 'snapshot "0001" does not exist', SnapshotGoneError, "could not", "Clear the task"),
    ("42704", 'replication slot "x" does not exist', SourceObjectMissingError, "could not", "Check the name"),
    ("22023", 'invalid snapshot identifier: "0001"', SnapshotGoneError, "could not", "Clear the task"),
    ("22023", "invalid parameter value", SourceError, "[22023]", ""),
    ("42710", "replication slot already exists", SlotError, "could not", "another name"),
    ("42P01", 'relation "x" does not exist', SourceObjectMissingError, "could not", "table's name and schema"),
    ("3F000", 'schema "x" does not exist', SourceObjectMissingError, "could not", "schema's name"),
    ("57P01", "terminating connection due to administrator command", SourceUnreachableError, "was ended by the server", "host and port"),
    ("57P02", "terminating connection because of crash", SourceUnreachableError, "the server crashed", "host and port"),
    ("57P03", "the database system is starting up", SourceUnreachableError, "does not take connections", "host and port"),
    ("57P05", "terminating connection due to idle-session timeout", SourceUnreachableError, "closed the idle connection", "host and port"),
    ("25P03", "terminating connection due to idle-in-transaction timeout", SourceUnreachableError, "idle transaction", "idle_in_transaction_session_timeout"),
    ("08006", "connection failure", SourceUnreachableError, "the connection was lost", "host and port"),
    ("08P01", "protocol violation", SourceUnreachableError, "the connection was lost", "host and port"),
    # libpq: no server answered, so there is no code
    ("", "SSL error: certificate verify failed", SourceTlsError, "is not trusted", "CA file"),
    ("", 'server certificate for "a" does not match host name "b"', SourceTlsError, "is not trusted", "CA file"),
    ("", 'root certificate file "/x" does not exist', SourceTlsError, "is not trusted", "CA file"),
    ("", "server does not support SSL, but SSL was required", SourceTlsError, "TLS failed", "ssl settings"),
    ("", "could not load private key file", SourceTlsError, "TLS failed", "ssl settings"),
    ("", "fe_sendauth: no password supplied", SourceAccessError, "access denied", "pg_hba.conf"),
    ("", 'FATAL: no pg_hba.conf entry for host "h"', SourceAccessError, "access denied", "pg_hba.conf"),
    ("", 'FATAL: database "x" does not exist', SourceAccessError, "could not read it", "connection's database"),
    ("", "FATAL: number of requested standby connections exceeds max_wal_senders", SourceBusyError, "max_wal_senders is exhausted", "not needed"),
    ("", "FATAL: sorry, too many clients already", SourceBusyError, "too many connections", "max_connections"),
    ("", "FATAL: remaining connection slots are reserved", SourceBusyError, "too many connections", "max_connections"),
    ("", "FATAL: permission denied to start WAL sender", MissingPrivilegeError, "could not", "REPLICATION"),
    ("", 'could not translate host name "x" to address', SourceUnreachableError, "unknown host", "host and port"),
    ("", "Name or service not known", SourceUnreachableError, "unknown host", "host and port"),
    ("", "failed to resolve host 'x'", SourceUnreachableError, "unknown host", "host and port"),
    ("", "FATAL: the database system is starting up", SourceUnreachableError, "does not take connections", "host and port"),
    ("", "FATAL: the database system is in recovery mode", SourceUnreachableError, "does not take connections", "host and port"),
    ("", "connection refused", SourceUnreachableError, "no connection", "host and port"),
    ("", "server closed the stream unexpectedly", SourceUnreachableError, "no connection", "host and port"),
    ("", "timeout expired", SourceUnreachableError, "no connection", "host and port"),
)  # fmt: skip


def told(error: Exception) -> SourceError:
    return explain(error, where="postgres db:5432", doing="read it")


@pytest.mark.parametrize(
    ("state", "text", "error", "what", "todo"), CODES, ids=[f"{one[0]} {one[1][:40]}" for one in CODES]
)
def test_each_code_is_told_as_what_it_is(state: str, text: str, error: type[SourceError], what: str, todo: str) -> None:
    made = told(AnsweredError(state, text))
    assert type(made) is error
    assert what in made.what
    assert todo in made.todo
    assert bool(todo) == bool(made.todo)
    assert made.where == "postgres db:5432"


def test_the_detail_stands_behind_the_text_in_one_line() -> None:
    made = told(AnsweredError("42P01", 'relation "x"\n does not exist.', "It was dropped."))
    assert made.what == 'could not read it: relation "x" does not exist. It was dropped'


def test_a_cancel_of_another_reason_is_told_by_its_code_and_an_unknown_text_as_it_is() -> None:
    assert (
        told(AnsweredError("40001", "could not serialize access")).what
        == "could not read it: could not serialize access [40001]"
    )
    assert told(AnsweredError("XX000", "odd")).what == "could not read it: odd [XX000]"
    assert told(ValueError("odd")).what == "could not read it: odd"
    assert told(ValueError()).what == "could not read it: ValueError"


def test_no_password_is_told() -> None:
    assert "hush-1" not in str(
        told(AnsweredError("", "connection to postgres://cdc:hush-1@db/x failed, password=hush-1"))
    )


def test_a_server_without_room_was_not_read() -> None:
    """What is not known of a source must not be taken for a fault of it (INV 40)."""
    assert told(AnsweredError("53300", "sorry, too many clients already")).unread
    assert not SlotError("x").unread
