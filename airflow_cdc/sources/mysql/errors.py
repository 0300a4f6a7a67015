"""What MySQL's error numbers mean for a person: what happened, where, what to do. Never a password."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pymysql

from airflow_cdc.core.errors import MissingPrivilegeError, SourceError
from airflow_cdc.sources.errors import (
    ASK_SERVER,
    SourceAccessError,
    SourceLockTimeoutError,
    SourceOutOfTimeError,
    SourceSettingError,
    SourceTlsError,
    SourceUnreachableError,
)


class ServerRestartedError(SourceError):
    """The server was restarted since the watermark: what was read before may not have survived."""


@dataclass(frozen=True, slots=True)
class _Meaning:
    error: type[SourceError]
    what: str
    todo: str


_CHECK_HOST: Final = "Check host and port of the connection, and that the server runs and can be reached from here."
_BUSY: Final = "Try again when the server has connections to spare, or raise its limit."
_LOGIN: Final = "Check login and password of the connection."

# Number → meaning; {message} is the server's own text, which never holds a password.
_MEANINGS: Final[dict[int, _Meaning]] = {
    1040: _Meaning(SourceUnreachableError, "the server has too many connections", _BUSY),
    1203: _Meaning(SourceUnreachableError, "the user has too many connections", _BUSY),
    1226: _Meaning(SourceUnreachableError, "the user is over one of its limits: {message}", _BUSY),
    1044: _Meaning(SourceAccessError, "access denied: {message}", "Check the schema name and the user's grants."),
    1045: _Meaning(SourceAccessError, "access denied: {message}", _LOGIN),
    1698: _Meaning(SourceAccessError, "access denied: {message}", _LOGIN),
    1862: _Meaning(SourceAccessError, "the password has expired", "Set a new password for the user."),
    3118: _Meaning(SourceAccessError, "the account is locked", "Unlock the account (ALTER USER … ACCOUNT UNLOCK)."),
    2059: _Meaning(SourceAccessError, "the login method is not supported: {message}", "Use caching_sha2_password."),
    1129: _Meaning(
        SourceAccessError, "the server blocks this host: {message}", "Unblock it with mysqladmin flush-hosts."
    ),
    1130: _Meaning(SourceAccessError, "{message}", "Allow this host in the user's account name."),
    1049: _Meaning(SourceAccessError, "could not {doing}: {message}", "Check the schema's name."),
    1205: _Meaning(
        SourceLockTimeoutError, "a lock was not granted in time", "See which statement holds it, and try again."
    ),
    3024: _Meaning(SourceOutOfTimeError, "could not {doing}: {message} [3024]", ""),
    # what 8.0.15 says of a COUNT(*) that is over MAX_EXECUTION_TIME
    1317: _Meaning(SourceOutOfTimeError, "could not {doing}: {message} [1317]", ""),
    1969: _Meaning(SourceOutOfTimeError, "could not {doing}: {message} [1969]", ""),  # MariaDB's max_statement_time
    1381: _Meaning(SourceSettingError, "the binary log is off", "Start the server with --log-bin; CDC reads it."),
    1193: _Meaning(SourceSettingError, "could not {doing}: {message}", "The server is older than what this needs."),
    2002: _Meaning(SourceUnreachableError, "cannot connect: {message}", _CHECK_HOST),
    2003: _Meaning(SourceUnreachableError, "cannot connect: {message}", _CHECK_HOST),
    2005: _Meaning(SourceUnreachableError, "unknown host: {message}", _CHECK_HOST),
    2006: _Meaning(SourceUnreachableError, "the connection is gone", _CHECK_HOST),
    2013: _Meaning(SourceUnreachableError, "the connection was lost: could not {doing}", _CHECK_HOST),
    4031: _Meaning(SourceUnreachableError, "the server closed the idle connection", _CHECK_HOST),
    1927: _Meaning(SourceUnreachableError, "the connection was killed", _CHECK_HOST),
    2026: _Meaning(SourceTlsError, "TLS failed: {message}", "Check the ssl settings of the connection."),
    3159: _Meaning(SourceTlsError, "the server demands TLS", "Set ssl mode 'required' or stricter in the connection."),
}
_PRIVILEGE_NUMBERS: Final = frozenset({1142, 1143, 1227, 1370, 3619, 1401})
_NEEDS: Final = re.compile(r"at least one of\) the (.+?) privilege\(s\)")
_DENIED: Final = re.compile(r"^(\w[\w ]*?) command denied .* for table '([^']*)'")


def explain(error: Exception, *, where: str, doing: str) -> SourceError:
    """The SourceError that explains `error`; `doing` is the attempted action ("read the binlog list")."""
    number, message = _parts(error)
    if number in _PRIVILEGE_NUMBERS:
        return _missing_privilege(message, where, doing, number)
    if "CERTIFICATE_VERIFY_FAILED" in message:
        return SourceTlsError(
            f"the server's certificate is not trusted: {message}",
            where=where,
            todo="Give the right CA file in the ssl settings, or a mode that does not verify.",
        )
    meaning = _MEANINGS.get(number)
    if meaning is None:
        what = f"could not {doing}: {message or type(error).__name__}"
        return SourceError(
            f"{what} [{number}]" if number else what,
            where=where,
            todo=ASK_SERVER,
        )
    return meaning.error(meaning.what.format(message=message, doing=doing), where=where, todo=meaning.todo)


def _parts(error: Exception) -> tuple[int, str]:
    if isinstance(error, pymysql.MySQLError) and error.args and isinstance(error.args[0], int):
        number, *rest = error.args
        # 0 is PyMySQL's own number for "the connection is closed already"
        return (number or 2006), " ".join(str(part) for part in rest).strip()
    if isinstance(error, OSError):
        return 2003, str(error)
    return 0, str(error)


def _missing_privilege(message: str, where: str, doing: str, number: int) -> MissingPrivilegeError:
    privilege = "XA_RECOVER_ADMIN" if number == 1401 else ""
    table = ""
    if match := _NEEDS.search(message):
        privilege = _least(match[1])
    elif match := _DENIED.search(message):
        privilege, table = match[1], match[2]
    on = f" on {table}" if table else ""
    privilege_text = f"the privilege {privilege}{on}" if privilege else f"a privilege: {message}"
    return MissingPrivilegeError(
        f"could not {doing}: the user lacks {privilege_text}",
        where=where,
        todo=f"Grant it: GRANT {privilege} ON {table or '*.*'} TO the user."
        if privilege
        else "Check the user's grants.",
        privilege=privilege,
    )


def _least(names: str) -> str:
    """Of "SUPER, REPLICATION CLIENT" or "SUPER or BINLOG_ADMIN", the smallest that suffices."""
    options = [name.strip() for name in re.split(r",| or ", names) if name.strip()]
    return next((name for name in options if name != "SUPER"), options[0])
