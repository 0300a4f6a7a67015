"""Bring a stage's columns up to the source's definition, when that needs no re-read of rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from airflow_cdc.core.errors import SinkError
from airflow_cdc.decisions.apply.schema_change import SchemaChange, check_added, refused
from airflow_cdc.sinks.iceberg.catalog import Change, commit
from airflow_cdc.sinks.iceberg.types import iceberg_type
from airflow_cdc.spark_apps.adapters.iceberg_schema import fit_columns, keep, set_definition
from airflow_cdc.spark_apps.types import sink_type

_DELETE_MODE, _BY_POSITION = "write.delete.mode", "merge-on-read"

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

    from airflow_cdc.core.ports import Stage
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.start import Start
    from airflow_cdc.sinks.iceberg.client import Lake


def fit_stage(lake: Lake, stage: Stage, start: Start, defaults: Mapping[str, str | None] | None) -> SchemaChange:
    """Give the stage the columns of the start's table, if they differ. Returns the change that was made.

    Raises RereadNeededError with the change that the sink's columns cannot follow.
    """
    table, staged = start.table, delete_by_position(lake, stage)
    change = _visible(staged, table, defaults) if start.change is None else _followed(staged, table, start.change)
    if change.any:
        fit_columns(lake, stage, [(column.name, sink_type(column)) for column in table.mirrored])
    set_definition(lake, stage, table)
    return change


def delete_by_position(lake: Lake, stage: Stage) -> IcebergTable:
    """Use row-level delete files in the stage instead of rewriting data files; the target's own settings stay.

    A batch touches a few rows in nearly every file, so copy-on-write would rewrite the whole table each time.
    """

    def build(staged: IcebergTable) -> Change | None:
        if staged.properties.get(_DELETE_MODE) == _BY_POSITION:
            return None
        same = AssertTableUUID(uuid=staged.metadata.table_uuid)
        return Change((same,), (SetPropertiesUpdate(updates={_DELETE_MODE: _BY_POSITION}),))

    return commit(lake.catalog, stage.identifier, build, what="how the stage deletes")


def _followed(staged: IcebergTable, table: Table, change: SchemaChange) -> SchemaChange:
    """The judged change, checked against the sink's columns: a type that they cannot hold is refused."""
    names = {column.name for column in table.mirrored}
    strange = {field.name for field in staged.schema().fields} - names - set(change.dropped)
    if strange:
        raise SinkError(
            f"the sink has {', '.join(sorted(strange))}, which the source never had",
            where=f"table {table.full_name}",
            todo="Drop it from the sink: a mirror has the source's columns and no others. A view can add some.",
        )
    missing = names - {field.name for field in staged.schema().fields} - set(change.added)
    if missing:
        raise refused(table, f"the sink has no column {', '.join(sorted(missing))}, and no DDL added it")
    return replace(change, widened=tuple(sorted({*change.widened, *_wider(staged, table)})))


def _visible(staged: IcebergTable, table: Table, defaults: Mapping[str, str | None] | None) -> SchemaChange:
    """The change inferred from the sink's columns: no commit records the definition its rows were written with."""
    fields, columns = {field.name for field in staged.schema().fields}, {c.name: c for c in table.mirrored}
    for name in fields - columns.keys():
        raise refused(table, f"column {name} was dropped or renamed")
    added = [name for name in columns if name not in fields]
    for name in added:
        check_added(table, columns[name], defaults)
    return SchemaChange(tuple(added), tuple(_wider(staged, table)))


def _wider(staged: IcebergTable, table: Table) -> Iterator[str]:
    """Columns whose sink type has to be widened. Raises RereadNeededError for one that cannot be."""
    fields = {field.name: field for field in staged.schema().fields}
    for column in table.mirrored:
        if column.name not in fields:
            continue
        field = fields[column.name]
        kept_field = keep(field, iceberg_type(sink_type(column), itertools.count(1)))
        if kept_field is None:
            raise refused(
                table, f"column {column.name} is {column.native.type} now, which its {field.field_type} values are not"
            )
        if kept_field.field_type != field.field_type:
            yield column.name
