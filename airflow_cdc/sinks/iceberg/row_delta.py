"""A few changed rows, written by PyIceberg and Arrow: position deletes and new rows in one commit, without a Spark job.

Only for plain tables (format version 2, not partitioned, not sorted) whose deletes are all by position, in Parquet.
The commit is a compare-and-set on main with the requirements of a publish (stage.py), so it needs no stage.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
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
from pyiceberg.types import LongType, StringType

from airflow_cdc.core.errors import StaleHeadError
from airflow_cdc.sinks.iceberg.catalog import Change, commit
from airflow_cdc.sinks.iceberg.row_positions import entries_of, live_files, positions_of
from airflow_cdc.sinks.iceberg.snapshots import (
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

# So many small manifests of a kind are written as one, as Spark's appends do.
MERGE_AT: Final = 20
SMALL_MANIFEST: Final = 1 << 20
# What PyIceberg and Arrow raise for a value or a file that they can't handle; nothing is committed then.
_NOT_OURS = (pa.ArrowException, ValueError, TypeError, NotImplementedError)
_PATH_ID, _POS_ID = 2147483546, 2147483545  # field ids that the format reserves for position deletes
_DELETE_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POS_ID)}),
    ]
)


@dataclass(frozen=True, slots=True)
class RowDelta:
    """Rows to delete by their keys, and rows to add, for one commit on a table's main.

    Attributes:
        keys: the key's columns by name; all rows under these keys are deleted.
        rows: the rows to add, by the table's column names.
        summary: the properties of the commit.
        properties: table properties to set in the same commit.
        copies: how many rows under each key are deleted, where the keys are whole rows; None: all of them.
    """

    keys: pa.Table
    rows: pa.Table
    summary: Mapping[str, str]
    properties: Mapping[str, str] = field(default_factory=dict)
    copies: Sequence[int] | None = None

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
            positions = None if files is None else positions_of(table, files, keys, self.copies)
            if files is None or positions is None:
                return None
            added = [*_write_deletes(table, positions), *_write_rows(table, rows)]
        except _NOT_OURS as error:
            log.info("%s is written by Spark: %r", ".".join(table.name()), error)
            return None
        return _snapshot(table, files.manifests, added, self.summary)


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
        entries = [entry for manifest in small for entry in entries_of(table, manifest)]
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
