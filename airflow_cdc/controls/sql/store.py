"""Control documents in one table of a SQL database: SQLite, PostgreSQL or MySQL.

Each write is one statement, `UPDATE … WHERE version = …` or an INSERT that a primary key admits once: the database
decides which of two writers comes first, at every isolation level.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from sqlalchemy import Column, LargeBinary, MetaData, String, Table, create_engine, inspect, select, update
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.core.errors import ConfigError, StaleHeadError, UnknownStateError, needs
from airflow_cdc.core.ports import StoredDocument

T = TypeVar("T")

TABLE: Final = "cdc_control"
# A ledger of 20 runs over 500 tables takes about 100 kB. MySQL chooses the column's type by this length.
MAX_BYTES: Final = 2**24

_documents = Table(
    TABLE,
    MetaData(),
    # The hash of a name: two names that are equal by collation are two pipelines here.
    Column("id", String(64), primary_key=True),
    Column("pipeline", String(255), nullable=False),
    # Not a number: after a restore from a backup no version may occur a second time.
    Column("version", String(32), nullable=False),
    # UTF-8 bytes: a text column could lose characters that its character set lacks.
    Column("document", LargeBinary(MAX_BYTES), nullable=False),
)


class SqlControlStore:
    """A row per pipeline in the table `cdc_control`, which the first write creates.

    It connects at the first call and keeps no connection between calls.
    """

    def __init__(self, endpoint: SqlEndpoint) -> None:
        self.endpoint = endpoint
        self.where = endpoint.where
        self._made: Engine | None = None

    def __repr__(self) -> str:
        return f"SqlControlStore({self.where!r})"

    def place(self, pipeline: str) -> str:
        """How messages name the row of one pipeline."""
        return f"control row {TABLE}.{pipeline} in {self.where}"

    def load(self, pipeline: str) -> StoredDocument | None:
        """The current document; None before the first write. Raises UnknownStateError if it cannot be read."""
        wanted = select(_documents.c.document, _documents.c.version).where(_documents.c.id == _id(pipeline))

        def read(connection: Connection) -> StoredDocument | None:
            try:
                row = connection.execute(wanted).one_or_none()
            except DatabaseError:
                if inspect(connection).has_table(TABLE):
                    raise
                return None
            return None if row is None else StoredDocument(bytes(row.document).decode(), row.version)

        return self._call(pipeline, read)

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        """Write `text` if the version is still `expected`. Raises StaleHeadError or UnknownStateError."""
        values = {"document": text.encode(), "version": uuid.uuid4().hex}
        if expected is None:
            self._call(pipeline, lambda connection: _insert(connection, pipeline, values))
            return
        same = (_documents.c.id == _id(pipeline)) & (_documents.c.version == expected)
        changed = self._call(
            pipeline, lambda connection: connection.execute(update(_documents).where(same).values(values)).rowcount
        )
        if not changed:
            raise StaleHeadError("somebody else wrote the document", where=self.place(pipeline))

    def reach(self) -> None:
        """Connect and look for the table. Raises UnknownStateError or ConfigError."""
        self._call("*", lambda connection: inspect(connection).has_table(TABLE))

    def _call(self, pipeline: str, ask: Callable[[Connection], T]) -> T:
        try:
            with self._engine().connect() as connection:
                return ask(connection)
        except DBAPIError as error:
            raise UnknownStateError(
                f"the database does not answer as it should: {described(error)}",
                where=self.place(pipeline),
                todo="Check its address, its login, and that the login may create and write tables.",
            ) from None

    def _engine(self) -> Engine:
        if self._made is None:
            self._made = engine_of(self.endpoint)
        return self._made


def _insert(connection: Connection, pipeline: str, values: Mapping[str, object]) -> None:
    try:
        _documents.create(connection, checkfirst=True)
    except DatabaseError:  # another writer created it meanwhile; if not, the INSERT reports what is wrong
        if not inspect(connection).has_table(TABLE):
            raise
    try:
        connection.execute(_documents.insert().values(id=_id(pipeline), pipeline=pipeline, **values))
    except IntegrityError:
        raise StaleHeadError("somebody else wrote the first document", where=f"{TABLE}.{pipeline}") from None


def engine_of(endpoint: SqlEndpoint) -> Engine:
    url = URL.create(
        endpoint.driver,
        username=endpoint.user or None,
        password=endpoint.password or None,
        host=endpoint.host or None,
        port=endpoint.port,
        database=endpoint.database,
        query=dict(endpoint.options),
    )
    try:
        # one statement is one transaction; with a pool a forked process would use its parent's connection
        with needs(endpoint.extra, where=endpoint.where):
            return create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    except NoSuchModuleError:
        raise ConfigError(
            f"SQLAlchemy knows no {endpoint.driver!r}",
            where=endpoint.where,
            todo="Install that driver, or correct the connection's type.",
        ) from None


def described(error: DBAPIError) -> str:
    """The driver's own words, without the statement and its parameters."""
    return " ".join(f"{type(error.orig).__name__}: {error.orig}".split())[:300]


def _id(pipeline: str) -> str:
    return hashlib.sha256(pipeline.encode()).hexdigest()
