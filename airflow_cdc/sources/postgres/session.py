"""One connection to a PostgreSQL server: opened with TLS and pinned session settings, read as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from airflow_cdc.core.endpoint import TimedServer
from airflow_cdc.core.errors import ConfigError, SourceError
from airflow_cdc.sources.errors import ASK_BETWEEN
from airflow_cdc.sources.postgres.errors import explain
from airflow_cdc.sources.row import Row
from airflow_cdc.sources.tls import Mode, mode_of, settings_of

if TYPE_CHECKING:
    from types import ModuleType

    from psycopg import Connection
    from psycopg.rows import TupleRow

QUICK_READ_S: Final = 30.0
PORT: Final = 5432
_LIBPQ: Final[Mapping[Mode, str]] = {
    Mode.DISABLED: "disable",
    Mode.PREFERRED: "prefer",
    Mode.REQUIRED: "require",
    Mode.VERIFY_CA: "verify-ca",
    Mode.VERIFY_IDENTITY: "verify-full",
}
# our names for ssl modes (as in the MySQL connection) and libpq's own
SSL_MODES: Final[Mapping[str, Mode]] = {
    **{str(mode): mode for mode in Mode},
    **{name.replace("-", "_"): mode for mode, name in _LIBPQ.items()},
}
_SSL_KEYS: Final = {"ca": "sslrootcert", "cert": "sslcert", "key": "sslkey", "key_password": "sslpassword"}

# Every reading session has the same settings, whatever those of the server, the database and the role are:
# - row_security off: a table whose policies would hide rows raises an error instead of returning fewer rows
# - search_path empty: every name needs its schema, and no operator that a user defined is called
# - DateStyle, IntervalStyle, bytea_output, extra_float_digits: the text of a value is always the same
# - timeouts 0: a long scan must not be stopped
SESSION_PINS: Final[dict[str, str]] = {
    "search_path": "",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "xmloption": "content",
    "standard_conforming_strings": "on",
    "row_security": "off",
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "jit": "off",
}


@dataclass(frozen=True, slots=True)
class PostgresEndpoint(TimedServer):
    """Address, database and credentials of a PostgreSQL server.

    `ssl` is None (TLS if the server offers it, unverified) or a dict: mode (disabled, preferred, required, verify_ca,
    verify_identity; default verify_identity with a ca, else required; see `sources.tls.mode_of`), ca, cert, key, key_password. Timeouts in
    seconds; `quick_read` applies to statements about the server and its tables. `slot` and `publication` are those of
    the pipeline's connector; "" without a pipeline.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str = "postgres"
    slot: str = ""
    publication: str = ""
    ssl: Mapping[str, object] | None = field(default=None, repr=False)
    connect_timeout: float = 10.0
    read_timeout: float = 3600.0
    quick_read: float = QUICK_READ_S

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", self.host.strip())
        object.__setattr__(self, "port", int(self.port or PORT))
        object.__setattr__(self, "database", self.database.strip() or "postgres")
        if not self.host:
            raise ConfigError("the PostgreSQL connection has no host", todo="Set the host of the connection.")

    @property
    def where(self) -> str:
        """How messages name this server."""
        return f"postgres {self.host}:{self.port}/{self.database} as {self.user}"

    @property
    def dataset(self) -> str:
        """OpenLineage's namespace of this server's tables."""
        return f"postgres://{self.host}:{self.port}"

    def parameters(self) -> dict[str, object]:
        """Libpq's connection parameters, password included, so they must never be logged. Raises ConfigError."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "dbname": self.database,
            "connect_timeout": max(1, round(self.connect_timeout)),
            "application_name": "airflow-provider-cdc",
            "client_encoding": "UTF8",
            # a dead peer is noticed within about a minute instead of hours
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            **tls_parameters(self),
        }


class Session:
    """An open connection whose errors are SourceErrors and whose answers are rows by name."""

    def __init__(self, connection: Connection[TupleRow], where: str) -> None:
        self.connection = connection
        self.where = where

    @property
    def pid(self) -> int:
        """The server's process id of this session."""
        return int(self.connection.info.backend_pid)

    @property
    def encrypted(self) -> bool:
        """Whether our end of the connection is TLS, whatever is behind a pooler."""
        return bool(self.connection.pgconn.ssl_in_use)

    @property
    def version(self) -> int:
        """The server's version as a number: 150018 for 15.18."""
        return int(self.connection.info.server_version)

    def rows(self, sql: str, args: Sequence[object] = (), *, doing: str) -> list[Row]:
        """All rows of a statement. Raises SourceError; `doing` completes "could not …"."""
        import psycopg
        from psycopg.rows import dict_row

        try:
            with self.connection.cursor(row_factory=dict_row) as cursor:
                cursor.execute(sql, args or None)
                return [Row(row) for row in cursor.fetchall()] if cursor.description else []
        except (psycopg.Error, OSError) as error:
            raise explain(error, where=self.where, doing=doing) from error

    def row(self, sql: str, args: Sequence[object] = (), *, doing: str) -> Row:
        """The first row of a statement. Raises SourceError, also when there is none."""
        for row in self.rows(sql, args, doing=doing):
            return row
        raise SourceError(
            f"could not {doing}: the server returned no row",
            where=self.where,
            todo=ASK_BETWEEN,
        )

    def run(self, sql: str, args: Sequence[object] = (), *, doing: str) -> None:
        """Run a statement that returns no rows."""
        self.rows(sql, args, doing=doing)

    def close(self) -> None:
        """End the connection at once; a connection that is already gone is no error."""
        with suppress(Exception):
            self.connection.close()


