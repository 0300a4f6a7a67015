"""Opening an Iceberg catalog for PyIceberg and for Spark, and committing to it by compare-and-set.

One set of properties (PyIceberg's own names) describes the catalog; Spark's settings are derived
from it. A property that starts with `spark.` goes to Spark's catalog only, without that prefix.
"""

from __future__ import annotations

import errno
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cachetools import LRUCache
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    UnauthorizedError,
)
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import IcebergBaseModel
from sqlalchemy import bindparam, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from airflow_cdc.core.errors import CdcError, ConfigError, DeadlineError, SinkError, StaleHeadError, UnknownStateError
from airflow_cdc.core.poll import NotYet, jittered, poll_until
from airflow_cdc.core.secrets import mask_text

Identifier = tuple[str, ...]

# Writers of an embedded catalog wait for each other this long; SQLite's own default gives up after 3-5 s.
BUSY_SECONDS = 60
COMMIT_SECONDS = 60.0
# How long a metadata file may be missing because the catalog already names a newer one.
TRIMMED_SECONDS = 5.0
SPARK_PREFIX = "spark."
SQLITE = "sqlite"
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"

# A commit that failed with one of these did not land, and a retry would fail too.
REFUSED = (ValueError, TypeError, NotImplementedError, BadRequestError, ForbiddenError, UnauthorizedError)


# how PyArrow tells a 403 of S3, of Google's store and of Azure's; s3fs and local disks raise a PermissionError
_DENIED = re.compile(
    r"AWS Error ACCESS_DENIED|HTTP status 403|Permission denied|\b403 Forbidden|AuthorizationFailure|AccessDenied"
)
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_NO_ROOM = re.compile("database or disk is full|No space left on device")
_LET = "Let its user read and write the warehouse, then run the step again."

# catalogs in which no stage can be published
_NESSIE = "Nessie keeps neither tags nor earlier snapshots of a table, which a publish needs"
_OTHER = "Use another catalog for this sink: a REST, SQL, Glue or Hive catalog that keeps snapshots and tags."


@dataclass(frozen=True, slots=True)
class Change:
    """One commit. The catalog accepts it only if every requirement holds on the table at that moment."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]


# Of the metadata that is kept in memory: snapshots and earlier files that it names, a few kB each.
KEPT_ENTRIES = 30_000
_METADATA_OF = select(IcebergTables.metadata_location).where(
    IcebergTables.catalog_name == bindparam("catalog"),
    IcebergTables.table_namespace == bindparam("namespace"),
    IcebergTables.table_name == bindparam("table"),
    # views of other programs are in the same table
    (IcebergTables.iceberg_type == "TABLE") | IcebergTables.iceberg_type.is_(None),
)


@dataclass(frozen=True, slots=True)
class _Read:
    """A metadata file of `size` bytes, and the files' access that its properties ask for."""

    metadata: TableMetadata
    io: FileIO
    size: int


def _entries(known: _Read) -> int:
    return 10 + len(known.metadata.snapshots) + len(known.metadata.metadata_log)


class MissingTableError(SinkError):
    """The catalog could be read, and the table is not in it."""


class DeniedError(UnknownStateError):
    """The store of the files denies them to our user, so to ask again would change nothing."""

    lasting = True


def unwritable(error: BaseException) -> bool:
    """Whether to write the file, or the row of a catalog in SQL, again would fail again."""
    no_room = isinstance(error, OperationalError) and bool(_NO_ROOM.search(str(error.orig)))
    return no_room or is_denial(error) or (isinstance(error, OSError) and error.errno in _FULL)


def is_denial(error: BaseException) -> bool:
    """Whether an object store, or a disk, answered that our user may not read or write a file."""
    return isinstance(error, PermissionError) or (isinstance(error, OSError) and bool(_DENIED.search(str(error))))


class UnwritableError(SinkError):
    """A file that a commit needs cannot be written, so nothing landed: the store denies it, or the disk is full."""

    lasting = True


class _Shared(TableMetadataV2):
    """Metadata whose changed copies share what did not change.

    PyIceberg copies all snapshots with each commit, as often as not the longest part of it: of 3,000 versions 0.1 s. Nothing changes
    a part in place, so there is no need.
    """

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        del deep
        return super().model_copy(update=update)


