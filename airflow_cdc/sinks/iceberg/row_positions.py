"""Where the rows under some keys are in a table's files: the positions to delete, found by PyIceberg and Arrow.

Only for plain tables (format version 2, not partitioned, not sorted) whose deletes are all by position, in Parquet.
Files never change under their path, so the key columns of recently read ones are kept in memory; see `Kept`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from cachetools import LRUCache
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestFile
from pyiceberg.types import IntegerType, LongType, PrimitiveType, StringType

from airflow_cdc.sinks.iceberg.snapshots import has_no_files, head_of, snapshot_at

if TYPE_CHECKING:
    from pyiceberg.table import Table

# More files than this, or more rows in those that may hold a key, are a matter for Spark's tasks.
MOST_ROWS: Final = 5_000_000
MOST_FILES: Final = 5_000
# Files of a table whose rows are looked up by all of their columns.
MOST_IMAGE_BYTES: Final = 32 << 20
KEPT_BYTES: Final = 128 << 20
WRITE_FORMAT: Final = "write.format.default"
_RANGED = (IntegerType, LongType, StringType)  # types whose bounds Python orders as the format does


@dataclass(slots=True)
class Kept:
    """What was read of files that cannot change, at most KEPT_BYTES of it. Another process reads the same from the files."""

    files: LRUCache[tuple[object, ...], _Sized] = field(
        default_factory=lambda: LRUCache(KEPT_BYTES, getsizeof=lambda value: value.size)
    )
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: tuple[object, ...]) -> Any:
        with self.lock:
            kept = self.files.get(key)
        return None if kept is None else kept.value

    def put(self, key: tuple[object, ...], value: object, size: int) -> None:
        with self.lock, suppress(ValueError):  # larger than all that may be kept
            self.files[key] = _Sized(value, size)


@dataclass(frozen=True, slots=True)
class _Sized:
    value: object
    size: int


KEPT = Kept()


@dataclass(frozen=True, slots=True)
class Files:
    """The live files of a snapshot, and the manifests that name them."""

    manifests: Sequence[ManifestFile]
    data: Sequence[DataFile]
    deletes: Sequence[DataFile]


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


def live_files(table: Table) -> Files | None:
    """The files of the table's head; None if the table, or a file, is of a kind that is left to Spark."""
    head = snapshot_at(table.metadata, head_of(table.metadata))
    if head is None or not takes(table):
        return None
    manifests = [] if has_no_files(head) else head.manifests(table.io)
    if any(manifest.partition_spec_id != table.spec().spec_id for manifest in manifests):
        return None
    files = [entry.data_file for manifest in manifests for entry in entries_of(table, manifest)]
    strange = any(
        file.file_format != FileFormat.PARQUET or file.content == DataFileContent.EQUALITY_DELETES for file in files
    )
    if strange or len(files) > MOST_FILES:
        return None
    data = [file for file in files if file.content == DataFileContent.DATA]
    return Files(manifests, data, [file for file in files if file.content == DataFileContent.POSITION_DELETES])


