"""Stages as tables of their own, for catalogs that register no second table on the target's files (ADR 0020).

Such a stage has a location that the catalog chooses, where its writer's new files go. It begins with the target's
snapshots, which name the target's files and copy none. The commit that creates it holds all of that, so no stage is
half made. Publishing, opening and dropping it are those of every stage (stage.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssignUUIDUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.types import BooleanType, NestedField

from airflow_cdc.core.errors import SinkError, StaleHeadError
from airflow_cdc.sinks.iceberg.catalog import REFUSED, Change, commit_once
from airflow_cdc.sinks.iceberg.snapshots import head_of, last_sequence, lineage, make, set_ref, snapshot_at, summary_of
from airflow_cdc.sinks.iceberg.stage import SEQUENCE_RESERVE, Stage, staged_metadata

# where a table's files go if not to its location; the target's places are not the stage's
PLACES = frozenset({"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"})


def create_beside(catalog: Catalog, source: Table, stage: Stage) -> None:
    """Create the stage from the metadata of the target (or of an earlier stage), unless it exists.

    Raises SinkError if the catalog refuses, or gives the table other ids than the target's files have.
    """
    try:
        staged = _location_for(catalog, source, stage)
        change = creation(source.metadata, stage, staged.metadata.location)
        created = commit_once(catalog, staged, change, what=f"the stage {stage.name}")
    except (TableAlreadyExistsError, StaleHeadError):  # another try of this step was faster
        return
    except REFUSED as error:
        raise SinkError(
            f"the catalog creates no table: {error}",
            where=f"stage {stage.name}",
            todo="Let the catalog's user create tables in this namespace.",
        ) from None
    if wrong := faults(created.metadata, source.metadata):
        catalog.drop_table(stage.identifier)
        raise SinkError(
            f"the catalog created a stage with other {', '.join(wrong)} than asked for",
            where=f"stage {stage.name}",
            todo="The table was not changed, and the stage is dropped. Use `staging: registered`, or another catalog.",
        )


def _location_for(catalog: Catalog, source: Table, stage: Stage) -> StagedTable:
    """The table as the catalog would create it: not there yet, but with a location. It gets its format when created."""
    created = catalog.create_table_transaction(stage.identifier, source.schema())
    return StagedTable(stage.identifier, created.table_metadata, "", source.io, catalog)


def creation(source: TableMetadata, stage: Stage, location: str) -> Change:
    """The commit that creates the stage at `location`, with the ids, snapshots and properties of `source`."""
    first = staged_metadata(source, stage)
    chain = lineage(source, head_of(source))[::-1]
    ids, schemas = _numbered(source, chain)
    current = schemas[-1].schema_id  # also for an old snapshot whose schema is forgotten
    updates: list[TableUpdate] = [
        AssignUUIDUpdate(uuid=first.table_uuid),
        make(UpgradeFormatVersionUpdate, format_version=source.format_version),
        *(make(AddSchemaUpdate, schema_=schema) for schema in schemas),
        make(SetCurrentSchemaUpdate, schema_id=current),
        *(AddPartitionSpecUpdate(spec=spec) for spec in sorted(source.partition_specs, key=lambda spec: spec.spec_id)),
        make(SetDefaultSpecUpdate, spec_id=source.default_spec_id),
        *(make(AddSortOrderUpdate, sort_order=order) for order in source.sort_orders),
        make(SetDefaultSortOrderUpdate, sort_order_id=source.default_sort_order_id),
        SetLocationUpdate(location=location),
        SetPropertiesUpdate(updates={key: value for key, value in first.properties.items() if key not in PLACES}),
        *(
            AddSnapshotUpdate(snapshot=one.model_copy(update={"schema_id": ids.get(_schema_id(source, one), current)}))
            for one in chain
        ),
        set_ref(MAIN_BRANCH, chain[-1].snapshot_id),
        # after main: the newest update's time is that of the table, which tells when the stage was last written to
        AddSnapshotUpdate(snapshot=_reserve(source, first, chain, current)),
    ]
    return Change((AssertCreate(),), tuple(updates))


def _schema_id(source: TableMetadata, snapshot: Snapshot) -> int:
    return source.current_schema_id if snapshot.schema_id is None else snapshot.schema_id


def _numbered(source: TableMetadata, chain: Iterable[Snapshot]) -> tuple[dict[int, int], list[Schema]]:
    """The schemas that the stage needs, numbered as catalogs do (0, 1, …; equal ones once), the current one last.

    A column id that only a forgotten schema had must not be given to a new column: files may still hold the old one.
    One more schema keeps it.
    """
    needed = {_schema_id(source, one) for one in chain} - {source.current_schema_id}
    by_id = {schema.schema_id: schema for schema in source.schemas}
    order = [by_id[number] for number in (*sorted(needed & by_id.keys()), source.current_schema_id)]
    ids: dict[int, int] = {}
    distinct: list[Schema] = []
    for schema in reversed(order):  # an older one that equals the current schema is the current one
        at = next((n for n, one in enumerate(distinct) if _same(one, schema)), len(distinct))
        ids[schema.schema_id] = at
        if at == len(distinct):
            distinct.append(schema)
    if source.last_column_id > max(schema.highest_field_id for schema in distinct):
        keeper = NestedField(source.last_column_id, "highest_id", BooleanType(), required=False)
        distinct.append(Schema(keeper))
    last = len(distinct) - 1
    numbered = [one.model_copy(update={"schema_id": last - at}) for at, one in enumerate(distinct)][::-1]
    return {old: last - at for old, at in ids.items()}, numbered


def _same(one: Schema, other: Schema) -> bool:
    return one == other and one.identifier_field_ids == other.identifier_field_ids


def _reserve(source: TableMetadata, first: TableMetadata, chain: list[Snapshot], schema_id: int) -> Snapshot:
    """A snapshot on no branch, with the head's rows: it moves the numbers as far ahead as those of a registered stage.

    Catalogs let no commit set the last sequence number and the next row id, but each snapshot raises them.
    """
    head = chain[-1]
    totals = {key: value for key, value in summary_of(head).items() if key.startswith("total-")}
    changes: dict[str, object] = {
        "snapshot_id": source.new_snapshot_id(),
        "parent_snapshot_id": head.snapshot_id,
        "sequence_number": last_sequence(first),
        "timestamp_ms": int(time.time() * 1000),
        "summary": Summary(Operation.REPLACE, **totals),
        "schema_id": schema_id,
    }
    if source.format_version >= 3:
        counted = sum(one.added_rows or 0 for one in chain)
        changes |= {"first_row_id": _next_row(source), "added_rows": _next_row(first) - counted}
    return head.model_copy(update=changes)


def faults(staged: TableMetadata, source: TableMetadata) -> tuple[str, ...]:
    """What the catalog made otherwise than asked for. Files name its ids, so others would be read as wrong data."""
    head = snapshot_at(staged, head_of(staged))
    wrong = {
        "columns": not _same(staged.schema(), source.schema()) or staged.last_column_id < source.last_column_id,
        "partitions": _specs(staged) != _specs(source),
        "snapshots": head is None or head.snapshot_id != head_of(source),
        "sequence numbers": last_sequence(staged) < last_sequence(source) + SEQUENCE_RESERVE,
        "row ids": source.format_version >= 3 and _next_row(staged) <= _next_row(source),
    }
    return tuple(name for name, bad in wrong.items() if bad)


def _specs(metadata: TableMetadata) -> dict[int, PartitionSpec]:
    return {spec.spec_id: spec for spec in metadata.partition_specs}


def _next_row(metadata: TableMetadata) -> int:
    return getattr(metadata, "next_row_id", None) or 0
