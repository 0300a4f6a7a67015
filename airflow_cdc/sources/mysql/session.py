"""One connection to a MySQL server: opened with TLS and pinned session settings, read as rows."""

from __future__ import annotations

import ssl as tls
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor, DictCursor

from airflow_cdc.core.endpoint import TimedServer
from airflow_cdc.core.errors import ConfigError, SourceError
from airflow_cdc.sources.errors import ASK_BETWEEN, SourceTlsError
from airflow_cdc.sources.mysql.capabilities import ServerVersion
from airflow_cdc.sources.mysql.errors import explain
from airflow_cdc.sources.row import Row
from airflow_cdc.sources.tls import Mode, mode_of, settings_of

QUICK_READ_S: Final = 30.0

# Every reading session has the same settings, whatever the server's own are:
# - sql_mode '': PAD_CHAR_TO_FULL_LENGTH would pad values, ANSI_QUOTES and NO_BACKSLASH_ESCAPES change literals
# - max_execution_time 0: a global limit would stop a long scan
# - net_write_timeout: a reader that is busy writing must not be disconnected
SESSION_PINS: Final[tuple[str, ...]] = (
    "@@SESSION.transaction_isolation = 'REPEATABLE-READ'",
    "@@SESSION.time_zone = '+00:00'",
    "@@SESSION.sql_mode = ''",
    "@@SESSION.max_execution_time = 0",
    "@@SESSION.net_write_timeout = 3600",
)
_MARIADB_PINS: Final[tuple[str, ...]] = (
    "@@SESSION.tx_isolation = 'REPEATABLE-READ'",
    "@@SESSION.time_zone = '+00:00'",
    "@@SESSION.sql_mode = ''",
    "@@SESSION.max_statement_time = 0",
    "@@SESSION.net_write_timeout = 3600",
    # on MariaDB, foreign keys are read from SHOW CREATE TABLE
    "@@SESSION.sql_quote_show_create = 1",
)


@dataclass(frozen=True, slots=True)
class MySqlEndpoint(TimedServer):
    """Address and credentials of a MySQL server.

    `ssl` is None (TLS if the server offers it, unverified) or a dict: mode (disabled, preferred,
    required, verify_ca, verify_identity; default verify_identity with a ca, else required; see `tls.mode_of`), ca, cert,
    key, key_password. Timeouts in seconds; `quick_read` is for statements about the server and its tables.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    ssl: Mapping[str, object] | None = field(default=None, repr=False)
    connect_timeout: float = 10.0
    read_timeout: float = 3600.0
    quick_read: float = QUICK_READ_S

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", self.host.strip())
        object.__setattr__(self, "port", int(self.port or 3306))
        if not self.host:
            raise ConfigError("the MySQL connection has no host", todo="Set the host of the connection.")

    @property
    def where(self) -> str:
        """How messages name this server."""
        return f"mysql {self.host}:{self.port} as {self.user}"

    @property
    def dataset(self) -> str:
        """OpenLineage's namespace of this server's tables."""
        return f"mysql://{self.host}:{self.port}"


class Session:
    """An open connection whose errors are SourceErrors and whose answers are rows by name."""

    def __init__(self, connection: Connection[Cursor], where: str) -> None:
        self.connection = connection
        self.where = where
        self._version: ServerVersion | None = None

    @property
    def id(self) -> int:
        """The server's connection id."""
        return int(self.connection.thread_id())  # type: ignore[no-untyped-call]

    @property
    def version(self) -> ServerVersion:
        """The server's own version: a proxy in between reports another one in its greeting."""
        if self._version is None:
            row = self.row("SELECT @@version AS version", doing="read the server's version")
            self._version = ServerVersion.parse(str(row["version"]))
        return self._version

    def rows(self, sql: str, args: Sequence[object] = (), *, doing: str) -> list[Row]:
        """All rows of a statement. Raises SourceError; `doing` completes "could not …"."""
        try:
            with self.connection.cursor(DictCursor) as cursor:
                cursor.execute(sql, args or None)
                return [Row(row) for row in cursor.fetchall()]
        except (pymysql.MySQLError, OSError) as error:
            raise explain(error, where=self.where, doing=doing) from error

    def row(self, sql: str, args: Sequence[object] = (), *, doing: str) -> Row:
        """The first row of a statement. Raises SourceError, also when there is none."""
        for row in self.rows(sql, args, doing=doing):
            return row
        raise SourceError(
            f"could not {doing}: the server returned an empty answer",
            where=self.where,
            todo=ASK_BETWEEN,
        )

    def run(self, sql: str, args: Sequence[object] = (), *, doing: str) -> None:
        """Run a statement that returns no rows."""
        self.rows(sql, args, doing=doing)

    def close(self) -> None:
        """End the connection at once; a connection that is already gone is no error."""
        with suppress(pymysql.MySQLError, OSError):
            self.connection.close()


