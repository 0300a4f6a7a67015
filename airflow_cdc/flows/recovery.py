"""The open recovery as the control table keeps it: one JSON document, the only memory that steps share.

XCom is cleared with its task and a ledger belongs to a run; a recovery outlives both, so what it may
resume from stands here (INV 1, 3). Fields, in the order in which the steps write them:

| field | written by | content |
|---|---|---|
| run_id, epoch, try, opened_at, problem, strategy, tables | open | who recovers what; `try` rises when a new W is taken |
| offset_kept | open | true: the connector's position is good, and only tables are wrong: its offset stays (INV 39) |
| agreed | open | table → how many rows a person agreed to remove from the sink |
| pipeline_hash | open | the pipeline's definition, frozen |
| hold | hold | {state, detail, since} of the lock that keeps W |
| fence | watermark | topic → {id, partitions: {"0": next offset}} with the connector stopped |
| watermark, definitions, watermark_at | watermark | W; table → fingerprint of its definition at W |
| stages | recover (Spark) | table → {label, rows, snapshot_id} once its last chunk is committed |
| offset_partition, offset_before, offset_after, offset_written_at | offset | before = the FIRST backup |
| history_differences | offset | table → what the connector's schema history says differently |
| history_since | connector, detour | epoch ms of the newest snapshot in that history before it is rebuilt |
| history_doubted | detour | true: definitions were noted beside transactions of a replica's own |
| replica, own, read, left_out, history_before | detour | the replica's connection; sets of GTIDs: its own, what was read there, what stayed out of the offset; the history's size |
| config_changed | connector | setting → value before the recovery (null: was absent) |
| resuming | connector | one line: how far the connector has come, while it is waited for |
| resumed_at | connector | set when the connector streams past W |
| verified | verify (Spark) | table → {stage, snapshot_id, verdict, …}: exactly what may be published (INV 4, 38) |
| published | publish | table → snapshot id on main |
"""

from __future__ import annotations

from typing import Any

from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.position import Watermark
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.kinds import read_position


class NoRecoveryError(CdcError):
    """A step was asked to act for a recovery that is not open, or belongs to another run."""


def recovery(run: Run) -> Facts:
    """The open recovery of this run. Raises NoRecoveryError when there is none or another run has it."""
    found = run.clients.control.state()["recovery"]
    if found is None or found.get("run_id") != run.run_id:
        holder = "none is open" if found is None else f"the open one belongs to run {found.get('run_id')}"
        raise NoRecoveryError(
            f"this run has no open recovery: {holder}", where=run.where, todo="Trigger cdc_recovery again."
        )
    return dict(found)


def unpublished(document: Facts) -> list[str]:
    """The tables of the recovery that are not on main yet: what is left to read, to compare and to publish."""
    published = document.get("published") or {}
    return [table for table in document["tables"] if table not in published]


def watermark(document: Facts, run: Run) -> Watermark:
    """W of the open recovery. Raises NoRecoveryError when it has not been taken yet."""
    if not document.get("watermark"):
        raise NoRecoveryError(
            "the recovery has no watermark yet", where=run.where, todo="Clear the task fence_and_watermark."
        )
    return Watermark.from_json(document["watermark"], read_position)


def patch(run: Run, **fields: Any) -> Facts:
    """Write fields of the open recovery by compare-and-set; returns the recovery as it stands then."""
    return dict(run.clients.control.patch_recovery(run.run_id, **fields))
