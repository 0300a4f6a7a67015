"""The sink: one index per table, behind an alias with a filter that hides deleted rows.

A row deleted at the source stays as a document that says so. If the document were removed, OpenSearch would forget its
version after `index.gc_deletes`, and a late event could bring the row back. So it is removed only when no unread event can
be older than it (`purge`). Spark writes the documents (spark_apps/adapters/opensearch.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from opensearchpy.exceptions import NotFoundError

from airflow_cdc.answers import explained
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import CdcError, SinkError, StaleHeadError
from airflow_cdc.core.observation import SinkTableFacts
from airflow_cdc.decisions.apply.schema_change import DEFINITION
from airflow_cdc.sinks.opensearch import dead_letters
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.sinks.opensearch.indexes import FIRST, PublishResult, Stage, alias_of, index_of, prefix_of
from airflow_cdc.sinks.opensearch.indexes import PREFIX as OURS
from airflow_cdc.sinks.opensearch.mapping import DELETED, DELETED_AT, NOT_DELETED, OWN, VERSION
from airflow_cdc.sinks.opensearch.record import Commit, Record, Records, Seen, ensure_index
from airflow_cdc.sinks.opensearch.session import Session

if TYPE_CHECKING:
    from airflow_cdc.core.dead_letter import DeadLetter
    from airflow_cdc.core.stamp import Stamp
    from airflow_cdc.core.topics import Fence

COPY_SECONDS = 24 * 3600.0
_MORE_FIELDS = 10_000
_CLEAR_TASK = "See to what the cluster says, then clear the task."


@explained(SinkError, "OpenSearch")
class SearchSink:
    """The mirrored tables in one cluster. Nothing is opened before the first call."""

    def __init__(self, endpoint: OpenSearchEndpoint) -> None:
        self.endpoint = endpoint
        self.session = Session(endpoint)
        self.records = Records(self.session)

    def __repr__(self) -> str:
        return f"SearchSink({self.endpoint.url!r})"

    @property
    def where(self) -> str:
        """How messages name this cluster."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits))

    @property
    def staging(self) -> Self:
        """See core.ports.Sink."""
        return self

    @property
    def letters(self) -> Self:
        """See core.ports.Sink."""
        return self

    def reach(self) -> None:
        """Ask the cluster for its name. Raises UnknownStateError if it does not answer, SinkError if it refuses."""
        with self.session.asked("reach the cluster") as client:
            client.info()

    def close(self) -> None:
        """Close the connections."""
        self.session.close()

    def spark_conf(self) -> Mapping[str, str]:
        """Spark needs none: the adapter brings address and credentials to the executors."""
        return {}

    # tables

    def index_behind(self, namespace: str, table: str) -> str | None:
        """The index that the table's alias leads to; None if there is no such alias. Raises SinkError for several."""
        alias = alias_of(namespace, table)
        with self.session.asked("read the alias", f"alias {alias}") as client:
            try:
                indexes = sorted(client.indices.get_alias(name=alias))
            except NotFoundError:
                return None
        if len(indexes) != 1 or not indexes[0].startswith(OURS):
            raise SinkError(
                f"the alias leads to {', '.join(indexes)}, which is not one index made here",
                where=f"alias {alias}",
                todo="Remove the alias, or choose another namespace for this pipeline's sink.",
            )
        return str(indexes[0])

    def target(self, namespace: str, table: str) -> Seen:
        """The record of the table's index. Raises SinkError if there is no table."""
        index = self.index_behind(namespace, table)
        if index is None:
            raise SinkError(
                "there is no such alias",
                where=f"alias {alias_of(namespace, table)}",
                todo="Create the index, or run a recovery.",
            )
        return self.records.see(index)

    def exists(self, namespace: str, table: str) -> bool:
        """Whether the table's alias exists."""
        return self.index_behind(namespace, table) is not None

    def ensure_table(self, namespace: str, table: str, columns: Sequence[tuple[str, str]]) -> bool:
        """Create an empty index and its alias. Returns whether they were created; an existing alias stays."""
        if self.exists(namespace, table):
            return False
        index = index_of(namespace, table, FIRST)
        record = Record(index, namespace, table, FIRST, columns=tuple(columns), since=time.time())
        self.records.create(record.with_commit(0, {}))
        created = self._create_index(index, replicas=self.endpoint.replicas)
        self._move_alias(namespace, table, index)
        return created

    def facts(self, namespace: str, table: str) -> SinkTableFacts:
        """Whether the table exists, its version, newest stamp and number of rows."""
        index = self.index_behind(namespace, table)
        if index is None:
            return SinkTableFacts(exists=False)
        record = self.records.see(index).record
        stamped = record.stamped
        return SinkTableFacts(
            exists=True,
            head=record.version,
            stamp=stamped.stamp if stamped else None,
            rows=record.commits[-1].rows if record.commits else None,
            stamped_at=stamped.at if stamped else None,
        )

    def row_count(self, namespace: str, table: str, version: int) -> int | None:
        """How many rows a version has; None if that commit is not recorded any more."""
        commit = self.target(namespace, table).record.commit(version)
        return commit.rows if commit else None

    def stamp(self, namespace: str, table: str) -> Stamp | None:
        """The newest stamp."""
        commit = self.target(namespace, table).record.stamped
        return commit.stamp if commit else None

    def stamp_or_mirror(self, namespace: str, table: str, mirror: Stamp | None) -> Stamp | None:
        """The newest stamp. The mirror is never needed: a record keeps its newest stamped commit."""
        del mirror
        return self.stamp(namespace, table)

    def definition_text(self, namespace: str, table: str) -> str:
        """The recorded source definition that the rows were written with; "" if none was recorded."""
        return self.target(namespace, table).record.properties.get(DEFINITION) or ""

    def stamped_summary(self, namespace: str, table: str) -> Mapping[str, str]:
        """The whole summary of the commit with the newest stamp; {} if there is none."""
        commit = self.target(namespace, table).record.stamped
        return commit.summary if commit else {}

    def commit_nothing(self, namespace: str, table: str, summary: Mapping[str, str]) -> None:
        """A commit to the table itself that changes no row and carries `summary`."""
        seen = self.target(namespace, table)
        self.records.swap(seen, seen.record.with_commit(self.count(seen.record.index), summary))

    # stages

    def stage(
        self, namespace: str, table: str, label: str, from_stage: Stage | None = None, properties: object = None
    ) -> Stage:
        """Create (or find again) the stage `label`: a new index. `from_stage`: a stage whose documents it takes over."""
        del properties  # its writer notes them
        index = index_of(namespace, table, label)
        seen = self.records.find(index)
        if seen is None:
            record = self.target(namespace, table).record.staged(label, index)
            earlier = None if from_stage is None else self.records.see(from_stage.index).record
            self._create_index(index, replicas=0, refresh="-1")
            if earlier is not None:
                self.copy(earlier.index, index)
                record = replace(earlier, index=index, label=label, since=time.time())
            # the record comes last: an index without one was not copied to the end, and is made anew
            self.records.create(record)
        return self.open_stage(namespace, table, label)

    def stage_for_changes(self, namespace: str, table: str, label: str) -> Stage:
        """The table's own index: events carry versions, so that none of them can undo a later one."""
        record = self.target(namespace, table).record
        return Stage(namespace, table, label, record.index, record.version, in_place=True)

    def open_stage(self, namespace: str, table: str, label: str) -> Stage:
        """The stage `label` of a table. Raises SinkError if there is none."""
        seen = self.records.find(index_of(namespace, table, label))
        if seen is None:
            raise SinkError(
                f"there is no stage {label}",
                where=f"alias {alias_of(namespace, table)}",
                todo="Clear the recovery from its first task that failed: it makes the stage again.",
            )
        return stage_of(seen.record)

    def stages(self, namespace: str | None = None, *tables: str) -> tuple[Stage, ...]:
        """All existing stages of some tables, of a namespace, or of all."""
        with self.session.asked("list the indexes") as client:
            aliases = {name: found["aliases"] for name, found in client.indices.get_alias(index=f"{OURS}*").items()}
        prefixes = tuple(prefix_of(namespace, table) for table in tables) if namespace else ()
        records = self.records.of([name for name in sorted(aliases) if not prefixes or name.startswith(prefixes)])
        # the table's own index is a stage as long as the index that it replaced is there
        live = {r.index for r in records if alias_of(r.namespace, r.table) in aliases[r.index]}
        listed = (r for r in records if r.base_index and (r.index not in live or r.base_index in aliases))
        return tuple(
            stage_of(r) for r in listed if namespace in {None, r.namespace} and (not tables or r.table in tables)
        )

    def stage_head(self, stage: Stage) -> int:
        """The newest version of the stage; its base if nothing was written."""
        return self.records.see(stage.index).record.version

    def stage_chain(self, stage: Stage) -> tuple[Commit, ...]:
        """The stage's own commits, oldest first."""
        return () if stage.in_place else self.records.see(stage.index).record.commits

    def touched_at(self, stage: Stage) -> float:
        """When the stage was last written to, in unix seconds."""
        record = self.records.see(stage.index).record
        return record.commits[-1].at if record.commits else record.since

    def publishable(self, stage: Stage) -> bool:
        """Whether the table is still what the stage began from."""
        try:
            target = self.target(stage.namespace, stage.table).record
            return (target.index, target.version) == self._base(stage)
        except CdcError:
            return False

    def publish(
        self,
        stage: Stage,
        snapshot_id: int,
        expected_head: int,
        properties: Mapping[str, str] | None = None,
        *,
        over_compaction: bool = False,
    ) -> PublishResult:
        """Let the alias lead to the stage's index, if the table is still at `expected_head`; else StaleHeadError.

        The index that the alias leaves stays until the stage is dropped. Publishing again after success changes nothing.
        """
        del over_compaction  # OpenSearch merges segments by itself, and no version changes by it
        seen = self.target(stage.namespace, stage.table)
        if seen.record.index == stage.index:
            self.records.change(
                stage.index, lambda r: replace(r, properties={**r.properties, **(properties or {})}, successor="")
            )
            return PublishResult(stage.target, snapshot_id, already=True)
        self._check_base(seen.record, stage, expected_head)
        self._check_stage(stage, snapshot_id)
        self.records.change(stage.index, lambda r: replace(r, properties={**r.properties, **(properties or {})}))
        # from here on nobody can commit to the old index, see `commit`
        self.records.swap(seen, replace(seen.record, successor=stage.index))
        self._open_to_readers(stage.index)
        self._move_alias(stage.namespace, stage.table, stage.index, seen.record.index)
        return PublishResult(stage.target, snapshot_id, already=False)

    def drop_stage(self, stage: Stage) -> None:
        """Remove the stage's index; of a published one, the index that it replaced. Safe to repeat."""
        if stage.in_place:
            return
        live = self.index_behind(stage.namespace, stage.table)
        if live != stage.index:
            base = self.records.find(live) if live else None
            if base is not None and base.record.successor == stage.index:
                self.records.change(base.record.index, lambda record: replace(record, successor=""))
            self._delete_index(stage.index)
            return
        seen = self.records.find(stage.index)
        if seen is not None and seen.record.base_index:
            self._delete_index(seen.record.base_index)

    def _delete_index(self, index: str) -> None:
        with self.session.asked("delete the index", f"index {index}") as client:
            client.indices.delete(index=index, params={"ignore_unavailable": "true"})
        self.records.delete(index)

    def _base(self, stage: Stage) -> tuple[str, int]:
        record = self.records.see(stage.index).record
        return record.base_index, record.base_version

    def _check_base(self, target: Record, stage: Stage, expected_head: int) -> None:
        base, _ = self._base(stage)
        if target.version == expected_head and target.index == base:
            return
        newest = target.commits[-1] if target.commits else None
        raise StaleHeadError(
            f"the table is at version {target.version} of index {target.index}, not at {expected_head} of {base}"
            + (f"; its newest commit says {dict(newest.summary)}" if newest else ""),
            where=f"alias {stage.target}",
            todo="Run the job again: it begins from the table as it is now.",
        )

    def _check_stage(self, stage: Stage, version: int) -> None:
        record = self.records.see(stage.index).record
        if record.version != version:
            raise StaleHeadError(
                f"the stage is at version {record.version}, not at the verified {version}",
                where=f"index {stage.index}",
                todo="Clear the task verify and all after it.",
            )

    # indexes, for the writers in spark_apps

    def commit(self, stage: Stage, seen: Seen, record: Record, summary: Mapping[str, str]) -> int:
        """Add a commit after its documents were written, and return its version.

        Raises StaleHeadError if another writer committed meanwhile.
        """
        if seen.record.successor:
            raise StaleHeadError(
                f"index {seen.record.successor} is taking the alias over",
                where=f"alias {stage.target}",
                todo="Run the job again; if a publish was interrupted, finish or abandon that recovery first.",
            )
        committed = record.with_commit(self.count(stage.index), summary)
        self.records.swap(seen, committed)
        return committed.version

    def count(self, index: str) -> int:
        """How many rows an index shows, with everything written so far."""
        with self.session.asked("count the rows", f"index {index}") as client:
            client.indices.refresh(index=index)
            return int(client.count(index=index, body={"query": NOT_DELETED})["count"])

    def put_mapping(self, index: str, properties: Mapping[str, object]) -> None:
        """Map fields. Raises SinkError if one of them is mapped otherwise."""
        with self.session.asked("map the columns", f"index {index}") as client:
            client.indices.put_mapping(index=index, body={"properties": dict(properties)})

    def copy(self, source: str, target: str) -> None:
        """Copy all documents with their versions, deleted ones included."""
        with self.session.asked("copy the documents", f"index {source}") as client:
            client.indices.refresh(index=source)
            # a copy that was cut is finished: what it wrote already has the same versions
            body = {
                "conflicts": "proceed",
                "source": {"index": source},
                "dest": {"index": target, "version_type": "external"},
            }
            answer = client.reindex(body=body, params={"request_timeout": COPY_SECONDS, "refresh": "true"})
        if answer["failures"]:
            raise SinkError(
                f"documents could not be copied: {answer['failures'][0]}",
                where=f"index {target}",
                todo=_CLEAR_TASK,
            )

    def purge(self, index: str, before: float, below: int) -> tuple[int, int]:
        """Remove documents of rows deleted before a time (unix seconds), of versions below `below`.

        Returns how many, and how many were left because somebody wrote them meanwhile. No row changes.
        """
        old = {"range": {DELETED_AT: {"lt": int(before * 1000)}}}
        query = {"bool": {"filter": [{"term": {DELETED: True}}, old, {"range": {VERSION: {"lt": below}}}]}}
        with self.session.asked("remove the documents of deleted rows", f"index {index}") as client:
            client.indices.refresh(index=index)
            answer = client.delete_by_query(
                index=index,
                body={"query": query},
                params={"conflicts": "proceed", "refresh": "true", "request_timeout": COPY_SECONDS},
            )
        if answer["failures"]:
            raise SinkError(
                f"documents could not be removed: {answer['failures'][0]}",
                where=f"index {index}",
                todo=_CLEAR_TASK,
            )
        return int(answer["deleted"]), int(answer["version_conflicts"])

    def clear(self, index: str) -> None:
        """Remove all documents and mappings of a stage's index."""
        with self.session.asked("clear the index", f"index {index}") as client:
            client.indices.delete(index=index, params={"ignore_unavailable": "true"})
        self._create_index(index, replicas=0, refresh="-1")

    def open_view(self, index: str, keep_alive: str) -> str:
        """The id of a point in time: what is written later is not in it."""
        with self.session.asked("open a point in time", f"index {index}") as client:
            client.indices.refresh(index=index)
            return str(client.create_pit(index=index, params={"keep_alive": keep_alive})["pit_id"])

    def close_views(self, views: Sequence[str]) -> None:
        """Close points in time, as far as they are open."""
        with suppress(CdcError), self.session.asked("close points in time") as client:
            client.delete_pit(body={"pit_id": list(views)})

    def _create_index(self, index: str, *, replicas: int, refresh: str | None = None) -> bool:
        settings = {
            "number_of_shards": self.endpoint.shards,
            "number_of_replicas": replicas,
            "mapping.total_fields.limit": _MORE_FIELDS,
        } | ({"refresh_interval": refresh} if refresh else {})
        return ensure_index(
            self.session, index, {"settings": {"index": settings}, "mappings": {"dynamic": False, "properties": OWN}}
        )

    def _open_to_readers(self, index: str) -> None:
        settings = {"index": {"refresh_interval": None, "number_of_replicas": self.endpoint.replicas}}
        with self.session.asked("open the index to readers", f"index {index}") as client:
            client.indices.put_settings(index=index, body=settings)
            client.indices.refresh(index=index)

    def _move_alias(self, namespace: str, table: str, index: str, old: str = "") -> None:
        alias = alias_of(namespace, table)
        remove = [{"remove": {"index": old, "alias": alias, "must_exist": True}}] if old else []
        add = {"add": {"index": index, "alias": alias, "filter": NOT_DELETED}}
        with self.session.asked("move the alias", f"alias {alias}") as client:
            client.indices.update_aliases(body={"actions": [*remove, add]})

    # records that could not be applied

    def unresolved_letters(self, pipeline: str, table: str | None = None) -> tuple[DeadLetter, ...]:
        """The dead letters that are not resolved yet, of one table or of all, oldest first."""
        return dead_letters.unresolved(self.session, pipeline, table)

    def waiting_letters(self, pipeline: str) -> int:
        """How many unresolved letters will be tried again."""
        return dead_letters.waiting(self.session, pipeline)

    def resolve_letters_before(self, pipeline: str, since: Mapping[str, Fence]) -> int:
        """Mark letters before `since` (table → fence) as resolved. Returns how many. Safe to repeat."""
        return dead_letters.resolve_before(self.session, pipeline, since)


def stage_of(record: Record) -> Stage:
    """The stage that a record describes."""
    return Stage(record.namespace, record.table, record.label, record.index, record.base_version)
