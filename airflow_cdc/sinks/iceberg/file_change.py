"""Data files and position deletes, written by PyIceberg and Arrow, and the snapshot that adds or removes some.

Only for plain tables; see row_positions.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, StringType

from airflow_cdc.sinks.iceberg.row_positions import Files, entries_of
from airflow_cdc.sinks.iceberg.snapshots import head_of, last_sequence, make, snapshot_at, summary_of
from airflow_cdc.sinks.iceberg.stage import publish_time

if TYPE_CHECKING:
    from pyiceberg.table import Table

# So many small manifests of a kind are written as one, as Spark's appends do.
MERGE_AT: Final = 20
SMALL_MANIFEST: Final = 1 << 20
_PATH_ID, _POS_ID = 2147483546, 2147483545  # field ids that the format reserves for position deletes
_DELETE_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POS_ID)}),
    ]
)


@dataclass(frozen=True, slots=True)
class FileChange:
    """Files, of rows or of position deletes, that a commit adds to a table and removes from it."""

    added: Sequence[DataFile]
    removed: Sequence[DataFile] = ()

    def added_to(self, kind: ManifestContent) -> list[DataFile]:
        """The added files that a manifest of this kind names."""
        rows = kind == ManifestContent.DATA
        return [file for file in self.added if (file.content == DataFileContent.DATA) == rows]


def write_rows(table: Table, rows: pa.Table) -> Iterator[DataFile]:
    """The rows in new files, which nothing names yet."""
    return iter(()) if not rows.num_rows else iter(_dataframe_to_data_files(table.metadata, rows, table.io))


def write_deletes(table: Table, positions: Mapping[str, pa.Array]) -> Iterator[DataFile]:
    """One file of position deletes (path → ascending), in the order that the format wants: by path, then position."""
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


def snapshot_of(
    table: Table,
    files: Files,
    change: FileChange,
    summary: Mapping[str, str],
    operation: Operation,
) -> Snapshot:
    """The snapshot of the change to the head's `files`, with its manifests and their list, which nothing names yet."""
    metadata = table.metadata
    number, parent, sequence = metadata.new_snapshot_id(), head_of(metadata), last_sequence(metadata) + 1
    manifests = [one for kind in ManifestContent for one in _manifests(table, files, kind, change, number)]
    location = _metadata_location(table, f"snap-{number}-0-{uuid.uuid4()}.avro")
    with write_manifest_list(2, table.io.new_output(location), number, parent, sequence, "deflate") as writer:
        writer.add_manifests(manifests)
    totals = _totals(table, change, summary_of(snapshot_at(metadata, parent)))
    return make(
        Snapshot,
        snapshot_id=number,
        parent_snapshot_id=parent,
        sequence_number=sequence,
        timestamp_ms=publish_time(metadata),
        manifest_list=location,
        schema_id=metadata.current_schema_id,
        summary=Summary(operation, **{**totals, **summary}),
    )


def _totals(table: Table, change: FileChange, before: Mapping[str, str]) -> dict[str, str]:
    collector = SnapshotSummaryCollector()
    for file in change.added:
        collector.add_file(file, table.schema(), table.spec())
    for file in change.removed:
        collector.remove_file(file, table.schema(), table.spec())
    # it counts for no other operation, and the counts are the same
    counted = update_snapshot_summaries(Summary(Operation.OVERWRITE, **collector.build()), before)
    return dict(counted.additional_properties)


def _manifests(
    table: Table, files: Files, kind: ManifestContent, change: FileChange, number: int
) -> Iterator[ManifestFile]:
    """The manifests of a kind after the change: those that say what it changes, and those that it leaves alone."""
    gone = {file.file_path for file in change.removed}
    own = [manifest for manifest in files.manifests if manifest.content == kind]
    touched = [one for one in own if any(entry.data_file.file_path in gone for entry in entries_of(table, one))]
    old = [entry for manifest in touched for entry in entries_of(table, manifest)]
    kept = [entry for entry in old if entry.data_file.file_path not in gone]
    removed = [entry for entry in old if entry.data_file.file_path in gone]
    if removed:  # by itself, so that the next commit leaves it out, and expiry sees that it is over
        yield _write_manifest(table, number, kind, removed=removed)
    if (added := change.added_to(kind)) or kept:
        yield _write_manifest(table, number, kind, added=added, kept=kept)
    yield from _fewer(table, [one for one in own if one not in touched], number, kind)


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
    kept: Sequence[ManifestEntry] = (),
    removed: Sequence[ManifestEntry] = (),
) -> ManifestFile:
    """A manifest of files that this commit adds, of entries that other manifests held, and of those that it removes.

    The last are named for expiry, which deletes the files with the last snapshot that has them.
    """
    output = table.io.new_output(_metadata_location(table, f"{uuid.uuid4()}-m0.avro"))
    writer_of = _DeleteManifestWriter if kind == ManifestContent.DELETES else ManifestWriterV2
    with writer_of(table.spec(), table.schema(), output, number, "deflate") as writer:
        for entry in kept:
            writer.existing(entry)
        for entry in removed:
            writer.delete(entry)
        for file in added:
            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=number, sequence_number=None, data_file=file
                )
            )
    return writer.to_manifest_file()


def _metadata_location(table: Table, name: str) -> str:
    return f"{table.metadata.location.rstrip('/')}/metadata/{name}"


def _fewer(
    table: Table, manifests: Sequence[ManifestFile], number: int, kind: ManifestContent
) -> Iterator[ManifestFile]:
    """The manifests without those that only name removed files; as soon as there are many small ones, these in one."""
    own = [manifest for manifest in manifests if manifest.has_added_files() or manifest.has_existing_files()]
    small = [manifest for manifest in own if manifest.manifest_length <= SMALL_MANIFEST]
    if len(small) >= MERGE_AT:
        yield _write_manifest(table, number, kind, kept=[e for one in small for e in entries_of(table, one)])
        own = [manifest for manifest in own if manifest not in small]
    yield from own