def _shared(metadata: TableMetadata) -> TableMetadata:
    plain = type(metadata) is TableMetadataV2
    return _Shared.model_construct(metadata.model_fields_set, **metadata.__dict__) if plain else metadata


class EmbeddedCatalog(SqlCatalog):
    """PyIceberg's SQL catalog that also writes format v3 and cleans up after a lost race. Threads may share it."""

    # the file that this thread staged last; a file of another thread may be about to become current
    _staged = threading.local()

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._known = LRUCache[str, _Read](KEPT_ENTRIES, getsizeof=_entries)
        self._lock = threading.Lock()

    def load_table(self, identifier: str | Identifier) -> Table:
        """As the parent does, by one short query.

        A metadata file never changes, so one that was read lately is not parsed again. It must still be there, as long as
        it was.
        """
        *namespace, table = self.identifier_to_tuple(identifier)
        place = {"catalog": self.name, "namespace": ".".join(namespace), "table": table}
        with self.engine.connect() as connection:
            location = connection.execute(_METADATA_OF, place).scalar()
        if not location:
            raise NoSuchTableError(f"Table does not exist: {place['namespace']}.{table}")
        metadata, io = self._read(location)
        return Table((*namespace, table), metadata, location, io, self)

    def _read(self, location: str) -> tuple[TableMetadata, FileIO]:
        with self._lock:
            known = self._known.get(location)
        io = load_file_io(self.properties, location) if known is None else known.io
        file = io.new_input(location)
        size = len(file)
        if known is None or known.size != size:
            metadata = _shared(FromInputFile.table_metadata(file))
            known = _Read(metadata, self._load_file_io(metadata.properties, location), size)
            self._keep(location, known)
        return known.metadata, known.io

    def _keep(self, location: str, known: _Read) -> None:
        with self._lock, suppress(ValueError):  # larger than all that may be kept
            self._known[location] = known

    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:  # type: ignore[override]
        write_metadata(metadata, io, metadata_path)

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        staged = super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        self._staged.location = staged.metadata_location
        return staged

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit as the parent does; a metadata file that lost the race, or that no row of the catalog could name, is deleted again."""
        self._staged.location = ""
        try:
            response = super().commit_table(table, requirements, updates)
        except Exception as error:
            if self._staged.location and (isinstance(error, CommitFailedException) or unwritable(error)):
                with suppress(OSError):
                    table.io.delete(self._staged.location)
            raise
        with suppress(Exception):  # it has landed; a faster writer may have trimmed the file already
            self._keep_instead(table.metadata_location, response)
        return response

    def _keep_instead(self, before: str, response: CommitTableResponse) -> None:
        """Keep what was just committed for the next load, which would parse it again."""
        metadata, location = response.metadata, response.metadata_location
        io = self._load_file_io(metadata.properties, location)
        self._keep(location, _Read(metadata, io, len(io.new_input(location))))
        with self._lock:
            self._known.pop(before, None)


def write_metadata(metadata: TableMetadata, io: FileIO, location: str) -> None:
    """Write a metadata file of any format version.

    PyIceberg refuses to serialise v3 because its own writer knows no row lineage. Only
    metadata is written here and Spark writes the data, so the plain model is enough.
    """
    if metadata.format_version >= 3 and getattr(metadata, "next_row_id", None) is None:
        metadata = metadata.model_copy(update={"next_row_id": 0})  # Java readers require it, even in a new table
    text = IcebergBaseModel.model_dump_json(metadata, exclude_none=True, by_alias=True)
    with io.new_output(location).create() as stream:
        stream.write(text.encode())


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """Open the catalog `name`. Raises ConfigError or UnknownStateError, never with the properties' values."""
    own = {key: value for key, value in properties.items() if not key.startswith(SPARK_PREFIX)}
    where = f"catalog {name}"
    if not own.get("type") and not own.get("py-catalog-impl"):
        raise ConfigError("the catalog has no type", where=where, todo="Set `type` to sql, rest, hive or glue.")
    if own.get("type") == "dynamodb":
        raise ConfigError("PyIceberg's DynamoDB catalog commits to no table", where=where, todo=_OTHER)
    try:
        catalog = _open_sql(name, own) if own.get("type") == "sql" else load_catalog(name, **own)
    except CdcError:
        raise
    except Exception as error:
        text, todo = f"the catalog cannot be opened: {describe(error)}", "Check its address and credentials."
        raise UnknownStateError(text, where=where, todo=todo) from None
    if any(key.startswith("nessie.") for key in catalog.properties):
        raise ConfigError(_NESSIE, where=where, todo=_OTHER)
    return catalog


