"""PostgreSQL's SQLSTATEs explained: what happened, where, and what to do. Never with a password."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.errors import MissingPrivilegeError, SourceError
from airflow_cdc.core.secrets import mask_text
from airflow_cdc.sources.errors import (
    ASK_SERVER,
    SourceAccessError,
    SourceLockTimeoutError,
    SourceOutOfTimeError,
    SourceSettingError,
    SourceTlsError,
    SourceUnreachableError,
)


class SourceBusyError(SourceError):
    """The server has no connection, WAL sender or slot to spare."""

    unread = True


class SourceObjectMissingError(SourceError):
    """An object named in a statement does not exist: a table, a slot, a publication."""


class ServerCrashedError(SourceError):
    """The server crashed since the watermark: what was read before may not have survived."""


class SlotError(SourceError):
    """A replication slot is unusable: active, invalidated, missing, or ahead of the requested position."""


class SnapshotGoneError(SourceError):
    """The exported snapshot has ended with the session that held it: a read under it cannot be continued."""


@dataclass(frozen=True, slots=True)
class _Meaning:
    error: type[SourceError]
    what: str
    todo: str = ""
    when: re.Pattern[str] | None = None


def _when(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_CHECK_HOST: Final = "Check host and port of the connection, and that the server runs and can be reached from here."
_LOGIN: Final = "Check login, password and database of the connection, and pg_hba.conf."
_SPARE: Final = "Raise the limit (it takes a restart), or drop what no longer needs it."

# SQLSTATE → meanings, of which the first whose text matches counts; {message} is the server's own text.
_MEANINGS: Final[dict[str, tuple[_Meaning, ...]]] = {
    "28P01": (_Meaning(SourceAccessError, "access denied: {message}", _LOGIN),),
    "28000": (
        _Meaning(
            SourceTlsError,
            "the server demands TLS: {message}",
            "Set ssl mode 'required' or stricter in the connection.",
            _when("no encryption|SSL off"),
        ),
        _Meaning(SourceAccessError, "access denied: {message}", _LOGIN),
    ),
    "3D000": (_Meaning(SourceAccessError, "could not {doing}: {message}", "Check the connection's database."),),
    "42501": (
        _Meaning(
            MissingPrivilegeError,
            "could not {doing}: {message}",
            "Give the role REPLICATION (ALTER ROLE … REPLICATION).",
            _when("replication|wal sender"),
        ),
        _Meaning(
            MissingPrivilegeError,
            "could not {doing}: {message}",
            "The reading role must not be subject to row security: give it BYPASSRLS.",
            _when("row-level security"),
        ),
        _Meaning(
            MissingPrivilegeError,
            "could not {doing}: {message}",
            "Grant it; `airflow cdc doctor` lists what is needed.",
        ),
    ),
    "53300": (
        _Meaning(
            SourceBusyError,
            "max_wal_senders is exhausted: {message}",
            f"End a replication connection that is not needed. {_SPARE}",
            _when("wal_senders"),
        ),
        _Meaning(
            SourceBusyError,
            "the server has too many connections: {message}",
            "Try again when some are free, or raise max_connections.",
        ),
    ),
    "53400": (_Meaning(SourceBusyError, "could not {doing}: {message}", f"max_replication_slots. {_SPARE}"),),
    "53100": (_Meaning(SourceSettingError, "the server's disk is full: {message}", "Free space there first."),),
    "55P03": (
        _Meaning(
            SourceLockTimeoutError, "a lock was not granted in time", "See which session holds it, and try again."
        ),
    ),
    "57014": (_Meaning(SourceOutOfTimeError, "could not {doing}: {message} [57014]"),),
    "40001": (
        _Meaning(
            SourceOutOfTimeError,
            "could not {doing}: {message} [40001]",
            "The standby cancelled the read to replay its log: read the primary, or raise max_standby_streaming_delay.",
            _when("recovery"),
        ),
    ),
    "55006": (_Meaning(SlotError, "could not {doing}: {message}", "End the reader that uses it first."),),
    "55000": (
        _Meaning(
            SourceSettingError,
            "could not {doing}: {message}",
            "Set wal_level = logical and restart the server.",
            _when("wal_level"),
        ),
        _Meaning(
            SlotError,
            "could not {doing}: {message}",
            "The server gave up the log that the slot needed: a new slot is needed, and all is read again.",
            _when("can no longer (access|get changes)|invalidated"),
        ),
        _Meaning(SlotError, "could not {doing}: {message}", "", _when("replication slot")),
        _Meaning(SourceError, "could not {doing}: {message} [55000]"),
    ),
    "42704": (
        _Meaning(
            SnapshotGoneError,
            "could not {doing}: {message}",
            "Clear the task that took the watermark: a new slot and a new snapshot are made.",
            _when("snapshot"),
        ),
        _Meaning(SourceObjectMissingError, "could not {doing}: {message}", "Check the name."),
    ),
    "22023": (
        _Meaning(
            SnapshotGoneError,
            "could not {doing}: {message}",
            "Clear the task that took the watermark: a new slot and a new snapshot are made.",
            _when("invalid snapshot identifier"),
        ),
        _Meaning(SourceError, "could not {doing}: {message} [22023]"),
    ),
    "42710": (
        _Meaning(SlotError, "could not {doing}: {message}", "Choose another name, or drop it if nobody uses it."),
    ),
    "42P01": (
        _Meaning(SourceObjectMissingError, "could not {doing}: {message}", "Check the table's name and schema."),
    ),
    "3F000": (_Meaning(SourceObjectMissingError, "could not {doing}: {message}", "Check the schema's name."),),
    "57P01": (_Meaning(SourceUnreachableError, "the connection was ended by the server: {message}", _CHECK_HOST),),
    "57P02": (_Meaning(SourceUnreachableError, "the server crashed: {message}", _CHECK_HOST),),
    "57P03": (_Meaning(SourceUnreachableError, "the server does not take connections yet: {message}", _CHECK_HOST),),
    "57P05": (_Meaning(SourceUnreachableError, "the server closed the idle connection", _CHECK_HOST),),
    "25P03": (
        _Meaning(
            SourceUnreachableError,
            "the server closed the idle transaction: {message}",
            "Raise idle_in_transaction_session_timeout for the role.",
        ),
    ),
}
# Messages of libpq that have no SQLSTATE, because no server answered.
_UNANSWERED: Final = (
    _Meaning(
        SourceTlsError,
        "the server's certificate is not trusted: {message}",
        "Give the right CA file in the ssl settings, or a mode that does not verify.",
        _when("certificate verify failed|does not match host name|root certificate file"),
    ),
    _Meaning(
        SourceTlsError,
        "TLS failed: {message}",
        "Check the ssl settings of the connection.",
        _when("SSL|certificate|private key"),
    ),
    _Meaning(SourceAccessError, "access denied: {message}", _LOGIN, _when("password|pg_hba|authentication")),
    _Meaning(
        SourceAccessError,
        "could not {doing}: {message}",
        "Check the connection's database.",
        _when('database ".*" does not exist'),
    ),
    _Meaning(
        SourceBusyError,
        "max_wal_senders is exhausted: {message}",
        f"End a replication connection that is not needed. {_SPARE}",
        _when("max_wal_senders"),
    ),
    _Meaning(
        SourceBusyError,
        "the server has too many connections: {message}",
        "Try again when some are free, or raise max_connections.",
        _when("too many (clients|connections)|remaining connection slots"),
    ),
    _Meaning(
        MissingPrivilegeError,
        "could not {doing}: {message}",
        "Give the role REPLICATION (ALTER ROLE … REPLICATION).",
        _when("permission denied to start WAL sender|replication role"),
    ),
    _Meaning(
        SourceUnreachableError,
        "unknown host: {message}",
        _CHECK_HOST,
        _when("translate host name|name or service|resolve"),
    ),
    _Meaning(
        SourceUnreachableError,
        "the server does not take connections yet: {message}",
        _CHECK_HOST,
        _when("starting up|shutting down|not yet accepting|recovery mode"),
    ),
    _Meaning(
        SourceUnreachableError,
        "no connection: {message}",
        _CHECK_HOST,
        _when("connect|closed|timeout|refused|reset|lost|terminat"),
    ),
)


def explain(error: Exception, *, where: str, doing: str) -> SourceError:
    """The SourceError that explains `error`; `doing` is the attempted action ("read the slots")."""
    state, message = str(getattr(error, "sqlstate", None) or ""), _message(error)
    rows = _MEANINGS.get(state, ()) if state else _UNANSWERED
    meaning = next((row for row in rows if row.when is None or row.when.search(message)), None)
    if meaning is None and state.startswith("08"):
        meaning = _Meaning(SourceUnreachableError, "the connection was lost: could not {doing}: {message}", _CHECK_HOST)
    if meaning is None:
        what = f"could not {doing}: {message}"
        return SourceError(
            f"{what} [{state}]" if state else what,
            where=where,
            todo=ASK_SERVER,
        )
    return meaning.error(meaning.what.format(message=message, doing=doing), where=where, todo=meaning.todo)


def _message(error: Exception) -> str:
    """The server's text and its DETAIL in one line; libpq's own text if no server answered."""
    diag = getattr(error, "diag", None)
    primary, detail = getattr(diag, "message_primary", None), getattr(diag, "message_detail", None)
    text = ". ".join(part.rstrip(".") for part in (primary, detail) if part) or str(error) or type(error).__name__
    return mask_text(" ".join(text.split()))
