"""A stage made fit for its source's definition, if events alone can carry the mirror there."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from airflow_cdc.core.errors import SinkError
from airflow_cdc.core.schema_change import SchemaChange, check_added, check_change, load_definition, refused
from airflow_cdc.core.types import sink_type
from airflow_cdc.spark_apps.stage_schema import fit_columns, keep
from airflow_cdc.systems.iceberg_catalog import Change, commit
from airflow_cdc.systems.spark_types import iceberg_type

_DELETE_MODE, _BY_POSITION = "write.delete.mode", "merge-on-read"

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_cdc.core.table import TableDef
    from airflow_cdc.systems.lake import Lake
    from airflow_cdc.systems.stage import Stage


def fit_stage(
    lake: Lake,
    stage: Stage,
    table: TableDef,
    fingerprint: str | None,
    defaults: Mapping[str, str | None] | None,
) -> SchemaChange:
    """Give the stage the columns of `table`, if they differ. Returns what passed.

    `fingerprint` is that of the definition the stage's rows were written by. Raises SchemaError naming a change
    that needs the table to be read again.
    """
    staged = delete_by_position(lake, stage)
    change = _passing(staged, table, fingerprint, defaults)
    if change.any:
        fit_columns(lake, stage, [(column.name, sink_type(column)) for column in table.mirrored])
    return change


def delete_by_position(lake: Lake, stage: Stage) -> Table:
    """Let deletes in the stage name rows instead of writing their files anew; the target's own settings stay.

    A batch touches a few rows in nearly every file: rewriting these would cost the whole table each time.
    """

    def build(staged: Table) -> Change | None:
        if staged.properties.get(_DELETE_MODE) == _BY_POSITION:
            return None
        same = AssertTableUUID(uuid=staged.metadata.table_uuid)
        return Change((same,), (SetPropertiesUpdate(updates={_DELETE_MODE: _BY_POSITION}),))

    return commit(lake.catalog, stage.identifier, build, what="how the stage deletes")


def _passing(
    staged: Table, table: TableDef, fingerprint: str | None, defaults: Mapping[str, str | None] | None
) -> SchemaChange:
    if fingerprint == table.fingerprint:
        _check_own_columns(staged, table)
    seen = _visible(staged, table, defaults)
    if fingerprint in {None, table.fingerprint}:
        return seen
    old = load_definition(staged.properties)
    if old is None or old.fingerprint != fingerprint:
        raise refused(table, "it is not the one the rows were written by, and that one is not known")
    change = check_change(old, table, defaults)
    return SchemaChange(change.added, tuple(sorted({*change.widened, *seen.widened})))


def _check_own_columns(staged: Table, table: TableDef) -> None:
    """The source is as it was, so a column that only the sink has was added there by hand."""
    strange = [field.name for field in staged.schema().fields if field.name not in {c.name for c in table.mirrored}]
    if strange:
        raise SinkError(
            f"the sink has {', '.join(strange)}, which the source never had",
            where=f"table {table.full_name}",
            todo="Drop it from the sink: a mirror has the source's columns and no others. A view can add some.",
        )


def _visible(staged: Table, table: TableDef, defaults: Mapping[str, str | None] | None) -> SchemaChange:
    """The change as far as the sink's own columns show it."""
    fields = {field.name: field for field in staged.schema().fields}
    wanted = {column.name: column for column in table.mirrored}
    for name in fields.keys() - wanted.keys():
        raise refused(table, f"column {name} was dropped or renamed")
    added, widened = [], []
    for name, column in wanted.items():
        if name not in fields:
            check_added(table, column, defaults)
            added.append(name)
            continue
        kept = keep(fields[name], iceberg_type(sink_type(column), itertools.count(1)))
        if kept is None:
            raise refused(
                table, f"column {name} is {column.column_type} now, which its {fields[name].field_type} values are not"
            )
        if kept.field_type != fields[name].field_type:
            widened.append(name)
    return SchemaChange(tuple(added), tuple(widened))
