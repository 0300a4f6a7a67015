"""Change a stage's columns to the source's current ones, in one commit of the stage's own metadata.

Readers never see it: the schema reaches the target with the published snapshot. A column keeps its field id only while
its name means compatible data; a column dropped and added again with another type gets a new id, because the values in
old files mean something else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
)
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StructType,
)

from airflow_cdc.core.errors import SinkError
from airflow_cdc.core.ports import Stage
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.schema_change import DEFINITION, dump_definition
from airflow_cdc.sinks.iceberg.catalog import Change, commit
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.snapshots import make
from airflow_cdc.sinks.iceberg.types import iceberg_type

_WIDENED = {(IntegerType, LongType), (FloatType, DoubleType)}


def fit_columns(lake: Lake, stage: Stage, columns: Sequence[tuple[str, str]]) -> bool:
    """Give the stage exactly these (name, Spark SQL type) columns, in order. Returns whether anything changed.

    Raises SinkError if the table is partitioned or sorted by a column that would be dropped.
    """
    return fit_read(lake, lake.table(*stage.identifier), stage, columns)


def fit_read(lake: Lake, staged: IcebergTable, stage: Stage, columns: Sequence[tuple[str, str]]) -> bool:
    """As fit_columns, with the stage as it was read just now; it is afterwards as the commit left it."""
    before = staged.metadata.current_schema_id

    def build(table: IcebergTable) -> Change | None:
        fields = fitted_fields(table.schema(), columns, itertools.count(table.metadata.last_column_id + 1))
        if fields == table.schema().fields:
            return None
        _check_layout(table, {field.field_id for field in fields}, stage)
        schema = Schema(*fields, schema_id=max(s.schema_id for s in table.metadata.schemas) + 1)
        requirements = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            make(AssertCurrentSchemaId, current_schema_id=table.metadata.current_schema_id),
            make(AssertLastAssignedFieldId, last_assigned_field_id=table.metadata.last_column_id),
        )
        return Change(requirements, (make(AddSchemaUpdate, schema_=schema), make(SetCurrentSchemaUpdate, schema_id=-1)))

    after = commit(lake.catalog, stage.identifier, build, what="the source's columns", first=staged)
    staged.metadata, staged.metadata_location = after.metadata, after.metadata_location
    return after.metadata.current_schema_id != before


def misfits(schema: Schema, columns: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """How a schema differs from these (name, Spark SQL type) columns."""
    types, names = {field.name: field.field_type for field in schema.fields}, [name for name, _ in columns]
    absent = [f"{name} is missing" for name in names if name not in types]
    more = [f"{name} is not in the source" for name in types if name not in names]
    new_types = {name: iceberg_type(text, itertools.count(1)) for name, text in columns if name in types}
    others = [
        f"{name} is {types[name]}, not {kind}" for name, kind in new_types.items() if not _same(types[name], kind)
    ]
    ordered = list(types) == names or bool(absent or more)
    return (*absent, *more, *others, *(() if ordered else (f"their order is not {', '.join(names)}",)))


def set_definition(lake: Lake, stage: Stage, table: Table, staged: IcebergTable | None = None) -> None:
    """Store on the stage the source definition that its rows are written with; later DDL is judged against it.

    `staged`: the stage as it was read just now.
    """
    text = dump_definition(table)

    def build(staged: IcebergTable) -> Change | None:
        if staged.properties.get(DEFINITION) == text:
            return None
        same = AssertTableUUID(uuid=staged.metadata.table_uuid)
        return Change((same,), (SetPropertiesUpdate(updates={DEFINITION: text}),))

    commit(lake.catalog, stage.identifier, build, what="the source's definition", first=staged)


def fitted_fields(current: Schema, columns: Sequence[tuple[str, str]], ids: Iterator[int]) -> tuple[NestedField, ...]:
    """The wanted columns as fields: with the ids of `current` where name and data still match, else with new ones."""
    known = {field.name: field for field in current.fields}
    fields = []
    for name, text in columns:
        old = known.get(name)
        kept_field = None if old is None else keep(old, iceberg_type(text, itertools.count(1)))
        fields.append(kept_field or _new(name, text, ids))
    return tuple(fields)


def keep(old: NestedField, wanted: IcebergType) -> NestedField | None:
    """The field with its new type, or None if its old values cannot be read as that type."""
    if _same(old.field_type, wanted):
        kind = old.field_type
    elif _widens(old.field_type, wanted):
        kind = wanted
    else:
        return None
    return NestedField(old.field_id, old.name, kind, required=False, doc=old.doc)


def _new(name: str, text: str, ids: Iterator[int]) -> NestedField:
    number = next(ids)
    return NestedField(number, name, iceberg_type(text, ids), required=False)


def _same(old: IcebergType, wanted: IcebergType) -> bool:
    """Equality without the field ids of nested fields."""
    if isinstance(old, StructType) and isinstance(wanted, StructType):
        pairs = list(itertools.zip_longest(old.fields, wanted.fields))
        return all(a and b and a.name == b.name and _same(a.field_type, b.field_type) for a, b in pairs)
    if isinstance(old, ListType) and isinstance(wanted, ListType):
        return _same(old.element_type, wanted.element_type)
    return old == wanted


def _widens(old: IcebergType, wanted: IcebergType) -> bool:
    """Whether Iceberg reads old files of one type as the other without loss."""
    if isinstance(old, DecimalType) and isinstance(wanted, DecimalType):
        return old.scale == wanted.scale and old.precision <= wanted.precision
    return (type(old), type(wanted)) in _WIDENED


def _check_layout(table: IcebergTable, kept_ids: set[int], stage: Stage) -> None:
    uses = [(field.source_id, "partitioned") for field in table.spec().fields]
    uses += [(field.source_id, "sorted") for field in table.sort_order().fields]
    for source_id, how in uses:
        if source_id not in kept_ids:
            name = table.schema().find_column_name(source_id)
            raise SinkError(
                f"the table is {how} by {name}, which the source no longer has in this form",
                where=f"table {stage.target}",
                todo="Change the table's partitioning and sort order first.",
            )
