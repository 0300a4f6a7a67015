"""A few changed rows, written by PyIceberg and Arrow: position deletes and new rows in one commit, without a Spark job.

Only for plain tables (format version 2, not partitioned, not sorted) whose deletes are all by position, in Parquet.
The commit is a compare-and-set on main with the requirements of a publish (stage.py), so it needs no stage.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
)

from airflow_cdc.core.errors import StaleHeadError
from airflow_cdc.sinks.iceberg.catalog import Change, commit
from airflow_cdc.sinks.iceberg.file_change import FileChange, snapshot_of, write_deletes, write_rows
from airflow_cdc.sinks.iceberg.row_positions import live_files, positions_of
from airflow_cdc.sinks.iceberg.snapshots import head_of, lineage, make, set_ref

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_cdc.sinks.iceberg.catalog import Identifier

log = logging.getLogger("airflow_cdc.iceberg")

# What PyIceberg and Arrow raise for a value or a file that they can't handle; nothing is committed then.
_NOT_OURS: Final = (pa.ArrowException, ValueError, TypeError, NotImplementedError)


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
            added = [*write_deletes(table, positions), *write_rows(table, rows)]
        except _NOT_OURS as error:
            log.info("%s is written by Spark: %r", ".".join(table.name()), error)
            return None
        operation = Operation.OVERWRITE if positions else Operation.APPEND
        return snapshot_of(table, files, FileChange(added), self.summary, operation)


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