def _open_sql(name: str, properties: dict[str, str]) -> Catalog:
    url = make_url(properties["uri"])
    if url.get_backend_name() == SQLITE:
        _prepare_sqlite(Path(url.database or ""))
        url = url.update_query_dict({"timeout": str(BUSY_SECONDS)})
    properties = {**properties, "uri": url.render_as_string(hide_password=False), "schema_version": "v1"}

    def attempt() -> Catalog | None:
        try:
            return EmbeddedCatalog(name, **properties)
        except OperationalError as error:  # two processes created the tables at the same time: the loser tries again
            if "already exists" not in str(error.orig):
                raise
            return None

    return poll_until(attempt, timeout=BUSY_SECONDS, interval=0.05, what=f"open catalog {name}")


def _prepare_sqlite(path: Path) -> None:
    """Create the file and set WAL mode (the file stores it), so that readers and the writer do not block each other."""
    import sqlite3

    path.parent.mkdir(parents=True, exist_ok=True)

    def attempt() -> bool | None:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            try:
                mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
                done = mode == "wal" or connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal"
            except sqlite3.OperationalError:  # a change of the mode ignores the timeout
                return None
            return done or None

    poll_until(attempt, timeout=BUSY_SECONDS, interval=0.05, what=f"put {path} in WAL mode")