def entries_of(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    key = ("manifest", manifest.manifest_path)
    entries: list[ManifestEntry] | None = KEPT.get(key)
    if entries is None:
        entries = manifest.fetch_manifest_entry(table.io)
        KEPT.put(key, entries, 2_000 * len(entries))
    return entries


def positions_of(
    table: Table, files: Files, keys: pa.Table, copies: Sequence[int] | None = None
) -> dict[str, pa.Array] | None:
    """Path → the positions of the live rows under these keys, ascending; None if only Spark can find them.

    `copies`: of whole rows, how many of each are wanted; None, too, if there are fewer.
    """
    if not keys.num_rows:
        return {}
    if not _takes_keys(keys.schema) or (copies is not None and _bytes(files) > MOST_IMAGE_BYTES):
        return None
    found = _find(table, files, keys)
    if found is None or copies is None:
        return found
    return _so_many(table, files, keys, copies, found)


def _takes_keys(keys: pa.Schema) -> bool:
    """Whether equal keys have equal Arrow values: not so for floating point numbers."""
    return not any(pa.types.is_floating(one.type) or pa.types.is_nested(one.type) for one in keys)


def _find(table: Table, files: Files, keys: pa.Table) -> dict[str, pa.Array] | None:
    """As positions_of; None if too much would have to be read."""
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
    gone = deleted(table, files.deletes, found) if found else {}
    live = {
        path: positions.filter(pc.invert(pc.is_in(positions, value_set=gone[path]))) if path in gone else positions
        for path, positions in found.items()
    }
    return {path: positions for path, positions in live.items() if len(positions)}


def _may_hold(table: Table, file: DataFile, keys: pa.Table) -> bool:
    """Whether the file's bounds leave room for one of the keys, by the key's first column."""
    if keys.column(0).null_count:  # bounds say nothing of NULLs
        return True
    column = table.schema().find_field(keys.schema.names[0])
    low, high = ((bounds or {}).get(column.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None or not isinstance(column.field_type, _RANGED):
        return True
    ends = pc.min_max(keys.column(0)).as_py()
    least, most = (_bound(column.field_type, bound) for bound in (low, high))
    return bool(ends["min"] <= most and ends["max"] >= least)


def _bound(kind: PrimitiveType, bound: bytes) -> Any:
    # a column that was widened has bounds of four bytes in old files
    return from_bytes(IntegerType() if isinstance(kind, LongType) and len(bound) == 4 else kind, bound)


def _positions(columns: pa.Table, keys: pa.Table) -> pa.Array:
    """The positions of the rows whose key is one of these."""
    masks = [pc.is_in(columns.column(name), value_set=keys.column(name).combine_chunks()) for name in keys.schema.names]
    at = pc.indices_nonzero(reduce(pc.and_, masks)).cast(pa.int64())
    if len(masks) == 1 or not len(at):
        return at
    wanted = {*_rows_of(keys)}
    return at.filter(pa.array([row in wanted for row in _rows_of(columns.take(at))]))


def _bytes(files: Files) -> int:
    return sum(file.file_size_in_bytes for file in files.data)


def _so_many(
    table: Table, files: Files, keys: pa.Table, copies: Sequence[int], found: Mapping[str, pa.Array]
) -> dict[str, pa.Array] | None:
    """So many of the positions found under each key; None if there are fewer."""
    open_copies = Counter(dict(zip(_rows_of(keys), copies, strict=True)))
    chosen: dict[str, pa.Array] = {}
    for file in files.data:
        if file.file_path not in found:
            continue
        columns, positions = _key_columns(table, file, keys.schema), found[file.file_path]
        taken = []
        for row in [] if columns is None else _rows_of(columns.take(positions)):
            taken.append(open_copies[row] > 0)
            open_copies[row] -= taken[-1]
        chosen[file.file_path] = positions.filter(pa.array(taken, pa.bool_()))
    left = +open_copies
    return None if left else {path: positions for path, positions in chosen.items() if len(positions)}


def _rows_of(columns: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in columns.to_pylist()]


def _key_columns(table: Table, file: DataFile, schema: pa.Schema) -> pa.Table | None:
    """The key's columns of a data file, all rows in order, in the keys' types; None if it has no field ids."""
    ids = tuple(table.schema().find_field(name).field_id for name in schema.names)
    cached = ("keys", file.file_path, ids, str(schema))
    columns: pa.Table | None = KEPT.get(cached)
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
        KEPT.put(cached, columns, columns.nbytes)
    return columns


def _field_id(one: pa.Field) -> int | None:
    text = (one.metadata or {}).get(b"PARQUET:field_id")
    return None if text is None else int(text)


def deleted(table: Table, deletes: Sequence[DataFile], paths: Container[str] | None = None) -> dict[str, pa.Array]:
    """Path → positions that these files delete, of the data files at `paths` (None: of all); one may be there twice."""
    gone: dict[str, list[pa.Array]] = {}
    for file in deletes:
        for path, positions in deletes_in(table, file).items():
            if paths is None or path in paths:
                gone.setdefault(path, []).append(positions)
    return {path: pa.concat_arrays(arrays) for path, arrays in gone.items()}


def deletes_in(table: Table, file: DataFile) -> dict[str, pa.Array]:
    key = ("deletes", file.file_path)
    by_path: dict[str, pa.Array] | None = KEPT.get(key)
    if by_path is None:
        with table.io.new_input(file.file_path).open() as stream:
            read = pq.read_table(stream, columns=["file_path", "pos"])
        rows = read.group_by("file_path").aggregate([("pos", "list")])
        by_path = {row["file_path"]: pa.array(row["pos_list"], pa.int64()) for row in rows.to_pylist()}
        KEPT.put(key, by_path, read.nbytes)
    return by_path
