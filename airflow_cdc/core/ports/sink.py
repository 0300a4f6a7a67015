"""A sink without Spark, as the steps and applications use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from airflow_cdc.core.ports.base import Client

if TYPE_CHECKING:
    from airflow_cdc.core.dead_letter import DeadLetter
    from airflow_cdc.core.observation import (
        SinkTableFacts,
    )
    from airflow_cdc.core.stamp import ChunkLedger, Stamp
    from airflow_cdc.core.topics import Fence


class Sink(Client, Protocol):
    """Where the tables are mirrored, without Spark (spark_apps/ports.py has what writes rows). Raises SinkError, and
    UnknownStateError where it cannot be read.
    """

    def spark_conf(self) -> Mapping[str, str]:
        """Spark's settings for it; they may hold credentials."""
        ...

    # ---- its tables, by namespace and name

    def exists(self, namespace: str, table: str) -> bool: ...

    def facts(self, namespace: str, table: str) -> SinkTableFacts:
        """Whether the table exists, its version, newest stamp and number of rows."""
        ...

    def ensure_table(self, namespace: str, table: str, columns: Sequence[tuple[str, str]]) -> bool:
        """Create the table with (column, Spark SQL type). Returns whether it was created; one that exists stays."""
        ...

    def row_count(self, namespace: str, table: str, version: int) -> int | None:
        """How many rows a version has; None if that is not cheap to find out."""
        ...

    def stamp(self, namespace: str, table: str) -> Stamp | None:
        """The newest stamp."""
        ...

    def stamp_or_mirror(self, namespace: str, table: str, mirror: Stamp | None) -> Stamp | None:
        """The newest stamp; if every stamped version has expired, its copy `mirror`, unless the table was rolled back to before it."""
        ...

    def foreign_commit(self, namespace: str, table: str) -> int | None:
        """The newest version that changed rows, if it carries no stamp: every writer of ours ends with one."""
        ...

    def definition_text(self, namespace: str, table: str) -> str:
        """The source's definition by which the rows were written, as it was noted; "" if none was."""
        ...

    def stamped_summary(self, namespace: str, table: str) -> Mapping[str, str]:
        """All that the commit of the newest stamp says; {} if there is none."""
        ...

    # ---- its stages. One that is given back is the Stage that this sink made.

    def stage(self, namespace: str, table: str, label: str, from_stage: Any = None) -> Stage:
        """Make (or find again) the Stage `label` of a table. `from_stage`: a stage whose commits it takes over."""
        ...

    def open_stage(self, namespace: str, table: str, label: str) -> Stage:
        """The Stage `label` of a table. Raises SinkError if there is none."""
        ...

    def stages(self, namespace: str | None = None, *tables: str) -> Sequence[Stage]:
        """All Stages there are, of some tables, of a namespace or of all. Lists them once, however many tables these are."""
        ...

    def stage_head(self, stage: Any) -> int:
        """The newest version of the stage; its base if nothing was written."""
        ...

    def stage_chain(self, stage: Any) -> Sequence[StagedCommit]:
        """The stage's own commits, oldest first."""
        ...

    def touched_at(self, stage: Any) -> float:
        """When the stage was last written to, in unix seconds."""
        ...

    def publishable(self, stage: Any) -> bool:
        """Whether the target still is what the stage began from, up to compaction."""
        ...

    def publish(
        self,
        stage: Any,
        snapshot_id: int,
        expected_head: int,
        properties: Mapping[str, str] | None = None,
        *,
        over_compaction: bool = False,
    ) -> object:
        """Make the verified version the target's, by compare-and-set. Raises StaleHeadError, naming who moved it.

        Doing it again after it stood changes nothing. `over_compaction`: also if only compactions came on top.
        """
        ...

    def drop_stage(self, stage: Any) -> None:
        """Forget the stage. Safe to repeat."""
        ...

    # ---- records that could not be applied

    def unresolved_letters(self, pipeline: str, table: str | None = None) -> Sequence[DeadLetter]:
        """Those that nothing has put right yet, of one table or of all, oldest first."""
        ...

    def waiting_letters(self, pipeline: str) -> int:
        """How many of them are to be tried again."""
        ...

    def resolve_letters_before(self, pipeline: str, since: Mapping[str, Fence]) -> int:
        """Mark those that lie before `since`, by table, as put right. Returns how many. Safe to repeat."""
        ...


class Stage(Protocol):
    """Where the new rows of one table are written unseen, until they are published."""

    @property
    def namespace(self) -> str:
        """Of the table that it is a stage of."""
        ...

    @property
    def table(self) -> str:
        """The table's name."""
        ...

    @property
    def identifier(self) -> tuple[str, str]:
        """Where the sink keeps it."""
        ...

    @property
    def target(self) -> str:
        """The table that it is a stage of, for messages."""
        ...

    @property
    def label(self) -> str:
        """The try that writes it."""
        ...

    @property
    def base_head(self) -> int:
        """The target's version that it was made from."""
        ...


class StagedCommit(Protocol):
    """One commit of a stage."""

    @property
    def ledger(self) -> ChunkLedger | None:
        """Which chunks of the source it holds; None if it does not say."""
        ...
