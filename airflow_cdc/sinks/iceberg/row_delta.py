"""A few changed rows, written by PyIceberg and Arrow: position deletes and new rows in one commit, without a Spark job.

Only for plain tables (format version 2, not partitioned, not sorted) whose deletes are all by position, in Parquet.
The commit is a compare-and-set on main with the requirements of a publish (stage.py), so it needs no stage.
Files never change under their path, so the key columns of recently read ones are kept in memory; see `Kept`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from cachetools import LRUCache
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
)
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, StringType

from airflow_cdc.core.errors import StaleHeadError
from airflow_cdc.sinks.iceberg.catalog import Change, commit
from airflow_cdc.sinks.iceberg.snapshots import (
    has_no_files,
    head_of,
    last_sequence,
    lineage,
    make,
    set_ref,
    snapshot_at,
    summary_of,
)
from airflow_cdc.sinks.iceberg.stage import publish_time

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_cdc.sinks.iceberg.catalog import Identifier

log = logging.getLogger("airflow_cdc.iceberg")

# More files than this, or more rows in those that may hold a key, are a matter for Spark's tasks.
MOST_ROWS: Final = 5_000_000
MOST_FILES: Final = 5_000
KEPT_BYTES: Final = 128 << 20
# So many small manifests of a kind are written as one, as Spark's appends do.
MERGE_AT: Final = 20
SMALL_MANIFEST: Final = 1 << 20
WRITE_FORMAT: Final = "write.format.default"
# What PyIceberg and Arrow raise for a value or a file that they can't handle; nothing is committed then.
_NOT_OURS = (pa.ArrowException, ValueError, TypeError, NotImplementedError)
_PATH_ID, _POS_ID = 2147483546, 2147483545  # field ids that the format reserves for position deletes
_DELETE_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POS_ID)}),
    ]
)
_RANGED = (IntegerType, LongType, StringType)  # types whose bounds Python orders as the format does


@dataclass(slots=True)
class Kept:
    """What was read of files that cannot change, at most KEPT_BYTES of it. Another process reads the same from the files."""

    files: LRUCache[Any, Any] = field(default_factory=lambda: LRUCache(KEPT_BYTES, getsizeof=lambda value: value.size))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: tuple[object, ...]) -> Any:
        with self.lock:
            kept = self.files.get(key)
        return None if kept is None else kept.value

    def put(self, key: tuple[object, ...], value: Any, size: int) -> None:
        with self.lock, suppress(ValueError):  # larger than all that may be kept
            self.files[key] = _Sized(value, size)


@dataclass(frozen=True, slots=True)
class _Sized:
    value: Any
    size: int


_KEPT = Kept()


@dataclass(frozen=True, slots=True)
class Files:
    """The live files of a snapshot, and the manifests that name them."""

    manifests: Sequence[ManifestFile]
    data: Sequence[DataFile]
    deletes: Sequence[DataFile]


@dataclass(frozen=True, slots=True)
class RowDelta:
    """Rows to delete by their keys, and rows to add, for one commit on a table's main.

    Attributes:
        keys: the key's columns by name; all rows under these keys are deleted.
        rows: the rows to add, by the table's column names.
        summary: the properties of the commit.
        properties: table properties to set in the same commit.
    """

    keys: pa.Table
    rows: pa.Table
    summary: Mapping[str, str]
    properties: Mapping[str, str] = field(default_factory=dict)

    def write(self, catalog: Catalog, identifier: Identifier, table: Table) -> Table | None:
        """Commit it to `table`, as it was read. Returns the table after it; None, with nothing written, if only Spark can.

        Raises StaleHeadError if main, the schema or the table itself is another one by now.
        """
        snapshot = self._prepared(table)
        return None if snapshot is None else committed(catalog, identifier, table, snapshot, self.properties)

    def _prepared(self, table: Table) -> Snapshot | None:
        """The snapshot with its files written, which nothing names yet."""
        try:
            keys, rows = _as_stored(table, self.keys), _as_stored(table, self.rows)
            files = live_files(table)
            positions = None if files is None or not _takes_keys(keys.schema) else find(table, files, keys)
            if files is None or positions is None:
                return None
            added = [*_write_deletes(table, positions), *_write_rows(table, rows)]
        except _NOT_OURS as error:
            log.info("%s is written by Spark: %r", ".".join(table.name()), error)
            return None
        return _snapshot(table, files.manifests, added, self.summary)


def takes(table: Table) -> bool:
    """Whether the table's layout is one that can be written here."""
    metadata = table.metadata
    return (
        metadata.format_version == 2
        and table.spec().is_unpartitioned()
        and table.sort_order().is_unsorted
        and metadata.properties.get(WRITE_FORMAT, "parquet").lower() == "parquet"
        and head_of(metadata) is not None
    )


