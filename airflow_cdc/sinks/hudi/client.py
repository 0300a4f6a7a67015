"""The sink: Hudi tables in a folder, read here without Spark: by their timelines, and by the sizes of their files.

Only Spark writes rows (spark_apps/adapters/hudi.py), and the table has one writer: ours, behind the pipeline's lease (ADR 0017).
A table that the connector writes is ours only while the connector is stopped (ADR 0021).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from airflow_cdc.core.endpoint import Unlimited
from airflow_cdc.core.errors import CdcError, SinkError, StaleHeadError, UnknownStateError
from airflow_cdc.core.kind import Lazy
from airflow_cdc.core.observation import OtherCommit, SinkTableFacts
from airflow_cdc.core.stamp import EPOCH
from airflow_cdc.decisions.apply.schema_change import DEFINITION
from airflow_cdc.sinks.hudi import notes, timeline
from airflow_cdc.sinks.hudi.endpoint import HudiEndpoint
from airflow_cdc.sinks.hudi.letters import Letters
from airflow_cdc.sinks.hudi.notes import Notes
from airflow_cdc.sinks.hudi.shared import SharedTable
from airflow_cdc.sinks.hudi.timeline import Commit

if TYPE_CHECKING:
    from airflow_cdc.core.dead_letter import DeadLetter
    from airflow_cdc.core.stamp import Stamp
    from airflow_cdc.core.topics import Fence

STAGES: Final = "_cdc/stages"
TABLES: Final = "_cdc/tables"
NOTES: Final = ".cdc_notes.json"
# what a published commit says of the stage that it was made from
PUBLISHED: Final = "cdc.published"
_REPLACE: Final[Lazy[Callable[..., None]]] = Lazy("airflow_cdc.spark_apps.adapters.hudi_publish:replace_rows")
_EXACT: Final = "CORRECTED"
_REBASE: Final = ("parquet.datetimeRebase", "parquet.int96Rebase", "avro.datetimeRebase")


@dataclass(frozen=True, slots=True)
class Stage:
    """One writer's place for rows of one table: a Hudi table at a path of its own, or the table itself for changes.

    Attributes:
        base_head: the table's version that it began from; 0: the table had no commit.
        in_place: it is the table itself. A batch is one commit there, which carries its stamp.
    """

    namespace: str
    table: str
    label: str
    base_head: int
    in_place: bool = False

    @property
    def target(self) -> str:
        """The table as named in messages."""
        return f"{self.namespace}.{self.table}"

    @property
    def identifier(self) -> tuple[str, str]:
        """The stage's own folder, as the folder above it and its name."""
        if self.in_place:
            return self.namespace, self.table
        return f"{STAGES}/{self.namespace}/{self.table}", self.label


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result of a publish. `already`: the table held the stage's rows before (a rerun after a lost answer)."""

    target: str
    version: int
    already: bool


