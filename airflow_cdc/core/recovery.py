"""The open recovery: the state that the steps of one recovery share. It outlives XCom and the ledger (INV 1, 3).

Each transition is a method that sets and clears fields, so these methods are the state table of a recovery. Steps apply
them by compare-and-set (flows/recovery.py), because the hold task writes in parallel with the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_cdc.core.codec import plain, read, sparse
from airflow_cdc.core.errors import MALFORMED, UnknownStateError, VerificationError
from airflow_cdc.core.offset import OffsetEntry, RawOffset
from airflow_cdc.core.position import ReadPosition, Watermark
from airflow_cdc.core.report import DecisionReport, RecoveryReport, StepReport, TableReport, Verdict, overall
from airflow_cdc.core.topics import Fence
from airflow_cdc.core.xa import XaState

FORMAT = 2  # of an open recovery as JSON; the first format had no number


@dataclass(frozen=True, slots=True)
class Decision:
    """What a run decided to do: the diagnosed problem, the plan's strategy, and the tables with their definitions.

    Attributes:
        deletes: table → the minimum number of rows that would be removed from the sink; None: unknown.
        needs_approval: a person was asked and was shown `deletes`.
    """

    problem: str
    strategy: str
    tables: tuple[str, ...]
    pipeline_hash: str = ""
    deletes: Mapping[str, int | None] = field(default_factory=dict)
    needs_approval: bool = False

    @property
    def agreed(self) -> dict[str, int]:
        """Table → how many rows a person agreed to remove. Agreeing to an unknown number counts as zero (INV 36)."""
        return {table: rows for table, rows in self.deletes.items() if rows is not None} if self.needs_approval else {}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Decision:
        """Read the return value of the step `diagnose`. Raises UnknownStateError for anything else."""
        try:
            deletes = {table: None if n is None else int(n) for table, n in (value.get("deletes") or {}).items()}
            problem = str((value.get("diagnosis") or {}).get("code", ""))
            plan, tables = value["plan"], tuple(value["tables"])
            needs_approval = bool(plan.get("needs_approval"))
            return cls(
                problem, str(plan["strategy"]), tables, str(value.get("pipeline_hash", "")), deletes, needs_approval
            )
        except MALFORMED as error:
            raise UnknownStateError(
                f"the decision of this run cannot be read: {error!r}",
                todo="Clear the task diagnose and all after it: it decides again.",
            ) from error


@dataclass(frozen=True, slots=True)
class HoldAnswer:
    """The last state of the parallel hold task (HELD, REFUSED, UNSUPPORTED, OFF …), the reason, and since when."""

    state: str
    detail: str
    since: str


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A table whose last chunk is committed: its stage's label, row count and snapshot.

    `before`: how many rows the table had; None: not counted.
    """

    label: str
    rows: int
    snapshot_id: int
    before: int | None = None


