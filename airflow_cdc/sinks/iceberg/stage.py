"""Stages, which hide a writer's rows from readers until they are verified, and the commit that publishes them.

A stage is a second catalog entry on the target's own files. It starts from the target's metadata, so
Spark can change its schema and write to its main as in any table; readers of the target see neither.
Publishing adds the stage's snapshots, with their schemas, to the target and moves its main in one
compare-and-set commit. Pure functions over table metadata; `client.py` talks to the catalog.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)

from airflow_cdc.core.errors import SinkError, StaleHeadError
from airflow_cdc.core.stamp import BASE, ChunkLedger, Stamp
from airflow_cdc.sinks.iceberg.catalog import Change
from airflow_cdc.sinks.iceberg.snapshots import (
    head_of,
    last_sequence,
    lineage,
    make,
    operation_of,
    set_ref,
    snapshot_at,
    summary_of,
)

FILL_AGAIN = "Clear the task recover and all after it; simply run an apply, a repair or a backfill again."
STAGE_NAMESPACE = "cdc_stage"
OWN = "cdc."
PROPERTY = "cdc.stage."

# Room for commits to main (compactions) between staging and publishing. Sequence numbers must grow along
# main and are written into the stage's manifests, so the stage starts this far ahead; 2^63 leaves room
# for nine million million publishes.
SEQUENCE_RESERVE = 1_000_000
# Row ids of format v3 kept free for compactions meanwhile, as a multiple of the table's rows.
ROW_ID_RESERVE_TABLES = 100
ROW_ID_RESERVE_ROWS = 1_000_000
# A pin must not be dropped by the table's own `history.expire.max-ref-age-ms`.
FOREVER_MS = 2**63 - 1
LONG_LOG = 10_000


@dataclass(frozen=True, slots=True)
class Stage:
    """One writer's stage of one table.

    Attributes:
        namespace: the target's namespace.
        table: the target's name.
        label: names the writer's attempt (`recov_5_1`, `apply_<hex>`); also the name of the pin on the target.
        name: the stage's table name in the namespace `cdc_stage`.
        base_head: the target's head that the stage was made from.
        target_uuid: the target's uuid; a dropped and recreated target has another one.
        base_schema_id: the target's current schema when the stage was created.
        base_last_column_id: the target's highest column id at that time.
    """

    namespace: str
    table: str
    label: str
    name: str
    base_head: int
    target_uuid: str
    base_schema_id: int
    base_last_column_id: int

    @property
    def target(self) -> str:
        """The target as `namespace.table`."""
        return f"{self.namespace}.{self.table}"

    @property
    def identifier(self) -> tuple[str, str]:
        return STAGE_NAMESPACE, self.name

    def spark_name(self, catalog: str) -> str:
        """The stage in Spark SQL, quoted."""
        return ".".join(_quoted(part) for part in (catalog, STAGE_NAMESPACE, self.name))

    def to_json(self) -> dict[str, object]:
        """Plain JSON, for the ledger."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Stage:
        """The inverse of `to_json`."""
        return cls(**data)

    def to_properties(self) -> dict[str, str]:
        """The stage's description as its own table properties store it."""
        return {f"{PROPERTY}{name}": str(value) for name, value in self.to_json().items()}

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Stage:
        """Read a stage back from its table properties. Raises SinkError if they do not describe a stage."""
        try:
            values: dict[str, Any] = {name: properties[f"{PROPERTY}{name}"] for name in cls.__slots__}
        except KeyError as error:
            raise SinkError(
                f"this table is not a stage: property {error} is missing",
                todo="Drop it, if it is left of another try, and clear the task.",
            ) from None
        numbers = ("base_head", "base_schema_id", "base_last_column_id")
        return cls(**{**values, **{name: int(values[name]) for name in numbers}})


