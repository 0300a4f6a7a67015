"""MySQL's and MariaDB's error numbers (their manuals' "Server Error Message Reference"), and what a user is told of each."""

from __future__ import annotations

import pymysql
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
from airflow_cdc.sources.mysql.errors import explain

# number, its name in the manual, what it is told as, words of what is said, words of what to do
NUMBERS: tuple[tuple[int, str, type[SourceError], str, str], ...] = (
    (1040, "ER_CON_COUNT_ERROR", SourceUnreachableError, "the server has too many connections", "connections to spare"),
    (1203, "ER_TOO_MANY_USER_CONNECTIONS", SourceUnreachableError, "the user has too many", "raise its limit"),
    (1226, "ER_USER_LIMIT_REACHED", SourceUnreachableError, "over one of its limits: MSG", "raise its limit"),
    (1044, "ER_DBACCESS_DENIED_ERROR", SourceAccessError, "access denied: MSG", "the user's grants"),
    (1045, "ER_ACCESS_DENIED_ERROR", SourceAccessError, "access denied: MSG", "login and password"),
    (1698, "ER_ACCESS_DENIED_NO_PASSWORD_ERROR", SourceAccessError, "access denied: MSG", "login and password"),
    (1862, "ER_MUST_CHANGE_PASSWORD_LOGIN", SourceAccessError, "the password has expired", "new password"),
    (3118, "ER_ACCOUNT_HAS_BEEN_LOCKED", SourceAccessError, "the account is locked", "ACCOUNT UNLOCK"),
    (2059, "CR_AUTH_PLUGIN_CANNOT_LOAD", SourceAccessError, "login method is not supported: MSG", "caching_sha2"),
    (1129, "ER_HOST_IS_BLOCKED", SourceAccessError, "the server blocks this host: MSG", "flush-hosts"),
    (1130, "ER_HOST_NOT_PRIVILEGED", SourceAccessError, "MSG", "Allow this host"),
    (1049, "ER_BAD_DB_ERROR", SourceAccessError, "could not read it: MSG", "the schema's name"),
    (1205, "ER_LOCK_WAIT_TIMEOUT", SourceLockTimeoutError, "a lock was not granted", "which statement holds it"),
    (3024, "ER_QUERY_TIMEOUT", SourceOutOfTimeError, "could not read it: MSG [3024]", ""),
    (1317, "ER_QUERY_INTERRUPTED", SourceOutOfTimeError, "could not read it: MSG [1317]", ""),
    (1969, "ER_STATEMENT_TIMEOUT", SourceOutOfTimeError, "could not read it: MSG [1969]", ""),
    (1381, "ER_NO_BINARY_LOGGING", SourceSettingError, "the binary log is off", "--log-bin"),
    (1193, "ER_UNKNOWN_SYSTEM_VARIABLE", SourceSettingError, "could not read it: MSG", "older than what this needs"),
    (2002, "CR_CONNECTION_ERROR", SourceUnreachableError, "cannot connect: MSG", "host and port"),
    (2003, "CR_CONN_HOST_ERROR", SourceUnreachableError, "cannot connect: MSG", "host and port"),
    (2005, "CR_UNKNOWN_HOST", SourceUnreachableError, "unknown host: MSG", "host and port"),
    (2006, "CR_SERVER_GONE_ERROR", SourceUnreachableError, "the connection is gone", "host and port"),
    (2013, "CR_SERVER_LOST", SourceUnreachableError, "was lost: could not read it", "host and port"),
    (4031, "ER_CLIENT_INTERACTION_TIMEOUT", SourceUnreachableError, "closed the idle connection", "host and port"),
    (1927, "ER_CONNECTION_KILLED", SourceUnreachableError, "the connection was killed", "host and port"),
    (2026, "CR_SSL_CONNECTION_ERROR", SourceTlsError, "TLS failed: MSG", "ssl settings"),
    (3159, "ER_SECURE_TRANSPORT_REQUIRED", SourceTlsError, "the server demands TLS", "ssl mode"),
)


def told(error: Exception) -> SourceError:
    return explain(error, where="mysql db:3306", doing="read it")


@pytest.mark.parametrize(("number", "name", "error", "what", "todo"), NUMBERS, ids=[one[1] for one in NUMBERS])
def test_each_number_is_told_as_what_it_is(
    number: int, name: str, error: type[SourceError], what: str, todo: str
) -> None:
    made = told(pymysql.OperationalError(number, "MSG"))
    assert type(made) is error, name
    assert what in made.what
    assert todo in made.todo
    assert bool(todo) == bool(made.todo)
    assert made.where == "mysql db:3306"


def test_a_connection_that_the_client_has_closed_is_gone_and_no_answer_of_the_machine_is_no_server() -> None:
    """PyMySQL raises (0, "") for a connection that is closed; a socket's error has no number of MySQL's."""
    assert told(pymysql.InterfaceError(0, "")).what == "the connection is gone"
    assert type(told(ConnectionRefusedError("refused"))) is SourceUnreachableError
    assert "refused" in told(TimeoutError("refused")).what


def test_any_other_error_is_told_with_its_number_and_one_without_by_its_text() -> None:
    assert told(pymysql.ProgrammingError(1064, "syntax")).what == "could not read it: syntax [1064]"
    assert told(ValueError("odd")).what == "could not read it: odd"
    assert told(ValueError()).what == "could not read it: ValueError"


def test_a_certificate_that_is_not_trusted_is_told_whatever_its_number() -> None:
    made = told(pymysql.OperationalError(2003, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"))
    assert type(made) is SourceTlsError
    assert "is not trusted" in made.what
    assert "CA file" in made.todo


@pytest.mark.parametrize(
    ("number", "message", "privilege", "on"),
    [
        (1227, "Access denied; you need (at least one of) the SUPER, REPLICATION CLIENT privilege(s)", "REPLICATION CLIENT", ""),
        (1227, "Access denied; you need (at least one of) the SUPER or BINLOG_ADMIN privilege(s)", "BINLOG_ADMIN", ""),
        (1227, "Access denied; you need (at least one of) the SUPER privilege(s)", "SUPER", ""),
        (1142, "SELECT command denied to user 'cdc'@'h' for table 'orders'", "SELECT", "orders"),
        (1143, "SELECT command denied to user 'cdc'@'h' for column 'a' in table 'orders'", "", ""),
        (1370, "execute denied", "", ""),
        (3619, "Illegal privilege level", "", ""),
        (1401, "XAER_RMERR: no", "XA_RECOVER_ADMIN", ""),
    ],
)  # fmt: skip
def test_the_least_privilege_that_suffices_is_named_with_its_grant(
    number: int, message: str, privilege: str, on: str
) -> None:
    made = told(pymysql.OperationalError(number, message))
    assert isinstance(made, MissingPrivilegeError)
    assert made.privilege == privilege
    if privilege:
        assert made.todo == f"Grant it: GRANT {privilege} ON {on or '*.*'} TO the user."
        assert f"the user lacks the privilege {privilege}" in made.what
        return
    assert message in made.what
    assert made.todo == "Check the user's grants."