@dataclass(frozen=True, slots=True)
class VerifiedTable:
    """A compared table. Only exactly `snapshot_id` may be published, and only after a MATCH (INV 4, 38).

    `stage` "" means the staged table's own stage. `xa`: the source's XA state before that; None if it has none.
    """

    report: TableReport
    stage: str = ""
    xa: XaState | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether source and sink were equal."""
        return self.report.verdict

    @property
    def snapshot_id(self) -> int:
        """The snapshot that was compared; 0 if none was."""
        return self.report.compared_at.snapshot_id or 0


@dataclass(frozen=True, slots=True)
class Sent:
    """The corrections of one table that were written into its topic (INV 23, 47).

    Attributes:
        attempt: of the recovery, in which the table was last compared.
        since: partition → its end before the first of them; written down before anything is sent.
        until: partition → its end behind the last of them; {} while that is not certain.
        rows, deletes: how many were sent in all tries, as far as that was written down.
    """

    attempt: int
    topic: str
    since: Mapping[int, int]
    until: Mapping[int, int] = field(default_factory=dict)
    rows: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class HistoryDoubts:
    """Why the connector's table definitions have to be rebuilt.

    Attributes:
        differences: table → where the connector's definitions differ from the source.
        since: epoch milliseconds of the newest snapshot in them before they are rebuilt; None: not looked at yet.
        doubted: definitions were recorded together with a replica's own (errant) transactions, or were wrong past W.
    """

    differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    since: int | None = None
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaVisit:
    """A detour to a replica: its connection, and transaction sets as their source prints them.

    Attributes:
        own: the replica's own transactions. read: those read there; None: not known yet. left_out: those read there but
            not in the offset that was written at the source.
        history_before: how many records the connector's schema history had when the detour began.
    """

    conn_id: str = ""
    own: str = ""
    read: str | None = None
    left_out: str = ""
    history_before: int | None = None


@dataclass(frozen=True, slots=True)
class OpenRecovery:
    """Attributes, in the order in which the steps write them.

    attempt: rises with each new watermark. offset_kept: the connector's position is good and only tables are wrong, so
    its offset stays (INV 39). agreed: table → rows that a person agreed to remove. watermark, fence, definitions: W, the
    topics' ends with the connector stopped, and table → fingerprint at W. backup: the FIRST one. written, written_at: the
    offset that the recovery wrote. settings_before: setting → value before the recovery (None: was absent). resuming: how
    far the connector has come. resumed_at: set when it streams past W. published: table → snapshot on main. corrections:
    table → what was written into its topic, for tables that others write from there.
    """

    run_id: str
    epoch: int = 0
    attempt: int = 0
    opened_at: str = ""
    problem: str = ""
    strategy: str = ""
    tables: tuple[str, ...] = ()
    offset_kept: bool = False
    agreed: Mapping[str, int] = field(default_factory=dict)
    pipeline_hash: str = ""
    taken_over_from: str = ""
    hold: HoldAnswer | None = None
    fence: Fence | None = None
    watermark: Watermark | None = None
    watermark_at: str = ""
    definitions: Mapping[str, str] = field(default_factory=dict)
    stages: Mapping[str, StagedTable] = field(default_factory=dict)
    backup: OffsetEntry | None = None
    written: RawOffset | None = None
    written_at: str = ""
    history: HistoryDoubts = HistoryDoubts()
    settings_before: Mapping[str, str | None] = field(default_factory=dict)
    resuming: str = ""
    resumed_at: str = ""
    verified: Mapping[str, VerifiedTable] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)
    replica: ReplicaVisit = ReplicaVisit()
    corrections: Mapping[str, Sent] = field(default_factory=dict)

    @property
    def uncorrected(self) -> list[str]:
        """The tables that were not compared under this W, or whose corrections may not all be in their topics."""
        return [
            table
            for table in self.tables
            if (one := self.corrections.get(table)) is None or one.attempt != self.attempt or not one.until
        ]

    @property
    def unpublished(self) -> list[str]:
        """The tables not on main yet: still to be read, compared and published."""
        return [table for table in self.tables if table not in self.published]

    @property
    def unsettled(self) -> list[str]:
        """The tables that are not on main, or are there without a proof, as those that the connector writes itself may be."""
        return [table for table in self.tables if table not in self.published or table in self.unproven]

    @property
    def unproven(self) -> dict[str, str]:
        """Table → why it is not proven to equal its source: the comparison's verdict."""
        verdicts = {
            name: self.verified[name].verdict if name in self.verified else "not verified" for name in self.tables
        }
        return {name: verdict for name, verdict in verdicts.items() if verdict is not Verdict.MATCH}

    # --- transitions ---------------------------------------------------------------------------------------------------

    def taken_over_by(self, run_id: str) -> OpenRecovery:
        """A copy owned by another run: epoch, W, fence and backups stay; the old run has lost the lease."""
        return replace(self, run_id=run_id, taken_over_from=self.run_id)

    def superseded(self, decision: Decision, epoch: int) -> OpenRecovery:
        """A recovery that re-reads tables, replacing one that only moved the position; only the backup is kept."""
        return OpenRecovery(
            run_id=self.run_id,
            epoch=epoch,
            opened_at=self.opened_at,
            problem=decision.problem,
            strategy=decision.strategy,
            tables=decision.tables,
            agreed=decision.agreed,
            pipeline_hash=self.pipeline_hash,
            taken_over_from=self.taken_over_from,
            backup=self.backup,
            history=HistoryDoubts(doubted=self.history.doubted),
        )

    def stopped(self) -> OpenRecovery:
        """The connector was stopped and no longer streams."""
        return replace(self, resumed_at="")

    def held(self, answer: HoldAnswer) -> OpenRecovery:
        """The hold task's new state."""
        return replace(self, hold=answer)

    def with_watermark(
        self, watermark: Watermark, fence: Fence, definitions: Mapping[str, str], at: str
    ) -> OpenRecovery:
        """A new W: anything read, compared or written under an older one is void (INV 3)."""
        return replace(
            self,
            attempt=self.attempt + 1,
            watermark=watermark,
            watermark_at=at,
            fence=fence,
            definitions=definitions,
            stages={},
            verified={},
            written_at="",
            resumed_at="",
        )

    def outdated(self) -> OpenRecovery:
        """Nothing that is read under this W can become equal: without its definitions the next try takes a new one.

        The stages and the offset stay until then: who looks at the recovery sees how far it came.
        """
        return replace(self, definitions={})

    def staged(self, stages: Mapping[str, StagedTable]) -> OpenRecovery:
        """These tables have been read completely."""
        return replace(self, stages={**self.stages, **stages})

    def backed_up(self, backup: OffsetEntry) -> OpenRecovery:
        """Keep the first backup; a later one never replaces it."""
        return self if self.backup is not None else replace(self, backup=backup)

    def wrote(self, value: RawOffset, at: str, differences: Mapping[str, tuple[str, ...]]) -> OpenRecovery:
        """The offset was written (or left as it is), and these definitions have to be rebuilt."""
        return replace(self, written=value, written_at=at, history=replace(self.history, differences=dict(differences)))

    def rebuilding_since(self, since: int) -> OpenRecovery:
        """The definitions are being rebuilt; those newer than `since` (epoch milliseconds) are new. The first call decides."""
        return self if self.history.since is not None else replace(self, history=replace(self.history, since=since))

    def resumes(self, text: str) -> OpenRecovery:
        """How far the connector has come while we wait for it."""
        return replace(self, resuming=text)

    def resumed(self, at: str) -> OpenRecovery:
        """The connector streams past W, and its definitions are correct."""
        return replace(self, resumed_at=at, resuming="", history=replace(self.history, differences={}, since=None))

    def settings_saved(self, before: Mapping[str, str | None]) -> OpenRecovery:
        """Settings are about to be changed; the first saved value of each setting is kept."""
        return replace(self, settings_before={**before, **self.settings_before})

    def settings_restored(self, names: Iterable[str]) -> OpenRecovery:
        """These settings have their values from before the recovery again."""
        gone = set(names)
        return replace(self, settings_before={k: v for k, v in self.settings_before.items() if k not in gone})

    def sends(self, table: str, topic: str, ends: Mapping[int, int]) -> OpenRecovery:
        """Corrections of the table are about to be written behind these ends; the first ones are kept."""
        first = self.corrections.get(table) or Sent(self.attempt, topic, dict(ends))
        return replace(self, corrections={**self.corrections, table: replace(first, attempt=self.attempt, until={})})

    def sent(self, table: str, until: Mapping[int, int], rows: int, deletes: int) -> OpenRecovery:
        """They are in the topic, which ends there."""
        before = self.corrections[table]
        now = replace(before, until=dict(until), rows=before.rows + rows, deletes=before.deletes + deletes)
        return replace(self, corrections={**self.corrections, table: now})

    def compared(self, tables: Mapping[str, VerifiedTable]) -> OpenRecovery:
        """The tables were compared."""
        return replace(self, verified={**self.verified, **tables})

    def published_as(self, snapshots: Mapping[str, int]) -> OpenRecovery:
        """These snapshots are on main."""
        return replace(self, published={**self.published, **snapshots})

    # --- a visit to a replica (INV 27) -----------------------------------------------------------------------------------

    def reads_at(self, conn_id: str) -> OpenRecovery:
        """Record the replica to read from; the first one is kept for the whole recovery."""
        return replace(self, replica=replace(self.replica, conn_id=conn_id))

    def set_out(self, own: str, history_before: int) -> OpenRecovery:
        """The connector goes to the replica. The first `history_before` is kept: later rounds add to the same doubt."""
        first = history_before if self.replica.history_before is None else self.replica.history_before
        return replace(self, replica=replace(self.replica, read=None, own=own, history_before=first))

    def read_there(self, read: str) -> OpenRecovery:
        """Record what was read, before the offset is written: afterwards the position is another server's."""
        return replace(self, replica=replace(self.replica, read=read))

    def returned(self, value: RawOffset, at: str, left_out: str, since: int | None) -> OpenRecovery:
        """The offset at the source was written; `since`: definitions newer than that are the rebuilt ones."""
        return replace(
            self,
            written=value,
            written_at=at,
            replica=replace(self.replica, left_out=left_out),
            history=replace(self.history, since=since),
        )

    def history_settled(self) -> OpenRecovery:
        """The connector's definitions were rebuilt."""
        return replace(self, history=replace(self.history, since=None))

    def sets_out_again(self) -> OpenRecovery:
        """The source has purged more in the meantime: go to the replica again."""
        return replace(self, written_at="")

    def doubts_history(self, doubted: bool) -> OpenRecovery:
        """Whether definitions were recorded together with errant transactions of the replica."""
        return replace(self, history=replace(self.history, doubted=doubted))

    # --- JSON ----------------------------------------------------------------------------------------------------------

    def report(
        self, pipeline: str, run_id: str, decision: DecisionReport, steps: Iterable[StepReport]
    ) -> RecoveryReport:
        """The report of a run in any state; of an empty recovery if the run opened none.

        A run that has not published every table it verified is at best INCONCLUSIVE.
        """
        tables = tuple(self.verified[name].report for name in sorted(self.verified))
        reached = {t.table for t in tables} & set(self.published)
        complete = bool(reached) and reached >= set(self.tables)
        verdict = overall(table.verdict for table in tables)
        if complete and verdict is Verdict.MATCH:  # W is before everything that was compared
            through = self.watermark.taken_at.isoformat() if self.watermark else ""
            tables = tuple(t if t.verified_through else replace(t, verified_through=through) for t in tables)
        return RecoveryReport(
            pipeline=pipeline,
            run_id=run_id,
            problem=decision.problem,
            evidence=decision.evidence,
            strategy=decision.strategy,
            data_loss=decision.data_loss,
            watermark=self.watermark.to_json() if self.watermark else None,
            epoch=self.epoch,
            offset_before=self.backup.value if self.backup else None,
            offset_after=self.written,
            tables=tables,
            steps=tuple(steps),
            verdict=verdict if complete or verdict is Verdict.MISMATCH else Verdict.INCONCLUSIVE,
            reason=decision.reason,
            note=decision.note,
            others=decision.others,
        )

    def to_json(self) -> dict[str, object]:
        """The object in the control document; what is as in a recovery that was just opened is left out."""
        return {"format": FORMAT, "epoch": self.epoch, "tables": list(self.tables), **sparse(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], read_position: ReadPosition) -> OpenRecovery:
        """The inverse of to_json(). Raises UnknownStateError, and PositionError for a watermark of another format."""
        try:
            if (form := value.get("format", 1)) not in (1, FORMAT):
                raise ValueError(f"its format is {form!r}, and this version reads formats up to {FORMAT}")
            raw = upgraded_from_json(value) if form == 1 else dict(value)
            watermark = raw.pop("watermark", None)
            recovery = read(cls, raw, more=True)
            return replace(recovery, watermark=watermark and Watermark.from_json(watermark, read_position))
        except (*MALFORMED, VerificationError) as error:
            raise UnknownStateError(
                f"the open recovery cannot be read: {error!r}",
                todo='Give it up: airflow cdc abandon PIPELINE --reason "…".',
            ) from error