def of_stage(base_head: int, summary: Mapping[str, str]) -> dict[str, str]:
    """A commit's summary with the version that its stage began from: what lies between is ours.

    Spark's DELETE and UPDATE take no summary, so the commits before a batch's last one have none.
    """
    return {**summary, BASE: str(base_head)}


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """One commit of a stage, with what its summary says."""

    snapshot_id: int
    parent_id: int | None
    operation: str
    summary: Mapping[str, str] = field(repr=False)
    stamp: Stamp | None = None
    ledger: ChunkLedger | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> StagedCommit:
        """Read it from a snapshot's summary."""
        summary = summary_of(snapshot)
        return cls(
            snapshot.snapshot_id,
            snapshot.parent_snapshot_id,
            operation_of(snapshot),
            summary,
            Stamp.from_summary(summary, snapshot.snapshot_id),
            ChunkLedger.from_summary(summary),
        )


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result of a publish. `already` is True if main had the snapshot before (a rerun after a lost answer)."""

    target: str
    snapshot_id: int
    previous_head: int | None
    already: bool
    schema_changed: bool
    over_compaction: bool = False


def stage_name(namespace: str, table: str, label: str) -> str:
    """The stage's table name. Dots of a nested namespace would make more levels, so they are replaced."""
    return f"{stage_prefix(namespace, table)}{label}"


def stage_prefix(namespace: str, table: str | None = None) -> str:
    """The prefix of the names of all stages of a namespace, or of one of its tables."""
    return "".join(f"{part}__" for part in (namespace.replace(".", "_"), table) if part)


def own_prefix(name: str) -> str:
    """The `stage_prefix` of the table that this stage belongs to. No label has two underscores in a row."""
    return name[: name.rfind("__") + 2]


def new_stage(target: Table, namespace: str, table: str, label: str) -> Stage:
    """A new stage of `target` as it is now."""
    metadata = target.metadata
    head = head_of(metadata)
    if head is None:
        raise SinkError(
            "the table has no snapshot to start from", where=f"{namespace}.{table}", todo="Call ensure_table."
        )
    return Stage(
        namespace,
        table,
        label,
        stage_name(namespace, table, label),
        head,
        str(metadata.table_uuid),
        metadata.current_schema_id,
        metadata.last_column_id,
    )


def staged_metadata(source: TableMetadata, stage: Stage) -> TableMetadata:
    """The first metadata of a stage, built from the target's (or an earlier stage's).

    It gets a uuid of its own (catalogs may refuse a uuid twice), and an empty metadata log, so that it cannot trim
    the target's files. Main is its only ref. Its sequence numbers and row ids start far enough ahead.
    """
    properties = {
        **source.properties,
        **stage.to_properties(),
        "gc.enabled": "false",
        "write.metadata.delete-after-commit.enabled": "false",
        "write.metadata.previous-versions-max": str(LONG_LOG),
    }
    main = make(SnapshotRef, snapshot_id=head_of(source), snapshot_ref_type=SnapshotRefType.BRANCH)
    changes: dict[str, object] = {
        "table_uuid": uuid.uuid4(),
        "metadata_log": [],
        "refs": {MAIN_BRANCH: main},
        "properties": properties,
        "last_sequence_number": last_sequence(source) + SEQUENCE_RESERVE,
    }
    if source.format_version >= 3:
        changes["next_row_id"] = (getattr(source, "next_row_id", None) or 0) + _row_id_reserve(source)
    return source.model_copy(update=changes)


def with_properties(metadata: TableMetadata, properties: Mapping[str, str]) -> TableMetadata:
    """The metadata with these table properties too."""
    return metadata.model_copy(update={"properties": {**metadata.properties, **properties}})


def _row_id_reserve(metadata: TableMetadata) -> int:
    rows = int(summary_of(snapshot_at(metadata, head_of(metadata))).get("total-records", "0"))
    return ROW_ID_RESERVE_TABLES * (rows + ROW_ID_RESERVE_ROWS)


def chain_of(staged: TableMetadata, stage: Stage, snapshot_id: int | None = None) -> list[Snapshot]:
    """The stage's snapshots after its base up to `snapshot_id` (default: its head), oldest first."""
    chain = lineage(staged, head_of(staged) if snapshot_id is None else snapshot_id)
    ids = [snapshot.snapshot_id for snapshot in chain]
    if stage.base_head not in ids:
        raise SinkError(
            f"snapshot {snapshot_id} does not descend from the stage's base {stage.base_head}",
            where=f"stage {stage.name}",
            todo=FILL_AGAIN,
        )
    return chain[: ids.index(stage.base_head)][::-1]


