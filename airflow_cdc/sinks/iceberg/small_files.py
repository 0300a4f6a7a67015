"""Many small files of a table merged into few, by PyIceberg and Arrow, without a Spark job. No row changes.

Each small commit (row_delta.py) leaves a file of rows and a file of position deletes. Whatever reads the table next opens
all of them: the next batch, which looks its keys up, and every query. The night's maintenance would be too late for a
table that gets a batch every few seconds. Only for plain tables; see row_positions.py.

Files are merged by size, so that a row is rewritten a few times, not with every merge: a file that is larger than all
smaller ones together waits until those have grown.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask
from pyiceberg.table.snapshots import Operation

from airflow_cdc.sinks.iceberg.file_change import FileChange, snapshot_of, write_deletes, write_rows
from airflow_cdc.sinks.iceberg.row_delta import committed
from airflow_cdc.sinks.iceberg.row_positions import Files, deleted, deletes_in, live_files

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from airflow_cdc.sinks.iceberg.catalog import Identifier

log = logging.getLogger("airflow_cdc.iceberg")

# Files up to this size are always merged with others; and so much is merged at once.
ALWAYS_BYTES: Final = 1 << 20
MOST_BYTES: Final = 16 << 20
MOST_ROWS: Final = 500_000


def merge(catalog: Catalog, identifier: Identifier, table: Table, at_least: int) -> FileChange | None:
    """Merge small files of `table`, as it was read, if there are `at_least` so many. Returns what was changed, if anything.

    Raises StaleHeadError if main, the schema or the table itself is another one by now.
    """
    files = live_files(table)
    if files is None:
        return None
    rows, deletes = chosen(table, files, at_least)
    if not rows and not deletes:
        return None
    try:
        change = FileChange(_merged(table, files, rows, deletes), [*rows, *deletes])
        snapshot = snapshot_of(table, files, change, {}, Operation.REPLACE)
    except Exception as error:  # whatever it is, nothing names the new files yet
        log.warning("%s: its small files are left to maintenance: %r", ".".join(table.name()), error)
        return None
    committed(catalog, identifier, table, snapshot, {})
    return change


def chosen(table: Table, files: Files, at_least: int) -> tuple[list[DataFile], list[DataFile]]:
    """The files of rows and of deletes to merge. All deletes of such rows are among them, so that none is left without rows."""
    rows, deletes = small(files.data), small(files.deletes)
    rows = rows if len(rows) >= at_least else []
    paths = {file.file_path for file in rows}
    own = [file for file in files.deletes if rows and not paths.isdisjoint(deletes_in(table, file))]
    others = deletes if rows or len(deletes) >= at_least else []
    return rows, [*own, *(file for file in others if file not in own)]


def small(files: Sequence[DataFile]) -> list[DataFile]:
    """The smallest files, up to the first that is larger than all before it together."""
    smallest: list[DataFile] = []
    size = count = 0
    for file in sorted(files, key=lambda one: one.file_size_in_bytes):
        size, before, count = size + file.file_size_in_bytes, size, count + file.record_count
        if file.file_size_in_bytes > max(ALWAYS_BYTES, before) or size > MOST_BYTES or count > MOST_ROWS:
            break
        smallest.append(file)
    return smallest


def _merged(table: Table, files: Files, rows: Sequence[DataFile], deletes: Sequence[DataFile]) -> list[DataFile]:
    """New files with the live rows of `rows`, and with the deletes of other files."""
    paths = {file.file_path for file in rows}
    live, positions = _read(table, rows, deletes), deleted(table, files.deletes, paths)
    count = sum(file.record_count for file in rows) - sum(len(pc.unique(one)) for one in positions.values())
    if live.num_rows != count:
        raise ValueError(f"{live.num_rows} rows were read, and {count} are counted")
    left = {path: _ascending(one) for path, one in deleted(table, deletes).items() if path not in paths}
    return [*write_deletes(table, left), *write_rows(table, live)]


def _read(table: Table, rows: Sequence[DataFile], deletes: Sequence[DataFile]) -> pa.Table:
    of_file = {file: {one for one in deletes if file.file_path in deletes_in(table, one)} for file in rows}
    tasks = [FileScanTask(file, delete_files=of_file[file]) for file in rows]
    live = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(tasks)
    return live.cast(table.schema().as_arrow())


def _ascending(positions: pa.Array) -> pa.Array:
    """The positions, each once."""
    unique = pc.unique(positions)
    return unique.take(pc.sort_indices(unique))