def open_connection(endpoint: PostgresEndpoint, *, read_timeout: float | None = None) -> Connection[TupleRow]:
    """Connect with autocommit and the session pins.

    `read_timeout` (seconds) limits each statement; None: the endpoint's timeout.
    Raises SourceError naming what is wrong, ConfigError for wrong ssl settings or without psycopg.
    """
    connection = connect(endpoint)
    limit = endpoint.read_timeout if read_timeout is None else read_timeout
    pins = SESSION_PINS | {"statement_timeout": str(round(limit * 1000))}
    session = Session(connection, endpoint.where)
    try:
        session.run(pin_statement(pins), [part for pin in pins.items() for part in pin], doing="set up the session")
    except SourceError:
        session.close()
        raise
    return connection


def connect(endpoint: PostgresEndpoint, **more: object) -> Connection[TupleRow]:
    """An autocommit connection without session pins; `more` are further parameters of libpq."""
    psycopg = driver(endpoint.where)
    parameters = endpoint.parameters() | more
    try:
        # no prepared statements: behind a pooler another server session would not know them
        return cast("Connection[TupleRow]", psycopg.connect(autocommit=True, prepare_threshold=None, **parameters))
    except (psycopg.Error, OSError, ValueError) as error:
        # no exception chain: the driver's frames hold the password
        raise explain(error, where=endpoint.where, doing="connect") from None


def driver(where: str = "") -> ModuleType:
    """The psycopg module. Raises ConfigError naming the extra if it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise ConfigError(
            f"the PostgreSQL driver cannot be loaded: {error}",
            where=where,
            todo="Install it: pip install 'airflow-provider-cdc[postgres]'.",
        ) from error
    return psycopg


@contextmanager
def open_session(endpoint: PostgresEndpoint, *, read_timeout: float | None = None) -> Iterator[Session]:
    """A session for one short task, closed at the end. `read_timeout`: by default the endpoint's `quick_read`."""
    session = Session(open_connection(endpoint, read_timeout=read_timeout or endpoint.quick_read), endpoint.where)
    try:
        yield session
    finally:
        session.close()


def pin_statement(pins: Mapping[str, str]) -> str:
    """One statement that sets all pins; its arguments are names and values in alternation."""
    return f"SELECT {', '.join(['pg_catalog.set_config(%s, %s, false)'] * len(pins))}"


def tls_mode(endpoint: PostgresEndpoint) -> Mode:
    """How the connection is protected. Raises ConfigError for unknown ssl settings."""
    given = settings_of(endpoint.ssl, endpoint.where)
    if written := given.get("mode"):
        given["mode"] = SSL_MODES.get(str(written).lower().replace("-", "_"), written)
    return mode_of(given, endpoint.where)


def tls_parameters(endpoint: PostgresEndpoint) -> dict[str, str]:
    """Libpq's ssl parameters from the connection's `ssl` dict. Raises ConfigError."""
    given = settings_of(endpoint.ssl, endpoint.where)
    files = {_SSL_KEYS[key]: str(value) for key, value in given.items() if key != "mode"}
    return {"sslmode": _LIBPQ[tls_mode(endpoint)], **files}