def spark_conf(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Spark settings of the same catalog under the same name.

    May hold credentials: pass them to a session built inside the driver, never on a command line.
    """
    own = {key: value for key, value in properties.items() if not key.startswith(SPARK_PREFIX)}
    extra = {key.removeprefix(SPARK_PREFIX): value for key, value in properties.items() if key.startswith(SPARK_PREFIX)}
    settings = {**(_jdbc_settings(own) if own.get("type") == "sql" else own), "cache-enabled": "false", **extra}
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in settings.items()},
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
    }


def _jdbc_settings(properties: Mapping[str, str]) -> dict[str, str]:
    url = make_url(properties["uri"])
    rest = {key: value for key, value in properties.items() if key not in {"type", "uri", "schema_version"}}
    settings = {**rest, "type": "jdbc", "jdbc.schema-version": "V1"}
    if url.get_backend_name() == SQLITE:
        return {**settings, "uri": f"jdbc:sqlite:{url.database}", "jdbc.busy_timeout": str(BUSY_SECONDS * 1000)}
    port = f":{url.port}" if url.port else ""
    login = {"jdbc.user": url.username, "jdbc.password": url.password}
    settings.update({key: str(value) for key, value in login.items() if value is not None})
    return {**settings, "uri": f"jdbc:{url.get_backend_name()}://{url.host}{port}/{url.database}"}


def describe(error: BaseException) -> str:
    """An error in one line: its class and the class of its cause, without statement parameters or addresses.

    What a disk or an object store says is told, without what is written like a secret.
    """
    cause = getattr(error, "orig", None) or error.__cause__
    detail = f" ({type(cause).__name__}: {cause})" if isinstance(error, OperationalError) and cause else ""
    # what clients of HTTP raise is an OSError, too, and names addresses
    of_files = isinstance(error, OSError) and type(error).__module__ == "builtins"
    known = of_files or isinstance(error, CommitFailedException | NoSuchTableError | ValueError)
    return f"{type(error).__name__}: {mask_text(str(error)[:300])}" if known else f"{type(error).__name__}{detail}"


def load(catalog: Catalog, identifier: Identifier) -> Table:
    """The table as it stands now.

    Raises MissingTableError if it does not exist, UnknownStateError if it cannot be read.
    """
    where = ".".join(identifier)
    denials = 0

    def attempt() -> Table | None:
        nonlocal denials
        try:
            return catalog.load_table(identifier)
        except FileNotFoundError:  # its metadata file was trimmed between reading the pointer and the file
            return None
        except OSError as error:  # to a user who may not list files, S3 denies a file that is gone
            denials += 1
            if denials > 1 or not is_denial(error):
                raise
            return None

    try:
        return poll_until(attempt, timeout=TRIMMED_SECONDS, interval=0.05, what=f"read the metadata of {where}")
    except NoSuchTableError:
        raise MissingTableError("the table does not exist", where=where, todo="Create it, or run a recovery.") from None
    except CdcError as error:
        raise UnknownStateError(error.what, where=where, todo="Check the catalog and its storage.") from None
    except Exception as error:
        what = f"the table cannot be read: {describe(error)}"
        if is_denial(error):
            raise DeniedError(what, where=where, todo=_LET) from None
        raise UnknownStateError(what, where=where, todo="Check the catalog and its storage.") from None


def commit(
    catalog: Catalog,
    identifier: Identifier,
    build: Callable[[Table], Change | None],
    *,
    what: str,
    first: Table | None = None,
) -> Table:
    """Commit the change that `build` returns for the current table, with retries until it landed or must not be made.

    `build` returns None if nothing is left to do, and raises if the change must not be made. Every attempt starts by
    reading the table again, so an earlier attempt that landed without an answer is recognised. `first`: the table as it
    was read just now, for the first attempt.
    Returns the table as read after the commit. Raises SinkError if the catalog refuses the change, and
    UnknownStateError if it stayed unclear whether the change landed.
    """
    failure: list[str] = []
    read = [] if first is None else [first]

    def attempt() -> Table | None:
        try:
            table = read.pop() if read else load(catalog, identifier)
        except UnknownStateError as error:
            if error.lasting:
                raise
            failure[:] = [str(error)]
            raise NotYet(str(error)) from None
        change = build(table)
        if change is None:
            return table
        try:
            return commit_once(catalog, table, change, what=what)
        except (StaleHeadError, UnknownStateError, SinkError) as error:  # the next attempt reads whether it landed
            if error.lasting or (isinstance(error, SinkError) and not failure):
                raise
            failure[:] = [error.what]
        raise NotYet(failure[0])

    deadline_text = f"commit {what} to {'.'.join(identifier)}"
    try:
        return poll_until(attempt, timeout=COMMIT_SECONDS, interval=0.1, what=deadline_text, sleep=jittered)
    except DeadlineError:
        raise UnknownStateError(
            f"{what} could not be committed in {COMMIT_SECONDS:g} s: {' '.join(failure)}",
            where=".".join(identifier),
            todo="Nothing else was changed. Check the catalog and run the step again.",
        ) from None


def commit_once(catalog: Catalog, table: Table, change: Change, *, what: str) -> Table:
    """Commit `change` to `table` as it was read, in one attempt; returns the table as it is after the commit.

    Raises StaleHeadError if the table has changed since it was read, SinkError if the catalog refuses the change, and
    UnknownStateError if it may or may not have landed.
    """
    where = ".".join(table.name())
    try:
        response = catalog.commit_table(table, change.requirements, change.updates)
    except CommitFailedException as error:
        raise StaleHeadError(describe(error), where=where) from None
    except REFUSED as error:
        raise SinkError(
            f"{what} was refused: {describe(error)}",
            where=where,
            todo="Check what the catalog says, and that its user may commit.",
        ) from None
    except Exception as error:
        if unwritable(error):
            text = f"{what} could not be written: {describe(error)}"
            todo = _LET if is_denial(error) else "Nothing was changed. Make room, then run the step again."
            raise UnwritableError(text, where=where, todo=todo) from None
        todo = "Check the catalog and its storage, then run the step again."
        raise UnknownStateError(describe(error), where=where, todo=todo) from None
    _prune_metadata(table, response)
    table.metadata, table.metadata_location = response.metadata, response.metadata_location
    return table


def _prune_metadata(table: Table, response: CommitTableResponse) -> None:
    """Delete metadata files that fell out of the log, if the table asks for it, as Iceberg's own commits do."""
    if response.metadata.properties.get(DELETE_AFTER_COMMIT, "false").lower() != "true":
        return
    logged = {entry.metadata_file for entry in response.metadata.metadata_log}
    for entry in table.metadata.metadata_log:
        if entry.metadata_file not in logged:
            with suppress(Exception):
                table.io.delete(entry.metadata_file)