def check_main(target: TableMetadata, stage: Stage, expected_head: int, *, over_compaction: bool) -> int:
    """The head to publish over: the expected one, or, if allowed, one with only compactions on top of it.

    Raises StaleHeadError, which names the commits in between, and SinkError if the target was replaced.
    """
    where = f"table {stage.target}"
    if str(target.table_uuid) != stage.target_uuid:
        raise SinkError("the table was dropped and created again since staging", where=where, todo=FILL_AGAIN)
    head = head_of(target)
    if head is not None and (head == expected_head or (over_compaction and only_compacted(target, expected_head))):
        _check_schema(target, stage)
        return head
    raise stale(target, stage, expected_head)


def _check_schema(target: TableMetadata, stage: Stage) -> None:
    current = (target.current_schema_id, target.last_column_id)
    if current != (stage.base_schema_id, stage.base_last_column_id):
        raise StaleHeadError(
            f"the table's schema was changed since staging: schema {stage.base_schema_id} -> {current[0]}, "
            f"last column id {stage.base_last_column_id} -> {current[1]}",
            where=f"table {stage.target}",
            todo=FILL_AGAIN,
        )


def moved_by(target: TableMetadata, expected_head: int) -> tuple[list[Snapshot], bool]:
    """The commits that main has on top of `expected_head`, oldest first, and whether the walk reached it."""
    above: list[Snapshot] = []
    for snapshot in lineage(target, head_of(target)):
        if snapshot.snapshot_id == expected_head:
            return above[::-1], True
        above.append(snapshot)
    return above[::-1], False


def only_compacted(target: TableMetadata, expected_head: int) -> bool:
    """Whether every commit above `expected_head` is known and none changed a row."""
    above, reached = moved_by(target, expected_head)
    return reached and all(operation_of(snapshot) == "replace" for snapshot in above)


def stale(target: TableMetadata, stage: Stage, expected_head: int) -> StaleHeadError:
    """The error that says who moved main."""
    above, reached = moved_by(target, expected_head)
    commits = tuple(f"{snapshot.snapshot_id} {operation_of(snapshot)}" for snapshot in above)
    how = f"commits {', '.join(commits)}" if reached else "commits that are not all kept any more"
    return StaleHeadError(
        f"main moved from {expected_head} to {head_of(target)} by {how}",
        where=f"table {stage.target}",
        todo="Stage again from the current head and re-read what those commits changed.",
        commits=commits,
        only_replace=reached and only_compacted(target, expected_head),
    )


def own_properties(staged: TableMetadata) -> dict[str, str]:
    """The properties that the stage's writer set about the rows (`cdc.…`), without those that describe the stage."""
    return {k: v for k, v in staged.properties.items() if k.startswith(OWN) and not k.startswith(PROPERTY)}


def plan_publish(
    target: TableMetadata, staged: TableMetadata, stage: Stage, snapshot_id: int, *, properties: Mapping[str, str]
) -> Change:
    """The one commit that makes the stage's `snapshot_id` the main of this target (see check_main)."""
    chain = chain_of(staged, stage, snapshot_id)
    _check_layout(target, staged, stage)
    schemas = map_schemas(target, staged, [snapshot.schema_id for snapshot in chain])
    snapshots = fit_snapshots(target, chain, schemas.ids, stage)
    current = schemas.ids[chain[-1].schema_id] if chain else target.current_schema_id
    updates: list[TableUpdate] = [make(AddSchemaUpdate, schema_=schema) for schema in schemas.added]
    if current != target.current_schema_id:
        updates.append(make(SetCurrentSchemaUpdate, schema_id=current))
    updates += [AddSnapshotUpdate(snapshot=snapshot) for snapshot in snapshots]
    updates.append(set_ref(MAIN_BRANCH, snapshot_id, old=target.refs.get(MAIN_BRANCH)))
    if stage.label in target.refs:
        updates.append(make(RemoveSnapshotRefUpdate, ref_name=stage.label))
    if changed := {key: value for key, value in properties.items() if target.properties.get(key) != value}:
        updates.append(SetPropertiesUpdate(updates=changed))
    requirements = (
        AssertTableUUID(uuid=target.table_uuid),
        make(AssertRefSnapshotId, ref=MAIN_BRANCH, snapshot_id=head_of(target)),
        make(AssertCurrentSchemaId, current_schema_id=target.current_schema_id),
        make(AssertLastAssignedFieldId, last_assigned_field_id=target.last_column_id),
    )
    return Change(requirements, tuple(updates))


