"""What an application works with, and the tables it works on."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from airflow_cdc.core.epochs import Epochs
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.ports import Stage, Staging
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicState
from airflow_cdc.core.xa import XaState
from airflow_cdc.decisions.compare.part import WHOLE, Part
from airflow_cdc.fields import Fields
from airflow_cdc.flows.appliable import Asked, asked_of, refusals
from airflow_cdc.flows.carried import Changed
from airflow_cdc.flows.recovery import open_error
from airflow_cdc.flows.run import Run
from airflow_cdc.flows.stages import staging_of
from airflow_cdc.spark_apps.apply.context import ApplyContext, ApplyTarget
from airflow_cdc.spark_apps.compare.behind import Main
from airflow_cdc.spark_apps.driver.systems import Systems, ddl_reader, open_systems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_cdc.repair")

LABEL: Final = "repair_"
# A difference is reported only if a second comparison, of a newer snapshot, finds one too.
PASSES: Final = 2
# A stage without a write for this long belongs to a run that was killed.
ORPHAN_SECONDS = 86_400.0


class Patience(NamedTuple):
    """How often a table that differs is compared before that is reported, and how long the connector may stand still meanwhile."""

    passes: int
    seconds: float

    @classmethod
    def of(cls, run: Run, settings: Mapping[str, object] | None) -> Self:
        """As the options `passes` and `reach_seconds` say; by default two passes, and the policy's `standstill`."""
        options = Fields(settings or {})
        return cls(options.number("passes", PASSES), options.real("reach_seconds", run.pipeline.policy.standstill))


@dataclass(frozen=True, slots=True)
class Work:
    """What an application works with, and the tables it works on.

    Attributes:
        epochs: of the control table; a stage whose stamp is not of its table's epoch is refused (INV 1, 2).
        definitions: table → the source's current definition.
        stages: table → the stage that its changes go to.
        parts: table → the part of it that is compared; a table that is absent is compared whole.
        watermark: every connection to the source proves that it reaches the watermark's server (INV 9); None where nothing
            is compared.
        asked: what tables are asked about before their events are applied.
        xa: the source's XA transactions before anything is compared.
        read_at: the rows of every stage were read at this position; None if events brought some of them.
    """

    run: Run
    spark: SparkSession
    systems: Systems
    epochs: Epochs
    patience: Patience
    definitions: Mapping[str, Table] = field(default_factory=dict)
    stages: Mapping[str, Stage] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    watermark: Watermark | None = None
    asked: Asked | None = None
    xa: XaState | None = None
    read_at: Watermark | None = None

    def of(self, tables: Collection[str]) -> Work:
        """The work on these tables only."""
        definitions = {name: table for name, table in self.definitions.items() if name in tables}
        return replace(self, definitions=definitions)

    def on(self, stage: Stage, table: Table, part: Part = WHOLE) -> Work:
        """The comparison of one stage with the server we are connected to now."""
        here, name = self.run.clients.source.position(), table.full_name
        return replace(self, definitions={name: table}, stages={name: stage}, parts={name: part}, watermark=here)

    @property
    def server(self) -> Watermark:
        """A position on the server that is compared with."""
        if self.watermark is None:
            raise RuntimeError("a comparison has no watermark, so nothing says which server it is with")
        return self.watermark

    @property
    def compared(self) -> Collection[str]:
        """The tables, if they are compared."""
        return () if self.watermark is None else self.definitions.keys()

    @property
    def xa_open(self) -> bool:
        """Whether an XA transaction was open before anything was compared, or may have been."""
        return self.xa is not None and bool(self.xa.open)

    @property
    def staging(self) -> Staging:
        """The sink's stages."""
        return staging_of(self.run)

    def place(self, table: Table) -> tuple[str, str]:
        """The sink table: namespace and name."""
        return self.run.pipeline.sink.namespace, self.run.pipeline.sink_table(table.full_name)

    def main(self, table: Table, stage: Stage) -> Main:
        """Main, of which `stage` is a copy that has not caught up yet."""
        mirror = self.run.clients.control.mirrored_stamp(table.full_name)
        stamp = self.staging.stamp_or_mirror(*stage.identifier, mirror)
        refusals_of = tuple(refusals(self.asked, table)) if self.asked else ()
        return Main(self.run, self.spark, self.systems, table, stage, stamp, refusals_of)

    def context(
        self, topics: Mapping[str, TopicState], *, write_behind: bool = True, carried: Changed | None = None
    ) -> ApplyContext:
        """What all tables of a batch share, whose topics are as in `topics`; see ApplyContext."""
        systems = self.systems
        return ApplyContext(
            spark=self.spark,
            writer=systems.writer,
            letters=systems.letters,
            epochs=self.epochs,
            log=systems.reader,
            events=systems.events,
            topics=topics,
            read=systems.topics.read,
            read_ddl=ddl_reader(self.run, systems.events),
            few=systems.few,
            write_behind=write_behind,
            compared=frozenset(name for name in self.compared if self.parts.get(name, WHOLE).whole),
            carried=carried,
        )

    def targets(self) -> list[ApplyTarget[Stage]]:
        """The tables, and the stages that their changes go to."""
        defaults = self.systems.reader.defaults(list(self.definitions.values()))
        table_ids = self.run.clients.source.table_ids(list(self.definitions))
        return [
            ApplyTarget(table, self.stages[name], defaults=defaults[name], table_id=table_ids.get(name))
            for name, table in self.definitions.items()
        ]


def open_work(run: Run, spark: SparkSession, settings: Mapping[str, object] | None = None) -> Work:
    """The work on the pipeline in its current state. Raises RecoveryOpenError while a recovery is open."""
    facts = run.clients.control.facts()
    drop_orphans(run)
    if facts.recovery is not None:
        raise open_error(run, facts.recovery.run_id)
    xa, asked = run.clients.source.xa(), asked_of(run, run.tables)
    return Work(run, spark, open_systems(run), facts.required, Patience.of(run, settings), asked=asked, xa=xa)


def drop_orphans(run: Run) -> None:
    """Delete stages of repairs and checks that were killed long ago; none of them will ever be published."""
    lake, ours = staging_of(run), {run.pipeline.sink_table(table) for table in run.pipeline.source.tables}
    try:
        for stage in lake.stages(run.pipeline.sink.namespace):
            mine = stage.label.startswith(LABEL) and stage.table in ours
            if mine and time.time() - lake.touched_at(stage) > ORPHAN_SECONDS:
                lake.drop_stage(stage)
    except CdcError as error:  # another run may drop one of its own meanwhile; the rest is deleted next time
        log.info("not all stages of killed repairs could be dropped: %s", error)