class HudiSink(Unlimited):
    """The mirrored tables in one folder."""

    def __init__(self, endpoint: HudiEndpoint) -> None:
        self.endpoint = endpoint
        self.letter_files = Letters(endpoint)

    def __repr__(self) -> str:
        return f"HudiSink({self.endpoint.path!r})"

    @property
    def where(self) -> str:
        """How messages name the folder."""
        return self.endpoint.where

    @property
    def staging(self) -> Self:
        """See core.ports.Sink."""
        return self

    @property
    def letters(self) -> Self:
        """See core.ports.Sink."""
        return self

    def reach(self) -> None:
        """Look at the folder. Raises UnknownStateError if it is not there, ConfigError if it is no absolute path."""
        if not self.endpoint.root.is_dir():
            raise UnknownStateError(
                "the folder does not exist here", where=self.where, todo="Create it, or mount it on this machine."
            )

    def close(self) -> None:
        """Nothing is open."""

    def spark_conf(self) -> Mapping[str, str]:
        """What Hudi asks of a session, and what it takes to write every value as it is."""
        modes = {f"spark.sql.{part}ModeIn{way}": _EXACT for part in _REBASE for way in ("Read", "Write")}
        return {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            # with the old one an array cannot hold NULL
            "spark.hadoop.parquet.avro.write-old-list-structure": "false",
            **modes,
        }

    # tables

    def folder(self, identifier: tuple[str, str]) -> Path:
        """The folder of a table or a stage."""
        return self.endpoint.root / identifier[0] / identifier[1]

    def notes_file(self, identifier: tuple[str, str]) -> Path:
        """What is noted about a table or a stage; a stage's are in its folder, so that they go with it."""
        if identifier[0].startswith(STAGES):
            return self.folder(identifier) / NOTES
        return self.endpoint.root / TABLES / identifier[0] / f"{identifier[1]}.json"

    def noted(self, identifier: tuple[str, str]) -> Notes:
        """The notes about a table or a stage. Raises SinkError if there is none."""
        known = notes.read(self.notes_file(identifier))
        if known is None:
            raise SinkError(
                "there is no such table",
                where=f"folder {self.folder(identifier)}",
                todo="Create it, or run a recovery.",
            )
        return known

    def note(self, identifier: tuple[str, str], *, columns: tuple[tuple[str, str], ...], definition: str) -> None:
        """Change notes."""
        now = replace(self.noted(identifier), columns=columns, definition=definition)
        notes.write(self.notes_file(identifier), now)

    def commits(self, identifier: tuple[str, str]) -> tuple[Commit, ...]:
        """The commits of a table or a stage, oldest first."""
        return timeline.commits(self.folder(identifier))

    def lineage(self, identifier: tuple[str, str]) -> tuple[Commit, ...]:
        """The commits that made the rows of a table or a stage: of a stage without any, those that it began from."""
        own = self.commits(identifier)
        if own or not identifier[0].startswith(STAGES):
            return own
        known = self.noted(identifier)
        base = self.commits((known.namespace, known.table))
        return tuple(commit for commit in base if commit.version <= known.base_head)

    def exists(self, namespace: str, table: str) -> bool:
        """Whether the table was made here, or by the connector. The folder of one of ours appears with its first publish."""
        if self.endpoint.shared:
            return self.shared_table((namespace, table)) is not None
        return notes.read(self.notes_file((namespace, table))) is not None

    def shared_table(self, identifier: tuple[str, str]) -> SharedTable | None:
        """A table that the connector made, by its own properties; None if there is none."""
        return SharedTable.read(self.folder(identifier))

    def ensure_table(self, namespace: str, table: str, columns: Sequence[tuple[str, str]]) -> bool:
        """Note the table; its first publish makes its folder. Returns whether it was new.

        A table that the connector makes is not made here. Raises SinkError for a folder that somebody else's table is in.
        """
        made = Notes(namespace, table, columns=tuple(columns), since=time.time())
        if self.endpoint.shared:
            notes.write(self.notes_file((namespace, table)), made)
            return False
        if self.exists(namespace, table):
            return False
        if (folder := self.folder((namespace, table))).exists():
            raise SinkError(
                "the folder is there, and was not made by this package",
                where=f"folder {folder}",
                todo="Move it away, or choose another namespace.",
            )
        notes.write(self.notes_file((namespace, table)), made)
        return True

    def facts(self, namespace: str, table: str) -> SinkTableFacts:
        """Whether the table exists, its version, newest stamp and number of rows."""
        if not self.exists(namespace, table):
            return SinkTableFacts(exists=False)
        known = self.commits((namespace, table))
        carrier = timeline.stamped(known)
        return SinkTableFacts(
            exists=True,
            head=known[-1].version if known else 0,
            stamp=carrier.stamp if carrier else None,
            rows=self.row_count(namespace, table, known[-1].version) if known else 0,
            stamped_at=carrier.at if carrier else None,
            other=OtherCommit(known[-1].version, known[-1].at) if known and EPOCH not in known[-1].summary else None,
        )

    def row_count(self, namespace: str, table: str, version: int) -> int | None:
        """How many rows a version has; None if its commit is archived."""
        return self.rows_of((namespace, table), version)

    def rows_of(self, identifier: tuple[str, str], version: int) -> int | None:
        """How many rows a version of a table or a stage has: by its files, or as its writer counted them."""
        if not version:
            return 0
        rows = timeline.rows_at(self.folder(identifier), version)
        return notes.read_rows(self._rows_file(identifier), version) if rows is None else rows

    def note_rows(self, identifier: tuple[str, str], version: int, rows: int) -> None:
        """Keep what the writer counted: only Spark reads rows in log files."""
        notes.write_json(self._rows_file(identifier), {"version": version, "rows": rows})

    def _rows_file(self, identifier: tuple[str, str]) -> Path:
        return self.notes_file(identifier).with_suffix(".rows.json")

    def stamp(self, namespace: str, table: str) -> Stamp | None:
        """The newest stamp."""
        carrier = timeline.stamped(self.lineage((namespace, table)))
        return carrier.stamp if carrier else None

    def stamp_or_mirror(self, namespace: str, table: str, mirror: Stamp | None) -> Stamp | None:
        """The newest stamp. The mirror is never needed: each commit of ours carries one, so the newest is not archived."""
        del mirror
        return self.stamp(namespace, table)

    def definition_text(self, namespace: str, table: str) -> str:
        """The recorded source definition that the rows were written with; "" if none was recorded."""
        return self.stamped_summary(namespace, table).get(DEFINITION, "")

    def stamped_summary(self, namespace: str, table: str) -> Mapping[str, str]:
        """The whole summary of the commit with the newest stamp; {} if there is none."""
        carrier = timeline.stamped(self.lineage((namespace, table)))
        return carrier.summary if carrier else {}

    # stages

    def stage(
        self, namespace: str, table: str, label: str, from_stage: Stage | None = None, properties: object = None
    ) -> Stage:
        """Create (or find again) the stage `label`: a folder. `from_stage`: a stage whose files it takes over."""
        del properties  # its writer notes them
        base = from_stage.base_head if from_stage else timeline.head(self.folder((namespace, table)))
        made = Stage(namespace, table, label, base)
        if notes.read(self.notes_file(made.identifier)) is None:
            # the notes come last: a folder without them was not copied to the end, and is made anew
            shutil.rmtree(self.folder(made.identifier), ignore_errors=True)
            if from_stage is not None:
                copy_table(self.folder(from_stage.identifier), self.folder(made.identifier))
            known = self.noted(from_stage.identifier if from_stage else (namespace, table))
            definition = known.definition or self.definition_text(namespace, table)
            noted = replace(known, label=label, base_head=base, since=time.time(), definition=definition)
            notes.write(self.notes_file(made.identifier), noted)
        return self.open_stage(namespace, table, label)

    def stage_for_changes(self, namespace: str, table: str, label: str) -> Stage:
        """The table itself: a batch is one commit that carries its stamp, and readers see it at once."""
        return Stage(namespace, table, label, timeline.head(self.folder((namespace, table))), in_place=True)

    def open_stage(self, namespace: str, table: str, label: str) -> Stage:
        """The stage `label` of a table. Raises SinkError if there is none."""
        known = self.noted(Stage(namespace, table, label, 0).identifier)
        return Stage(namespace, table, label, known.base_head)

    def stages(self, namespace: str | None = None, *tables: str) -> tuple[Stage, ...]:
        """All existing stages of some tables, of a namespace, or of all."""
        return tuple(stage for stage in self._all_stages(namespace) if not tables or stage.table in tables)

    def _all_stages(self, namespace: str | None) -> Iterator[Stage]:
        for path in sorted((self.endpoint.root / STAGES).glob(f"{namespace or '*'}/*/*/{NOTES}")):
            if (known := notes.read(path)) is not None:  # dropped after it was listed
                yield Stage(known.namespace, known.table, known.label, known.base_head)

    def stage_head(self, stage: Stage) -> int:
        """The newest version of the stage; its base if nothing was written."""
        return timeline.head(self.folder(stage.identifier)) or stage.base_head

    def stage_chain(self, stage: Stage) -> tuple[Commit, ...]:
        """The stage's own commits, oldest first."""
        return () if stage.in_place else self.commits(stage.identifier)

    def touched_at(self, stage: Stage) -> float:
        """When the stage was last written to, in unix seconds."""
        known = self.commits(stage.identifier)
        return known[-1].at if known else self.noted(stage.identifier).since

    def publishable(self, stage: Stage) -> bool:
        """Whether the table is still what the stage began from."""
        try:
            return timeline.head(self.folder((stage.namespace, stage.table))) == stage.base_head
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
        """Replace the table's rows by the stage's in one commit (ADR 0017). Needs a Spark session in this process.

        Raises StaleHeadError if the table is not at `expected_head`, and if another writer committed meanwhile, which was
        not prevented then. Publishing again after success changes nothing.
        """
        del over_compaction  # a table of ours is not compacted
        if stage.in_place:
            return PublishResult(stage.target, self.stage_head(stage), already=True)
        place, mark = (stage.namespace, stage.table), f"{stage.label} {snapshot_id}"
        since = after(self.commits(place), expected_head)
        if any(commit.summary.get(PUBLISHED) == mark for commit in since):
            return PublishResult(stage.target, snapshot_id, already=True)
        self.check_head(place, expected_head)
        if (now := self.stage_head(stage)) != snapshot_id:
            raise StaleHeadError(
                f"the stage is at version {now}, not at the verified {snapshot_id}",
                where=f"stage {stage.label} of {stage.target}",
                todo="Clear the task verify and all after it.",
            )
        carrier = timeline.stamped(self.lineage(stage.identifier))
        summary = {**(carrier.summary if carrier else {}), **(properties or {}), PUBLISHED: mark}
        _REPLACE.load()(self, stage, summary)
        self.check_alone(place, expected_head, summary)
        return PublishResult(stage.target, snapshot_id, already=False)

    def check_head(self, identifier: tuple[str, str], expected: int) -> None:
        """Raise StaleHeadError, which names what came since, unless the table is at that version."""
        known = self.commits(identifier)
        if (known[-1].version if known else 0) != expected:
            raise _moved(identifier, expected, after(known, expected) or known[-1:])

    def check_alone(self, identifier: tuple[str, str], base: int, summary: Mapping[str, str]) -> None:
        """Raise StaleHeadError if the timeline has a commit since `base` besides the one of this summary."""
        others = [commit for commit in after(self.commits(identifier), base) if commit.summary != summary]
        if others:
            raise _moved(identifier, base, others)

    def drop_stage(self, stage: Stage) -> None:
        """Remove the stage's folder. Safe to repeat."""
        if not stage.in_place:
            self.notes_file(stage.identifier).unlink(missing_ok=True)
            shutil.rmtree(self.folder(stage.identifier), ignore_errors=True)

    # records that could not be applied

    def unresolved_letters(self, pipeline: str, table: str | None = None) -> tuple[DeadLetter, ...]:
        """The dead letters that are not resolved yet, of one table or of all, oldest first."""
        return self.letter_files.unresolved(pipeline, table)

    def waiting_letters(self, pipeline: str) -> int:
        """How many unresolved letters will be tried again."""
        return self.letter_files.waiting(pipeline)

    def resolve_letters_before(self, pipeline: str, since: Mapping[str, Fence]) -> int:
        """Mark letters before `since` (table → fence) as resolved. Returns how many. Safe to repeat."""
        return self.letter_files.resolve_before(pipeline, since)


def after(known: Sequence[Commit], version: int) -> tuple[Commit, ...]:
    """The commits that completed after the one of this version; all, if it is none of them."""
    at = next((number for number, commit in enumerate(known) if commit.version == version), -1)
    return tuple(known[at + 1 :])


def copy_table(source: Path, target: Path) -> None:
    """Copy a table: the timeline first, so that every file of a commit that it names is copied after."""
    meta = source / ".hoodie"
    if not meta.exists():
        target.mkdir(parents=True, exist_ok=True)
        return
    shutil.copytree(meta, target / ".hoodie", dirs_exist_ok=True)
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=lambda *_: {".hoodie", NOTES})


def _moved(identifier: tuple[str, str], expected: int, others: Sequence[Commit]) -> StaleHeadError:
    named = ", ".join(map(str, others)) or "no commit at all"
    return StaleHeadError(
        f"the table is not what {expected or 'an empty table'} left: {named} of another writer",
        where=f"table {'.'.join(identifier)}",
        todo="A Hudi table of ours has one writer. Stop the other one, then recover the table.",
    )