# --- the first format, of 0.1.0 before it was released: some fields had other names, and parts were not parts -----------------

_RENAMED = {
    "try": "attempt",
    "offset_after": "written",
    "offset_written_at": "written_at",
    "config_changed": "settings_before",
}
_PARTS = {
    "history": {"history_differences": "differences", "history_since": "since", "history_doubted": "doubted"},
    "replica": {n: n for n in ("own", "read", "left_out", "history_before")} | {"replica": "conn_id"},
}


def upgraded_from_json(old: Mapping[str, Any]) -> dict[str, Any]:
    """An open recovery of the first format in the form of the second. Raises one of MALFORMED."""
    fields = {name: value for name, value in old.items() if value is not None}
    parts = {
        part: {new: fields.pop(own) for own, new in names.items() if own in fields} for part, names in _PARTS.items()
    }
    key, before = fields.pop("offset_partition", None), fields.pop("offset_before", None)
    recovery = {_RENAMED.get(name, name): value for name, value in fields.items()} | parts
    corrections = {
        table: {_RENAMED.get(n, n): v for n, v in one.items()} for table, one in fields.get("corrections", {}).items()
    }
    comparisons = {
        table: {
            "report": plain(TableReport.verified_from_json(table, one)),
            "stage": one.get("stage") or "",
            "xa": one.get("xa"),
        }
        for table, one in fields.get("verified", {}).items()
    }
    backup = {"backup": {"key": key, "value": before}} if key else {}
    return {**recovery, **backup, "corrections": corrections, "verified": comparisons}
