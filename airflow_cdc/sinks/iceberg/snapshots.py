"""Snapshots of a table: find them, read their summaries, and commit one that changes no row."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from pyiceberg.manifest import ManifestFile, write_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from airflow_cdc.core.errors import SinkError
from airflow_cdc.core.observation import OtherCommit
from airflow_cdc.core.stamp import BASE, EPOCH, LEDGER, OURS, Stamp
from airflow_cdc.sinks.iceberg.catalog import Change

Model = TypeVar("Model")

EMPTY_TOTALS = {
    "total-records": "0",
    "total-files-size": "0",
    "total-data-files": "0",
    "total-delete-files": "0",
    "total-position-deletes": "0",
    "total-equality-deletes": "0",
}


def make(kind: type[Model], **values: object) -> Model:
    """A PyIceberg model by its Python field names (a type checker only knows their JSON aliases)."""
    return kind(**values)


def head_of(metadata: TableMetadata, ref: str = MAIN_BRANCH) -> int | None:
    """The snapshot id `ref` points to, or None."""
    snapshot_ref = metadata.refs.get(ref)
    return None if snapshot_ref is None else snapshot_ref.snapshot_id


def snapshot_at(metadata: TableMetadata, snapshot_id: int | None) -> Snapshot | None:
    """The snapshot, or None if there is no such id or it is no longer kept."""
    return None if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)


def last_sequence(metadata: TableMetadata) -> int:
    """The highest sequence number assigned so far (format v1 has none)."""
    return int(getattr(metadata, "last_sequence_number", 0))


def lineage(metadata: TableMetadata, snapshot_id: int | None) -> list[Snapshot]:
    """The snapshot and those of its ancestors that are still kept, newest first."""
    # PyIceberg looks each one up in the whole list, and there may be thousands
    kept = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    chain: list[Snapshot] = []
    while snapshot_id is not None and (snapshot := kept.get(snapshot_id)) is not None:
        chain.append(snapshot)
        snapshot_id = snapshot.parent_snapshot_id
    return chain


def summary_of(snapshot: Snapshot | None) -> dict[str, str]:
    """All summary properties of a snapshot except its operation."""
    return {} if snapshot is None or snapshot.summary is None else dict(snapshot.summary.additional_properties)


def operation_of(snapshot: Snapshot) -> str:
    """append, overwrite, delete or replace."""
    return "unknown" if snapshot.summary is None else snapshot.summary.operation.value


def set_ref(
    name: str, snapshot_id: int, kind: SnapshotRefType = SnapshotRefType.BRANCH, old: SnapshotRef | None = None
) -> SetSnapshotRefUpdate:
    """Point a ref to a snapshot and keep the ref's retention settings."""
    return make(
        SetSnapshotRefUpdate,
        ref_name=name,
        type=kind,
        snapshot_id=snapshot_id,
        max_ref_age_ms=old.max_ref_age_ms if old else None,
        max_snapshot_age_ms=old.max_snapshot_age_ms if old else None,
        min_snapshots_to_keep=old.min_snapshots_to_keep if old else None,
    )


def newest_stamp(metadata: TableMetadata, snapshot_id: int | None) -> Stamp | None:
    """The first stamp on the way from a snapshot to its oldest kept ancestor."""
    for snapshot in lineage(metadata, snapshot_id):
        stamp = Stamp.from_summary(summary_of(snapshot), snapshot.snapshot_id, snapshot.sequence_number)
        if stamp is not None:
            return stamp
    return None


def stamp_and_summary(metadata: TableMetadata, mirror: Stamp | None) -> tuple[Stamp | None, dict[str, str]]:
    """Main's newest stamp with the summary of its commit. If all have expired: the mirror, if it can hold, and {}."""
    stamp = newest_stamp(metadata, head_of(metadata))
    if stamp is not None:
        return stamp, summary_of(snapshot_at(metadata, stamp.snapshot_id))
    return (mirror if mirror is not None and may_hold(metadata, mirror) else None), {}


def other_commit(metadata: TableMetadata) -> OtherCommit | None:
    """Main's newest commit of another program that changed rows, since they were last read from the source.

    Whoever merges on top of it keeps its rows. A recovery does not: it reads them anew, or compares each of them, and its
    commits begin a new epoch. So a commit counts if it is above all of ours, or above one of the newest epoch.
    """
    theirs: OtherCommit | None = None
    newest_epoch = base = ""
    for snapshot in lineage(metadata, head_of(metadata)):
        if base and str(snapshot.snapshot_id) != base:
            continue
        summary = summary_of(snapshot)
        base = summary.get(BASE, "")
        if any(name.startswith(OURS) for name in summary):
            epoch = summary.get(EPOCH, newest_epoch)
            if LEDGER in summary or (theirs is not None and epoch == newest_epoch):
                return theirs
            if newest_epoch and epoch != newest_epoch:
                return None
            newest_epoch = epoch
        # a compaction changes no row, nor does the commit that a new table begins with
        elif theirs is None and operation_of(snapshot) != "replace" and not _is_empty_first(snapshot):
            theirs = OtherCommit(snapshot.snapshot_id, snapshot.timestamp_ms / 1000, summary.get("engine-name", ""))
            if not newest_epoch:
                return theirs
    return None


def _is_empty_first(snapshot: Snapshot) -> bool:
    return snapshot.parent_snapshot_id is None and has_no_files(snapshot)