def _check_layout(target: TableMetadata, staged: TableMetadata, stage: Stage) -> None:
    known = {spec.spec_id: spec for spec in target.partition_specs}
    if any(known.get(spec.spec_id) != spec for spec in staged.partition_specs):
        raise SinkError(
            "the stage's partition layout is not the table's",
            where=f"stage {stage.name}",
            todo="Change partitioning on the table itself, then start a new try.",
        )


@dataclass(frozen=True, slots=True)
class SchemaMap:
    """The target's schema id for each of the stage's schema ids, and the schemas to add first, in order."""

    ids: Mapping[int | None, int]
    added: tuple[Schema, ...]


def map_schemas(target: TableMetadata, staged: TableMetadata, schema_ids: Iterable[int | None]) -> SchemaMap:
    """Match the stage's schemas to the target's by content, because both may use one id for different schemas."""
    known = list(target.schemas)
    added: list[Schema] = []
    ids: dict[int | None, int] = {}
    for old in dict.fromkeys(schema_ids):
        schema = _schema(staged, old)
        match = next((s for s in known if s == schema and s.identifier_field_ids == schema.identifier_field_ids), None)
        if match is None:
            # one above the highest, in this order, as a REST catalog's server would assign them too
            match = schema.model_copy(update={"schema_id": max(s.schema_id for s in known) + 1})
            known.append(match)
            added.append(match)
        ids[old] = match.schema_id
    return SchemaMap(ids, tuple(added))


def _schema(staged: TableMetadata, schema_id: int | None) -> Schema:
    wanted = staged.current_schema_id if schema_id is None else schema_id
    return next(schema for schema in staged.schemas if schema.schema_id == wanted)


def fit_snapshots(
    target: TableMetadata, chain: list[Snapshot], schema_ids: Mapping[int | None, int], stage: Stage
) -> list[Snapshot]:
    """The stage's snapshots with the target's schema ids, row ids and clock, as its metadata accepts them."""
    if chain and (chain[0].sequence_number or 0) <= last_sequence(target):
        raise _reserve_used("sequence numbers", stage)
    next_row = getattr(target, "next_row_id", None)
    fitted: list[Snapshot] = []
    for snapshot in chain:
        changes: dict[str, object] = {"schema_id": schema_ids[snapshot.schema_id]}
        if snapshot.first_row_id is not None and next_row is not None:
            if snapshot.first_row_id < next_row:
                raise _reserve_used("row ids", stage)
            end = snapshot.first_row_id + (snapshot.added_rows or 0)
            # the format allows added-rows to be an upper bound; it includes the gap, so that later ids come after ours
            changes["added_rows"], next_row = end - next_row, end
        fitted.append(snapshot.model_copy(update=changes))
    if fitted:
        fitted[-1] = fitted[-1].model_copy(update={"timestamp_ms": publish_time(target)})
    return fitted


def publish_time(target: TableMetadata) -> int:
    """The time at which the published snapshot became visible.

    The snapshot's own time may be before a compaction's, and Iceberg refuses to load a table whose snapshot
    log goes back by more than a minute. Time travel by clock also means "what readers saw then".
    """
    log = [entry.timestamp_ms for entry in target.snapshot_log]
    return max(int(time.time() * 1000), target.last_updated_ms, *log[-1:])


def _reserve_used(what: str, stage: Stage) -> SinkError:
    return SinkError(
        f"the stage's reserve of {what} was used up by commits on main",
        where=f"stage {stage.name}",
        todo=FILL_AGAIN,
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