def committed(
    catalog: Catalog, identifier: Identifier, table: Table, snapshot: Snapshot, properties: Mapping[str, str]
) -> Table:
    """The table with the snapshot as its main. The requirements are those of a publish."""
    metadata = table.metadata
    expected, where = head_of(metadata), ".".join(identifier)
    changed = {key: value for key, value in properties.items() if metadata.properties.get(key) != value}
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        make(AssertRefSnapshotId, ref=MAIN_BRANCH, snapshot_id=expected),
        make(AssertCurrentSchemaId, current_schema_id=metadata.current_schema_id),
        make(AssertLastAssignedFieldId, last_assigned_field_id=metadata.last_column_id),
    )
    same = (metadata.table_uuid, expected, metadata.current_schema_id, metadata.last_column_id)

    def build(now: Table) -> Change | None:
        meta = now.metadata
        head = head_of(meta)
        if any(one.snapshot_id == snapshot.snapshot_id for one in lineage(meta, head)):
            return None
        if (meta.table_uuid, head, meta.current_schema_id, meta.last_column_id) != same:
            raise StaleHeadError(
                f"main moved from {expected} to {head}, or its columns changed, while changes were written to it",
                where=f"table {where}",
                todo="The next run reads and writes the changes again.",
            )
        main = set_ref(MAIN_BRANCH, snapshot.snapshot_id, old=meta.refs.get(MAIN_BRANCH))
        notes = (SetPropertiesUpdate(updates=changed),) if changed else ()
        return Change(requirements, (AddSnapshotUpdate(snapshot=snapshot), main, *notes))

    return commit(catalog, identifier, build, what=f"snapshot {snapshot.snapshot_id}", first=table)


def _as_stored(table: Table, columns: pa.Table) -> pa.Table:
    """The columns in the order and types of the table's schema. Raises ValueError for a value that does not fit."""
    fields = {one.name: one for one in table.schema().as_arrow()}
    names = [name for name in fields if name in columns.schema.names]
    if len(names) != columns.num_columns:
        raise ValueError("the table does not have all of the columns")
    arrays = [_stored(columns.column(name), fields[name]) for name in names]
    return pa.table(arrays, schema=pa.schema([fields[name] for name in names]))


def _stored(column: pa.ChunkedArray, wanted: pa.Field) -> pa.ChunkedArray:
    if column.null_count and not wanted.nullable:
        raise ValueError("a required column holds NULL")
    return column.cast(wanted.type)


def live_files(table: Table) -> Files | None:
    """The files of the table's head; None if the table, or a file, is of a kind that is left to Spark."""
    head = snapshot_at(table.metadata, head_of(table.metadata))
    if head is None or not takes(table):
        return None
    manifests = [] if has_no_files(head) else head.manifests(table.io)
    if any(manifest.partition_spec_id != table.spec().spec_id for manifest in manifests):
        return None
    files = [entry.data_file for manifest in manifests for entry in _entries(table, manifest)]
    strange = any(
        file.file_format != FileFormat.PARQUET or file.content == DataFileContent.EQUALITY_DELETES for file in files
    )
    if strange or len(files) > MOST_FILES:
        return None
    data = [file for file in files if file.content == DataFileContent.DATA]
    return Files(manifests, data, [file for file in files if file.content == DataFileContent.POSITION_DELETES])


