"""The sink: Iceberg tables in one catalog, accessed through PyIceberg (no JVM).

It reads heads, stamps and rows, creates stages and publishes them. Spark writes to stages, never to a
target's main; `spark_conf` gives it the same catalog under the same name.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.update import AssertTableUUID, RemoveSnapshotRefUpdate

from airflow_cdc.core.endpoint import Unlimited
from airflow_cdc.core.errors import SinkError, StaleHeadError, UnknownStateError
from airflow_cdc.core.observation import SinkTableFacts
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.decisions.apply.schema_change import DEFINITION
from airflow_cdc.sinks.iceberg import dead_letters, trial
from airflow_cdc.sinks.iceberg.catalog import (
    Change,
    Identifier,
    MissingTableError,
    commit,
    describe,
    load,
    open_catalog,
    spark_conf,
)
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sinks.iceberg.snapshots import (
    empty_commit,
    first_snapshot,
    head_of,
    lineage,
    make,
    newest_stamp,
    other_commit,
    row_count,
    set_ref,
    snapshot_at,
    stamp_and_summary,
    takes_empty_commit,
)
from airflow_cdc.sinks.iceberg.stage import (
    FOREVER_MS,
    STAGE_NAMESPACE,
    PublishResult,
    Stage,
    StagedCommit,
    chain_of,
    check_main,
    new_stage,
    own_prefix,
    own_properties,
    plan_publish,
    stage_name,
    stage_prefix,
    with_properties,
)
from airflow_cdc.sinks.iceberg.staging import STAGING, Noted, create_stage, staging_of, unfit
from airflow_cdc.sinks.iceberg.types import iceberg_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_cdc.core.dead_letter import DeadLetter
    from airflow_cdc.core.topics import Fence

DEFAULT_FORMAT_VERSION = 2
# our own key, removed from the properties before the catalog is opened
FORMAT_VERSION = "format_version"

TARGET_PROPERTIES = {
    # as every other engine sets it at creation: where nothing is set, Iceberg's Java writers still use gzip, which costs a
    # snapshot of wide rows a third of its time (https://github.com/apache/iceberg/pull/8593)
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "write.merge.isolation-level": "serializable",
    "write.update.isolation-level": "serializable",
    "write.delete.isolation-level": "serializable",
}
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("merge", "update", "delete")}


class Lake(Unlimited):
    """One Iceberg catalog.

    `properties` are PyIceberg's (`type`, `uri`, `warehouse`, …); `format_version` is the version of
    tables created here (2 by default, 3 as an option); `staging` says how stages are made (staging.py); keys that
    start with `spark.` go to Spark only.
    Nothing is opened before the first call; a forked process opens its own connections.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self.format_version = int(properties.get(FORMAT_VERSION, DEFAULT_FORMAT_VERSION))
        self.asked_way = staging_of(properties)
        self._properties = {key: value for key, value in properties.items() if key not in {FORMAT_VERSION, STAGING}}
        self._catalogs: dict[tuple[int, int], Catalog] = {}
        self._way: Noted | None = None

    def __repr__(self) -> str:
        return f"Lake({self.name!r})"

    @property
    def where(self) -> str:
        """How messages name this catalog."""
        return f"catalog {self.name}"

    @property
    def staging(self) -> Self:
        """See core.ports.Sink."""
        return self

    @property
    def letters(self) -> Self:
        """See core.ports.Sink."""
        return self

    @property
    def catalog(self) -> Catalog:
        """The PyIceberg catalog of this process; for Hive of this thread, because its client serves one at a time."""
        pid = os.getpid()
        owner = (pid, threading.get_ident() if self._properties.get("type") == "hive" else 0)
        if owner not in self._catalogs:
            kept = {one: catalog for one, catalog in self._catalogs.items() if one[0] == pid}
            self._catalogs = {**kept, owner: open_catalog(self.name, self._properties)}
        return self._catalogs[owner]

    def reach(self) -> None:
        """Ask the catalog for its namespaces. Raises UnknownStateError if it can't be asked, ConfigError for bad properties."""
        catalog = self.catalog
        try:
            catalog.list_namespaces()
        except Exception as error:
            text, todo = f"the catalog cannot be read: {describe(error)}", "Check its address and credentials."
            raise UnknownStateError(text, where=f"catalog {self.name}", todo=todo) from None

    def close(self) -> None:
        """Release the catalog's connections; the next call opens it again."""
        for catalog in self._catalogs.values():
            catalog.close()
        self._catalogs = {}

    def spark_conf(self) -> dict[str, str]:
        """Spark settings of this catalog; may hold credentials (see iceberg_catalog.spark_conf)."""
        return spark_conf(self.name, self._properties)

    # tables

    def table(self, namespace: str, table: str) -> Table:
        """The PyIceberg table as it stands now. Raises MissingTableError if it does not exist."""
        return load(self.catalog, ident(namespace, table))

    def exists(self, namespace: str, table: str) -> bool:
        """Whether the table exists. Raises UnknownStateError if the catalog cannot say."""
        try:
            self.table(namespace, table)
        except MissingTableError:
            return False
        return True

    def ensure_namespace(self, namespace: str) -> None:
        """Create the namespace if it does not exist."""
        parts = tuple(namespace.split("."))
        try:
            if not self.catalog.namespace_exists(parts):
                self.catalog.create_namespace(parts)
        except NamespaceAlreadyExistsError:
            return
        except Exception as error:  # the loser of a race sees a database error, not the one above
            if not self.catalog.namespace_exists(parts):
                raise SinkError(
                    f"the namespace cannot be created: {describe(error)}",
                    where=f"namespace {namespace}",
                    todo="Create it, or let the catalog's user do so.",
                ) from None

    def ensure_table(
        self,
        namespace: str,
        table: str,
        columns: Sequence[tuple[str, str]],
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
    ) -> bool:
        """Create the table with (column, Spark SQL type) and an empty first snapshot, so that main exists.

        Returns True if it was created. An existing table keeps its columns; only a stage changes them.
        """
        place, known, created = ident(namespace, table), None, None
        with suppress(MissingTableError):
            known = self.table(namespace, table)
        if known is None:
            version = format_version or self.format_version
            settings = {"format-version": str(version), **TARGET_PROPERTIES, **(MERGE_ON_READ if version >= 3 else {})}
            self.ensure_namespace(namespace)
            with suppress(TableAlreadyExistsError):  # another process was faster
                schema = iceberg_schema(columns)
                created = self.catalog.create_table(place, schema, properties=settings | dict(properties or {}))
        if known is None or head_of(known.metadata) is None:
            commit(self.catalog, place, first_snapshot, what="the first snapshot", first=created or known)
        return created is not None

    def head(self, namespace: str, table: str) -> int | None:
        """The snapshot id of main, or None if nothing was ever committed."""
        return head_of(self.table(namespace, table).metadata)

    def stamp(self, namespace: str, table: str, snapshot_id: int | None = None) -> Stamp | None:
        """The newest stamp at or before a snapshot (default: main's head), found by walking the parents."""
        metadata = self.table(namespace, table).metadata
        return newest_stamp(metadata, head_of(metadata) if snapshot_id is None else snapshot_id)

    def stamped_summary(self, namespace: str, table: str) -> dict[str, str]:
        """The whole summary of main's newest stamped commit; {} if there is none."""
        return stamp_and_summary(self.table(namespace, table).metadata, None)[1]

    def row_count(self, namespace: str, table: str, version: int) -> int | None:
        """How many rows a snapshot has; None if that is not cheap to find out."""
        return row_count(self.table(namespace, table).metadata, version)

    def definition_text(self, namespace: str, table: str) -> str:
        """The recorded source definition that the rows were written with; "" if none was recorded."""
        return self.table(namespace, table).properties.get(DEFINITION) or ""

    def stamp_or_mirror(self, namespace: str, table: str, mirror: Stamp | None) -> Stamp | None:
        """The newest stamp. If all stamped commits have expired: its mirror, unless main was rolled back past it."""
        return stamp_and_summary(self.table(namespace, table).metadata, mirror)[0]

    def facts(self, namespace: str, table: str) -> SinkTableFacts:
        """Whether the table exists, its head, newest stamp and row count (None if that is not cheap to find out)."""
        try:
            metadata = self.table(namespace, table).metadata
        except MissingTableError:
            return SinkTableFacts(exists=False)
        head = head_of(metadata)
        stamp = newest_stamp(metadata, head)
        carrier = snapshot_at(metadata, stamp.snapshot_id) if stamp else None
        return SinkTableFacts(
            exists=True,
            head=head,
            stamp=stamp,
            rows=row_count(metadata, head),
            stamped_at=carrier.timestamp_ms / 1000 if carrier else None,
            other=other_commit(metadata),
        )

    def read_arrow(
        self, namespace: str, table: str, snapshot_id: int | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """All rows at a snapshot (default: main's head), with that snapshot's own columns."""
        iceberg_table = self.table(namespace, table)
        return iceberg_table.scan(snapshot_id=snapshot_id, selected_fields=tuple(columns or ("*",))).to_arrow()

    def commit_nothing(self, namespace: str, table: str, summary: Mapping[str, str]) -> bool:
        """Add a snapshot that changes no row and carries `summary`; False if only Spark can do that (v3 with rows)."""

        def build(target: Table) -> Change | None:
            return empty_commit(target, summary) if takes_empty_commit(target) else None

        return takes_empty_commit(commit(self.catalog, (namespace, table), build, what="an empty batch"))

    # dead letters

    def unresolved_letters(self, pipeline: str, table: str | None = None) -> tuple[DeadLetter, ...]:
        """The dead letters that are not resolved yet, of one table or of all, oldest first."""
        return dead_letters.unresolved(self, pipeline, table)

    def waiting_letters(self, pipeline: str) -> int:
        """How many unresolved letters will be tried again."""
        return dead_letters.waiting(self, pipeline)

    def resolve_letters_before(self, pipeline: str, since: Mapping[str, Fence]) -> int:
        """Mark letters before `since` (table → fence) as resolved, because their rows were read again.

        Returns how many were marked. Safe to repeat.
        """
        return dead_letters.resolve_before(self, pipeline, since)

    # stages

    def try_stage(self) -> str:
        """How this catalog holds stages: as noted, or found out with a small table. Raises SinkError if it can't."""
        return trial.try_stage(self)

    def staging_facts(self, namespace: str) -> trial.StagingFacts:
        """What is known about stages of a namespace, for `doctor`. Changes nothing."""
        return trial.staging_facts(self, namespace)

    def stage(
        self,
        namespace: str,
        table: str,
        label: str,
        from_stage: Stage | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Stage:
        """Create (or find again) the stage `label` of a table, and pin its base on the target.

        `from_stage`: take over the commits of an earlier try, whose writers cannot reach the new stage. `properties`: of
        the new stage; setting them later takes a commit.
        """
        with suppress(MissingTableError):
            return self.open_stage(namespace, table, label)
        self.ensure_namespace(STAGE_NAMESPACE)
        if from_stage is None:
            source = self.table(namespace, table)
            stage = new_stage(source, namespace, table, label)
        else:
            source = self.table(*from_stage.identifier)
            stage = _renamed(from_stage, label)
        # a copy: after a commit, the table is what the catalog says that it is then
        self._pin(stage, None if from_stage else copy(source))
        source.metadata = with_properties(source.metadata, properties or {})
        self._way = create_stage(self.catalog, source, stage, self.asked_way, self._way)
        return self.open_stage(namespace, table, label)

    def stage_for_changes(self, namespace: str, table: str, label: str) -> Stage:
        """A new stage: readers see a batch of events when it is published."""
        return self.stage(namespace, table, label)

    def _pin(self, stage: Stage, target: Table | None) -> None:
        """Tag the base on the target, so that its files do not expire whatever the retention settings are.

        `target`: as it was read just now.
        """
        kind = SnapshotRefType.TAG
        pin = make(SnapshotRef, snapshot_id=stage.base_head, snapshot_ref_type=kind, max_ref_age_ms=FOREVER_MS)

        def build(target: Table) -> Change | None:
            if target.metadata.refs.get(stage.label) == pin:
                return None
            same = AssertTableUUID(uuid=uuid.UUID(stage.target_uuid))
            return Change((same,), (set_ref(stage.label, stage.base_head, kind, pin),))

        place, what = ident(stage.namespace, stage.table), f"the pin {stage.label}"
        after = commit(self.catalog, place, build, what=what, first=target)
        if stage.label not in after.metadata.refs:
            raise unfit(self.where, "it keeps no tags, so nothing would keep the files that a stage is built on")

    def open_stage(self, namespace: str, table: str, label: str) -> Stage:
        """The stage `label` of a table. Raises MissingTableError if there is none."""
        name = stage_name(namespace, table, label)
        stage = Stage.from_properties(self.table(STAGE_NAMESPACE, name).properties)
        if (stage.namespace, stage.table, stage.label) != (namespace, table, label):
            raise SinkError(f"the stage {name} belongs to {stage.target}", todo="Choose another label.")
        return stage

    def stages(self, namespace: str | None = None, *tables: str) -> tuple[Stage, ...]:
        """All existing stages of some tables, of a namespace, or of all. Other stages may be broken and are not read.

        The names of all stages are listed once; one call per table would list 2,000 names 2,000 times.
        """
        if not self.catalog.namespace_exists((STAGE_NAMESPACE,)):
            return ()
        prefix = stage_prefix(namespace) if namespace else ""
        wanted = {stage_prefix(namespace, table) for table in tables} if namespace else set()
        stages: list[Stage] = []
        for _, name in self.catalog.list_tables((STAGE_NAMESPACE,)):
            with suppress(MissingTableError):  # dropped after it was listed
                if name.startswith(prefix) and (not wanted or own_prefix(name) in wanted):
                    stages.append(Stage.from_properties(self.table(STAGE_NAMESPACE, name).properties))
        return tuple(s for s in stages if namespace in {None, s.namespace} and (not tables or s.table in tables))

    def stage_head(self, stage: Stage) -> int:
        """The newest snapshot of the stage; its base if nothing was written."""
        return self.head(*stage.identifier) or stage.base_head

    def stage_chain(self, stage: Stage, snapshot_id: int | None = None) -> tuple[StagedCommit, ...]:
        """The stage's own commits up to `snapshot_id` (default: its head), oldest first."""
        chain = chain_of(self.table(*stage.identifier).metadata, stage, snapshot_id)
        return tuple(StagedCommit.of(snapshot) for snapshot in chain)

    def publish(
        self,
        stage: Stage,
        snapshot_id: int,
        expected_head: int,
        properties: Mapping[str, str] | None = None,
        *,
        over_compaction: bool = False,
    ) -> PublishResult:
        """Make the verified snapshot the target's main in one commit, with its schema and the stage's own properties.

        Own properties are those that its writer set under names that start with `cdc.`; `properties` override them.
        The commit succeeds only if main is still `expected_head` (with `over_compaction`: or has only compactions
        on top of it); else StaleHeadError names the commits. Calling it again after success changes nothing.
        """
        facts: dict[str, Any] = {"already": True, "previous": None, "schema": False, "over": False}

        def build(target: Table) -> Change | None:
            if any(
                snapshot.snapshot_id == snapshot_id for snapshot in lineage(target.metadata, head_of(target.metadata))
            ):
                return None
            head = check_main(target.metadata, stage, expected_head, over_compaction=over_compaction)
            staged = self.table(*stage.identifier).metadata
            change = plan_publish(
                target.metadata, staged, stage, snapshot_id, properties=own_properties(staged) | dict(properties or {})
            )
            facts.update(
                already=False, previous=head, schema=target.metadata.current_schema_id, over=head != expected_head
            )
            return change

        table = commit(self.catalog, ident(stage.namespace, stage.table), build, what=f"publish of {snapshot_id}")
        changed = not facts["already"] and facts["schema"] != table.metadata.current_schema_id
        return PublishResult(stage.target, snapshot_id, facts["previous"], facts["already"], changed, facts["over"])

    def touched_at(self, stage: Stage) -> float:
        """When the stage was last written to, in unix seconds."""
        return self.table(*stage.identifier).metadata.last_updated_ms / 1000

    def publishable(self, stage: Stage) -> bool:
        """Whether the target is still what the stage began from, apart from compactions."""
        target = self.table(stage.namespace, stage.table).metadata
        try:
            check_main(target, stage, stage.base_head, over_compaction=True)
        except (StaleHeadError, SinkError):
            return False
        return True

    def drop_stage(self, stage: Stage) -> None:
        """Remove the stage's catalog entry, its pin on the target and its metadata files. No data is deleted.

        `remove_orphan_files` removes the files of unpublished commits. Safe to repeat.
        """
        with suppress(MissingTableError):
            staged = self.table(*stage.identifier)
            with suppress(NoSuchTableError):
                self.catalog.drop_table(stage.identifier)
            for location in (
                *(entry.metadata_file for entry in staged.metadata.metadata_log),
                staged.metadata_location,
            ):
                with suppress(Exception):
                    staged.io.delete(location)
        with suppress(MissingTableError):
            self._unpin(stage)

    def _unpin(self, stage: Stage) -> None:
        def build(target: Table) -> Change | None:
            if stage.label not in target.metadata.refs:
                return None
            return Change((), (make(RemoveSnapshotRefUpdate, ref_name=stage.label),))

        commit(self.catalog, ident(stage.namespace, stage.table), build, what=f"removal of the pin {stage.label}")


def open_lake(endpoint: IcebergEndpoint) -> Lake:
    """The catalog at `endpoint`."""
    return Lake(endpoint.name, dict(endpoint.properties))


def ident(namespace: str, table: str) -> Identifier:
    """A catalog identifier. A dot separates levels in the namespace, but not in the table's name."""
    return (*namespace.split("."), table)


def _renamed(stage: Stage, label: str) -> Stage:
    values = stage.to_json() | {"label": label, "name": stage_name(stage.namespace, stage.table, label)}
    return Stage.from_json(values)