def may_hold(metadata: TableMetadata, stamp: Stamp) -> bool:
    """Whether main can descend from the commit of a mirrored stamp that is no longer among main's ancestors (INV 2).

    That commit may have expired. But main was rolled back to before it, and its rows are not in the table, in three
    cases: the commit is still kept, all of main's ancestors are kept, or the oldest kept ancestor is older than it.
    """
    chain = lineage(metadata, head_of(metadata))
    if not chain or chain[-1].parent_snapshot_id is None or snapshot_at(metadata, stamp.snapshot_id) is not None:
        return False
    if chain[-1].parent_snapshot_id == stamp.snapshot_id:
        return True
    return stamp.sequence is not None and (chain[-1].sequence_number or 0) > stamp.sequence


def row_count(metadata: TableMetadata, snapshot_id: int | None) -> int | None:
    """Rows at a snapshot according to its summary, or None if row-level deletes make that uncertain."""
    summary = summary_of(snapshot_at(metadata, snapshot_id))
    if int(summary.get("total-equality-deletes", "0")) or "total-records" not in summary:
        return None
    return int(summary["total-records"]) - int(summary.get("total-position-deletes", "0"))


def first_snapshot(table: Table) -> Change | None:
    """An empty snapshot as main, unless main has a snapshot already."""
    return None if head_of(table.metadata) is not None else empty_commit(table, {})


def empty_commit(table: Table, summary: Mapping[str, str], *, keep: int | None = None) -> Change:
    """A commit that changes no row and carries `summary`; `keep`: how many snapshots of main to keep with it."""
    metadata = table.metadata
    parent = snapshot_at(metadata, head_of(metadata))
    snapshot = empty_snapshot(table, summary)
    updates: list[TableUpdate] = [
        AddSnapshotUpdate(snapshot=snapshot),
        set_ref(MAIN_BRANCH, snapshot.snapshot_id, old=metadata.refs.get(MAIN_BRANCH)),
    ]
    snapshot_ids = [] if keep is None else [s.snapshot_id for s in lineage(metadata, head_of(metadata))][: keep - 1]
    old = [] if keep is None else [s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in snapshot_ids]
    if old:
        updates.append(make(RemoveSnapshotsUpdate, snapshot_ids=old))
    expected = make(AssertRefSnapshotId, ref=MAIN_BRANCH, snapshot_id=parent.snapshot_id if parent else None)
    return Change((AssertTableUUID(uuid=metadata.table_uuid), expected), tuple(updates))


def takes_empty_commit(table: Table) -> bool:
    """Whether `empty_commit` can be made: PyIceberg writes no manifest lists of format v3, which hold row ids."""
    parent = snapshot_at(table.metadata, head_of(table.metadata))
    return table.metadata.format_version < 3 or parent is None or has_no_files(parent)


def empty_snapshot(table: Table, summary: Mapping[str, str]) -> Snapshot:
    """A snapshot that changes no row, with its manifest list written, which nothing names yet."""
    metadata = table.metadata
    parent = snapshot_at(metadata, head_of(metadata))
    manifests = [] if parent is None or has_no_files(parent) else parent.manifests(table.io)
    if manifests and metadata.format_version >= 3:
        raise SinkError(
            "only Spark can add a commit to a v3 table that has rows",
            where=".".join(table.name()),
            todo="Run the step that uses Spark, or use format version 2.",
        )
    number, sequence = metadata.new_snapshot_id(), last_sequence(metadata) + 1
    parent_id = parent.snapshot_id if parent else None
    row_ids: dict[str, object] = {"first_row_id": getattr(metadata, "next_row_id", None) or 0, "added_rows": 0}
    totals = {key: value for key, value in summary_of(parent).items() if key.startswith("total-")} or EMPTY_TOTALS
    return make(
        Snapshot,
        snapshot_id=number,
        parent_snapshot_id=parent_id,
        sequence_number=sequence,
        manifest_list=_write_list(table, manifests, number, parent_id, sequence),
        schema_id=metadata.current_schema_id,
        summary=Summary(Operation.APPEND, **totals, **summary),
        **(row_ids if metadata.format_version >= 3 else {}),
    )


def _write_list(table: Table, manifests: list[ManifestFile], number: int, parent: int | None, sequence: int) -> str:
    location = f"{table.metadata.location.rstrip('/')}/metadata/snap-{number}-0-{uuid.uuid4()}.avro"
    # PyIceberg writes no v3 lists; an empty one is the same in v2 and v3
    with write_manifest_list(2, table.io.new_output(location), number, parent, sequence, "deflate") as writer:
        writer.add_manifests(manifests)
    return location


def has_no_files(snapshot: Snapshot) -> bool:
    """Whether the summary says so, without a read of the manifest list, which another writer may be deleting."""
    summary = summary_of(snapshot)
    return all(summary.get(key) == "0" for key in ("total-data-files", "total-delete-files"))


def delete_lists(table: Table, before: Iterable[Snapshot]) -> None:
    """Delete the manifest lists of snapshots that are in `before` but no longer in the table, as far as possible."""
    lists = {snapshot.manifest_list for snapshot in table.metadata.snapshots}
    for snapshot in before:
        if snapshot.manifest_list not in lists:
            with suppress(Exception):
                table.io.delete(snapshot.manifest_list)