def _entries(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    key = ("manifest", manifest.manifest_path)
    entries: list[ManifestEntry] | None = _KEPT.get(key)
    if entries is None:
        entries = manifest.fetch_manifest_entry(table.io)
        _KEPT.put(key, entries, 2_000 * len(entries))
    return entries


def _takes_keys(keys: pa.Schema) -> bool:
    """Whether equal keys have equal Arrow values: not so for floating point numbers."""
    return not any(pa.types.is_floating(one.type) or pa.types.is_nested(one.type) for one in keys)


def find(table: Table, files: Files, keys: pa.Table) -> dict[str, pa.Array] | None:
    """Path → the positions of the live rows under these keys, ascending; None if too much would have to be read."""
    if not keys.num_rows:
        return {}
    candidates = [file for file in files.data if _may_hold(table, file, keys)]
    if sum(file.record_count for file in candidates) > MOST_ROWS:
        return None
    found: dict[str, pa.Array] = {}
    for file in candidates:
        columns = _key_columns(table, file, keys.schema)
        if columns is None:
            return None
        found[file.file_path] = _positions(columns, keys)
    found = {path: positions for path, positions in found.items() if len(positions)}
    gone = _deleted(table, files.deletes, found)
    live = {
        path: positions.filter(pc.invert(pc.is_in(positions, value_set=gone[path]))) if path in gone else positions
        for path, positions in found.items()
    }
    return {path: positions for path, positions in live.items() if len(positions)}


def _may_hold(table: Table, file: DataFile, keys: pa.Table) -> bool:
    """Whether the file's bounds leave room for one of the keys, by the key's first column."""
    column = table.schema().find_field(keys.schema.names[0])
    low, high = ((bounds or {}).get(column.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None or not isinstance(column.field_type, _RANGED):
        return True
    ends = pc.min_max(keys.column(0)).as_py()
    least, most = (_bound(column.field_type, bound) for bound in (low, high))
    return bool(ends["min"] <= most and ends["max"] >= least)


def _bound(kind: Any, bound: bytes) -> Any:
    # a column that was widened has bounds of four bytes in old files
    return from_bytes(IntegerType() if isinstance(kind, LongType) and len(bound) == 4 else kind, bound)


def _positions(columns: pa.Table, keys: pa.Table) -> pa.Array:
    """The positions of the rows whose key is one of these."""
    masks = [pc.is_in(columns.column(name), value_set=keys.column(name).combine_chunks()) for name in keys.schema.names]
    at = pc.indices_nonzero(reduce(pc.and_, masks)).cast(pa.int64())
    if len(masks) == 1 or not len(at):
        return at
    wanted = {tuple(key.values()) for key in keys.to_pylist()}
    rows = columns.take(at).to_pylist()
    return at.filter(pa.array([tuple(row.values()) in wanted for row in rows]))


def _key_columns(table: Table, file: DataFile, schema: pa.Schema) -> pa.Table | None:
    """The key's columns of a data file, all rows in order, in the keys' types; None if it has no field ids."""
    ids = tuple(table.schema().find_field(name).field_id for name in schema.names)
    cached = ("keys", file.file_path, ids, str(schema))
    columns: pa.Table | None = _KEPT.get(cached)
    if columns is None:
        with table.io.new_input(file.file_path).open() as stream:
            parquet = pq.ParquetFile(stream)
            names = {_field_id(one): one.name for one in parquet.schema_arrow}
            if not names.keys() >= {*ids}:
                return None
            read = parquet.read([names[number] for number in ids])
        columns = pa.table(
            [read.column(names[n]).cast(one.type) for n, one in zip(ids, schema, strict=True)], schema.names
        )
        _KEPT.put(cached, columns, columns.nbytes)
    return columns


def _field_id(one: pa.Field) -> int | None:
    text = (one.metadata or {}).get(b"PARQUET:field_id")
    return None if text is None else int(text)


def _deleted(table: Table, deletes: Sequence[DataFile], wanted: Mapping[str, object]) -> dict[str, pa.Array]:
    """Path → positions deleted already, for the wanted data files."""
    gone: dict[str, list[pa.Array]] = {}
    for file in deletes if wanted else ():
        for path, positions in _deletes_in(table, file).items():
            if path in wanted:
                gone.setdefault(path, []).append(positions)
    return {path: pa.concat_arrays(arrays) for path, arrays in gone.items()}


def _deletes_in(table: Table, file: DataFile) -> dict[str, pa.Array]:
    key = ("deletes", file.file_path)
    by_path: dict[str, pa.Array] | None = _KEPT.get(key)
    if by_path is None:
        with table.io.new_input(file.file_path).open() as stream:
            read = pq.read_table(stream, columns=["file_path", "pos"])
        rows = read.group_by("file_path").aggregate([("pos", "list")])
        by_path = {row["file_path"]: pa.array(row["pos_list"], pa.int64()) for row in rows.to_pylist()}
        _KEPT.put(key, by_path, read.nbytes)
    return by_path


def _write_rows(table: Table, rows: pa.Table) -> Iterator[DataFile]:
    return iter(()) if not rows.num_rows else iter(_dataframe_to_data_files(table.metadata, rows, table.io))


def _write_deletes(table: Table, positions: Mapping[str, pa.Array]) -> Iterator[DataFile]:
    """One file of position deletes, in the order that the format wants: by path, then position."""
    if not positions:
        return
    paths = sorted(positions, key=str.encode)
    columns = [
        pa.concat_arrays([pa.array([path] * len(positions[path]), pa.string()) for path in paths]),
        pa.concat_arrays([positions[path] for path in paths]),
    ]
    deletes = pa.Table.from_arrays(columns, schema=_DELETE_SCHEMA)
    output = table.io.new_output(table.location_provider().new_data_location(f"{uuid.uuid4()}-deletes.parquet"))
    with output.create() as stream:
        pq.write_table(deletes, stream, compression="zstd")
    ends = pc.min_max(deletes.column("pos")).as_py()
    low, high = (
        {_PATH_ID: to_bytes(StringType(), path), _POS_ID: to_bytes(LongType(), pos)}
        for path, pos in ((paths[0], ends["min"]), (paths[-1], ends["max"]))
    )
    yield DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=output.location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=deletes.num_rows,
        file_size_in_bytes=len(output),
        lower_bounds=low,
        upper_bounds=high,
        spec_id=table.metadata.default_spec_id,
    )


class _DeleteManifestWriter(ManifestWriterV2):
    """PyIceberg writes manifests of data files only."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _write_manifest(
    table: Table,
    number: int,
    kind: ManifestContent,
    *,
    added: Sequence[DataFile] = (),
    old: Sequence[ManifestEntry] = (),
) -> ManifestFile:
    """A manifest of files that this commit adds, or of entries that other manifests held."""
    output = table.io.new_output(_metadata_location(table, f"{uuid.uuid4()}-m0.avro"))
    writer_of = _DeleteManifestWriter if kind == ManifestContent.DELETES else ManifestWriterV2
    with writer_of(table.spec(), table.schema(), output, number, "deflate") as writer:
        for entry in old:
            writer.existing(entry)
        for file in added:
            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=number, sequence_number=None, data_file=file
                )
            )
    return writer.to_manifest_file()


def _metadata_location(table: Table, name: str) -> str:
    return f"{table.metadata.location.rstrip('/')}/metadata/{name}"


def _fewer(table: Table, manifests: Sequence[ManifestFile], number: int) -> Iterator[ManifestFile]:
    """The manifests; as soon as there are many small ones of a kind, these in one."""
    for kind in ManifestContent:
        own = [manifest for manifest in manifests if manifest.content == kind]
        small = [manifest for manifest in own if manifest.manifest_length <= SMALL_MANIFEST]
        entries = [entry for manifest in small for entry in _entries(table, manifest)]
        if len(small) >= MERGE_AT and entries:
            yield _write_manifest(table, number, kind, old=entries)
            own = [manifest for manifest in own if manifest not in small]
        yield from own


def _snapshot(
    table: Table, manifests: Sequence[ManifestFile], added: Sequence[DataFile], summary: Mapping[str, str]
) -> Snapshot:
    """The snapshot that adds these files to the head's."""
    metadata = table.metadata
    number, parent, sequence = metadata.new_snapshot_id(), head_of(metadata), last_sequence(metadata) + 1
    deletes = [file for file in added if file.content == DataFileContent.POSITION_DELETES]
    data = [file for file in added if file.content == DataFileContent.DATA]
    kinds = ((ManifestContent.DATA, data), (ManifestContent.DELETES, deletes))
    written = [_write_manifest(table, number, kind, added=files) for kind, files in kinds if files]
    location = _metadata_location(table, f"snap-{number}-0-{uuid.uuid4()}.avro")
    with write_manifest_list(2, table.io.new_output(location), number, parent, sequence, "deflate") as writer:
        writer.add_manifests([*written, *_fewer(table, manifests, number)])
    collector = SnapshotSummaryCollector()
    for file in added:
        collector.add_file(file, table.schema(), table.spec())
    operation = Operation.OVERWRITE if deletes else Operation.APPEND
    totals = update_snapshot_summaries(
        Summary(operation, **collector.build()), summary_of(snapshot_at(metadata, parent))
    )
    return make(
        Snapshot,
        snapshot_id=number,
        parent_snapshot_id=parent,
        sequence_number=sequence,
        timestamp_ms=publish_time(metadata),
        manifest_list=location,
        schema_id=metadata.current_schema_id,
        summary=Summary(operation, **{**totals.additional_properties, **summary}),
    )