class _Connection(Connection):  # generic only in its stubs
    """A connection that loads no CA bundle where nothing is verified: loading takes 20 ms of CPU each time."""

    def _create_ssl_ctx(self, sslp: Mapping[str, object]) -> tls.SSLContext:
        return super()._create_ssl_ctx(sslp) if sslp else unverified()  # type: ignore[misc]


def open_connection(endpoint: MySqlEndpoint, *, read_timeout: float | None = None) -> Connection[Cursor]:
    """Connect with utf8mb4, autocommit and the session pins. Raises SourceError naming what is wrong."""
    options = client_options(endpoint.ssl, endpoint.where)
    try:
        connection = _Connection(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=endpoint.connect_timeout,
            read_timeout=read_timeout or endpoint.read_timeout,
            write_timeout=read_timeout or endpoint.read_timeout,
            program_name="airflow-provider-cdc",
            **options,
        )
    except (pymysql.MySQLError, OSError, ValueError) as error:
        # no `from error`: the driver's frames hold the password
        raise explain(error, where=endpoint.where, doing="connect") from None
    _pin(connection, endpoint.where)
    return connection


@contextmanager
def open_session(endpoint: MySqlEndpoint, *, read_timeout: float | None = None) -> Iterator[Session]:
    """A session for one short task, closed at the end. `read_timeout`: by default the endpoint's `quick_read`."""
    connection = open_connection(endpoint, read_timeout=read_timeout or endpoint.quick_read)
    session = Session(connection, endpoint.where)
    try:
        yield session
    finally:
        session.close()


def session_pins(version: ServerVersion) -> tuple[str, ...]:
    """The SET assignments with which every reading session starts."""
    return _MARIADB_PINS if version.mariadb else SESSION_PINS


def _pin(connection: Connection[Cursor], where: str) -> None:
    session = Session(connection, where)
    greeting = str(connection.get_server_info())  # type: ignore[no-untyped-call]
    try:
        session.run(f"SET {', '.join(session_pins(ServerVersion.parse(greeting)))}", doing="set up the session")
    except SourceError:
        session.close()
        raise


def client_options(ssl: Mapping[str, object] | None, where: str) -> dict[str, Any]:
    """PyMySQL's options for these settings. Raises ConfigError, or SourceTlsError for files that cannot be read."""
    mode = mode_of(ssl, where)
    if mode is Mode.DISABLED:
        return {"ssl_disabled": True}
    return {} if mode is Mode.PREFERRED else {"ssl": _context(settings_of(ssl, where), mode, where)}


def unverified() -> tls.SSLContext:
    """A context that encrypts and trusts any certificate."""
    context = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = tls.CERT_NONE
    return context


def _context(given: Mapping[str, Any], mode: Mode, where: str) -> tls.SSLContext:
    try:
        context = tls.create_default_context(cafile=given.get("ca")) if mode.verifies else unverified()
        # certificates that MySQL generates itself lack extensions that the strict check requires
        context.verify_flags &= ~tls.VERIFY_X509_STRICT
        context.check_hostname = mode is Mode.VERIFY_IDENTITY
        context.verify_mode = tls.CERT_REQUIRED if mode.verifies else tls.CERT_NONE
        if "cert" in given:
            context.load_cert_chain(given["cert"], given.get("key"), given.get("key_password") or "")
    except (OSError, ValueError) as error:
        reason = type(error).__name__ if isinstance(error, tls.SSLError) else str(error)
        raise SourceTlsError(
            f"the TLS files cannot be read: {reason}", where=where, todo="Check ca, cert and key of the ssl settings."
        ) from None
    return context
