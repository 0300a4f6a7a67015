"""A sink without Spark, as the steps and applications use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from airflow_cdc.core.endpoint import Client

if TYPE_CHECKING:
    from airflow_cdc.core.dead_letter import DeadLetter
    from airflow_cdc.core.observation import (
        SinkTableFacts,
    )
    from airflow_cdc.core.stamp import ChunkLedger, Stamp
    from airflow_cdc.core.topics import Fence


class Sink(Client, Protocol):
    """The mirrored tables, whoever writes them. Raises SinkError, and UnknownStateError if it cannot be read."""

    @property
    def staging(self) -> Staging | None:
        """The tables as we write them; None where only somebody else does."""
        ...

    @property
    def letters(self) -> Letters | None:
        """Where records that could not be applied are kept; None where we apply none."""
        ...

    # ---- its tables, by namespace and name

    def exists(self, namespace: str, table: str) -> bool: ...

    def facts(self, namespace: str, table: str) -> SinkTableFacts:
        """Whether the table exists, its version, newest stamp and number of rows."""
        ...

    def row_count(self, namespace: str, table: str, version: int) -> int | None:
        """How many rows a version has; None if that is not cheap to find out."""
        ...


class Staging(Protocol):
    """The mirrored tables as we write them, without Spark (spark_apps/ports.py has the writers of rows). Raises as Sink does."""

    def spark_conf(self) -> Mapping[str, str]:
        """Spark's settings for it; they may hold credentials."""
        ...

    # ---- its tables, by namespace and name

    def ensure_table(self, namespace: str, table: str, columns: Sequence[tuple[str, str]]) -> bool:
        """Create the table with (column, Spark SQL type). Returns whether it was created; an existing one stays."""
        ...

    def stamp(self, namespace: str, table: str) -> Stamp | None:
        """The newest stamp."""
        ...

    def stamp_or_mirror(self, namespace: str, table: str, mirror: Stamp | None) -> Stamp | None:
        """The newest stamp. If all stamped versions expired: `mirror`, unless the table was rolled back past it."""
        ...

    def definition_text(self, namespace: str, table: str) -> str:
        """The recorded source definition that the rows were written with; "" if none was recorded."""
        ...

    def stamped_summary(self, namespace: str, table: str) -> Mapping[str, str]:
        """The whole summary of the commit with the newest stamp; {} if there is none."""
        ...

    # ---- its stages; a stage passed in is one that this sink returned

    def stage(self, namespace: str, table: str, label: str, from_stage: Any = None, properties: Any = None) -> Stage:
        """Create (or find again) the Stage `label` of a table. `from_stage`: one whose commits it takes over."""
        ...

    def stage_for_changes(self, namespace: str, table: str, label: str) -> Stage:
        """A Stage for a batch of events. A sink whose rows carry versions may give the table itself: there readers see
        a batch at once, and no late event can undo a newer one (INV 22).
        """
        ...

    def open_stage(self, namespace: str, table: str, label: str) -> Stage:
        """The Stage `label` of a table. Raises SinkError if there is none."""
        ...

    def stages(self, namespace: str | None = None, *tables: str) -> Sequence[Stage]:
        """All existing Stages of some tables, of a namespace, or of all, from a single listing."""
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
        """Whether the target is still what the stage began from, apart from compactions."""
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
        """Make the verified version the target's, by compare-and-set. Raises StaleHeadError, which names who moved it.

        Publishing again after success changes nothing. `over_compaction`: also over later compactions.
        """
        ...

    def drop_stage(self, stage: Any) -> None:
        """Remove the stage. Safe to repeat."""
        ...


class Letters(Protocol):
    """Records that could not be applied. Raises as Sink does."""

    def unresolved_letters(self, pipeline: str, table: str | None = None) -> Sequence[DeadLetter]:
        """Those that are not resolved yet, of one table or of all, oldest first."""
        ...

    def waiting_letters(self, pipeline: str) -> int:
        """How many unresolved letters will be tried again."""
        ...

    def resolve_letters_before(self, pipeline: str, since: Mapping[str, Fence]) -> int:
        """Mark letters before `since` (table → fence) as resolved. Returns how many. Safe to repeat."""
        ...


class Stage(Protocol):
    """The place for new rows of one table, which readers do not see until they are published."""

    @property
    def namespace(self) -> str:
        """The namespace of the target."""
        ...

    @property
    def table(self) -> str:
        """The target's name."""
        ...

    @property
    def identifier(self) -> tuple[str, str]:
        """The stage's own place in the sink."""
        ...

    @property
    def target(self) -> str:
        """The target as named in messages."""
        ...

    @property
    def label(self) -> str:
        """The attempt that writes it."""
        ...

    @property
    def base_head(self) -> int:
        """The target's version that the stage began from."""
        ...


class StagedCommit(Protocol):
    """One commit of a stage."""

    @property
    def ledger(self) -> ChunkLedger | None:
        """Which chunks of the source it holds; None if not recorded."""
        ...
