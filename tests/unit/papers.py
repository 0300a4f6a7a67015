"""One of each paper that is stored for later readers: with every field filled, and with what it cannot do without.

As JSON they are in written.json, by the same names, as version 0.1.0 wrote them.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_cdc.alerting.outage import Outage, OutageLog
from airflow_cdc.control.ledger import StepEntry
from airflow_cdc.core.forecast import Margin, PurgeForecast
from airflow_cdc.core.lease import Lease
from airflow_cdc.core.observation import Ahead, RefusedTable
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.core.recovery import (
    HistoryDoubts,
    HoldAnswer,
    OpenRecovery,
    ReplicaVisit,
    Sent,
    StagedTable,
    VerifiedTable,
)
from airflow_cdc.core.report import (
    CaughtUp,
    ComparedAt,
    NotCompared,
    RecoveryReport,
    StepPart,
    StepReport,
    TableReport,
    Verdict,
)
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.core.xa import XaState
from airflow_cdc.decisions.apply.applied import LastChange
from airflow_cdc.decisions.compare.expectations import Counted, Expected, StageFacts
from airflow_cdc.decisions.compare.leaves import HashLeaves, IntegerLeaves, KeyHash
from airflow_cdc.decisions.compare.nightly import Checked
from airflow_cdc.decisions.compare.row_diff import RowPair
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis, Other
from airflow_cdc.decisions.diagnosis.strategy import Plan
from airflow_cdc.reports.stored import Change, RunSummary, Sample, Silence, StoredObservation
from tests.unit.builders import GTID_OFFSET, WATERMARK

AT: Final = "2026-11-21T09:00:00+00:00"
LATER: Final = "2026-11-21T09:00:04.500+00:00"
FENCE: Final = {"shop.shop.orders": TopicOffsets("id", {0: 7, 12: 0})}
XA: Final = XaState("u", 1.5, 3, 1, ("x'01'",))
TABLE: Final = TableReport(
    table="shop.orders",
    source_rows=200_000,
    sink_rows=199_998,
    missing=0,
    ghosts=0,
    different=0,
    leaves=46,
    leaves_rechecked=2,
    columns_not_compared=(NotCompared("total", "generated"),),
    compared_at=ComparedAt(2**62, "mysql-bin.000009:500"),
    verdict=Verdict.MATCH,
    samples=("the topic is short",),
    leaf_map="=~=",
    part="leaf 3",
    verified_through=AT,
    caught_up=CaughtUp(200_000, 2, AT),
)
BARE_TABLE: Final = TableReport("shop.t", 0, 0, 0, 0, 0, 0, 0, (), ComparedAt(None, ""), Verdict.INCONCLUSIVE)
MISSING: Final = TableReport("shop.m", 2, 1, 1, 0, 0, 1, 0, (), ComparedAt(7, "p"), Verdict.MISMATCH)
STEP: Final = StepReport("snapshot", 12.346, "done", AT, (StepPart("read", -0.5, 12.0),))
DIAGNOSIS: Final = Diagnosis(
    "GTID_PURGED",
    "Purged.",
    {"gtids missing": "u:1-3"},
    ("full_snapshot",),
    "problems.md#x",
    ("a remark",),
    (Other("SINK_DIFFERS", "Differs.", {"shop.t": "by 3"}, "problems.md#y"),),
)

RECOVERY: Final = OpenRecovery(
    run_id="run:1",
    epoch=3,
    attempt=2,
    opened_at=AT,
    problem="GTID_PURGED",
    strategy="full_snapshot",
    tables=("shop.orders", "shop.customers"),
    offset_kept=True,
    agreed={"shop.orders": 4},
    pipeline_hash="h",
    taken_over_from="run:0",
    hold=HoldAnswer("HELD", "why", AT),
    fence=FENCE,
    watermark=WATERMARK,
    watermark_at=AT,
    definitions={"shop.orders": "f"},
    stages={"shop.orders": StagedTable("recov_3_1", 3, 6, 5)},
    backup=OffsetEntry({"server": "shop"}, GTID_OFFSET),
    written={**GTID_OFFSET, "row": None},
    written_at=AT,
    history=HistoryDoubts({"shop.orders": ("qty",)}, 0, doubted=True),
    settings_before={"heartbeat.interval.ms": None, "snapshot.mode": "initial"},
    resuming="80 % there",
    resumed_at=AT,
    verified={
        "shop.orders": VerifiedTable(TABLE, "recov_3_1", XA),
        "shop.t": VerifiedTable(BARE_TABLE),
    },
    published={"shop.customers": 9},
    corrections={"shop.orders": Sent(2, "shop.shop.orders", {0: 5, 3: 1}, {0: 8, 3: 1}, 4, 1)},
    replica=ReplicaVisit("shop_replica", "u:1", "u:1-9", "u:1", 0),
)

PAPERS: Final[dict[str, Any]] = {
    "lease": Lease("run:1", AT, "cdc_recovery", 120.0, "a1"),
    "lease, bare": Lease("airflow cdc", AT),
    "xa": XA,
    "xa, bare": XaState("u", 0.0, 0, 0),
    "refused": RefusedTable("DROP", AT, 2, {"epoch": 3}),
    "refused, bare": RefusedTable(),
    "stamp": Stamp(3, WATERMARK.to_json(), FENCE, 7, 2),
    "stamp, bare": Stamp(0),
    "recovery": RECOVERY,
    "recovery, bare": OpenRecovery("r"),
    "recovery, nothing stored": OpenRecovery(
        "r", backup=OffsetEntry({"server": "shop"}, None), fence={}, replica=ReplicaVisit(read=""), written={}
    ),
    "table": TABLE,
    "table, bare": BARE_TABLE,
    "table, missing": MISSING,
    "report": RecoveryReport(
        pipeline="shop",
        run_id="manual__1",
        problem="GTID_PURGED",
        evidence={"gtids missing": "x:1-3"},
        strategy="full_snapshot",
        data_loss="nothing",
        watermark=WATERMARK.to_json(),
        epoch=4,
        offset_before=GTID_OFFSET,
        offset_after=GTID_OFFSET,
        tables=(TABLE, MISSING),
        steps=(STEP, StepReport("open_recovery", 0.123, "done")),
        verdict=Verdict.MISMATCH,
        peer={"seconds": 50.1, "ghosts": 1999},
        writer={"recover": 900},
        reason="why",
        note="n",
        others=("SINK_DIFFERS: Differs.",),
        links={"Kafka": "https://kafka"},
        started_by="ann",
        approved="by bob",
        began=AT,
        ended=LATER,
    ),
    "report, bare": RecoveryReport(
        "shop", "r", "UNKNOWN", {}, "none", "unknown", None, 0, None, None, tables=(), steps=()
    ),
    "diagnosis": DIAGNOSIS,
    "diagnosis, bare": Diagnosis("HEALTHY", "", {}, (), ""),
    "plan": Plan("full_snapshot", ("hold", "recover"), "nothing", True, False, "why", True, 1.5, False),
    "plan, bare": Plan("none", (), "", destructive=False, needs_approval=False, reason=""),
    "observation": StoredObservation(
        pipeline="shop",
        taken_at=AT,
        diagnosis=DIAGNOSIS,
        connector="RUNNING, task 0 FAILED",
        stored="mysql-bin.000004:198",
        position_ts=1_700_000_000,
        oldest="o",
        newest="n",
        behind=3,
        retention=Margin(5, 20),
        unknowns={"sink": "no answer"},
        changes=(Change(AT, "GTID_PURGED"),),
        forecast=PurgeForecast(1.5, in_newest_file=True, basis="b"),
        samples=(Sample(AT, 0.25),),
        choices={"full_snapshot": ""},
        waiting=4,
        ahead={"shop.shop.orders": Ahead(5, 3, AT, TopicOffsets("id", {0: 7}))},
    ),
    "observation, bare": StoredObservation(
        "shop", AT, Diagnosis("UNKNOWN", "", {}, (), ""), None, None, None, None, None, None, None, {}, ()
    ),
    "silence": Silence("ann", AT, LATER, "why", "GTID_PURGED", LATER, "bob"),
    "silence, bare": Silence("ann", AT, LATER, ""),
    "run": RunSummary(
        "r", "f", "recovery", "P", "s", Verdict.MATCH, AT, 1.5, "d", ("shop.t",), {"shop.orders": AT}
    ),
    "run, bare": RunSummary("r", "f", "check", "P", "s", Verdict.INCONCLUSIVE, AT, 0.0),
    "outages": OutageLog(3, (Outage("GTID_PURGED", 3, AT, LATER, 1, LATER, "watch__r", True), Outage("UNKNOWN", 0, AT))),
    "outages, bare": OutageLog(),
    "checked": Checked(
        IntegerLeaves("id", 100), 0, 9, 1_000, {"0": AT}, "id", {"0": 7}, "f", "MATCH", AT, "run:1"
    ),
    "checked by hash": Checked(
        HashLeaves(16, KeyHash.CRC32), 0, 15, 0, {}, "", {}, "f", "INCONCLUSIVE", AT, "run:1"
    ),
    "row": RowPair("different", "7", {"id": "7", "note": None}, {"id": "7", "note": "x"}, ("note",), AT),
    "row, bare": RowPair("missing", "7", None, None),
    "counted": Counted(
        Expected("shop.orders", 7, {"id": "bigint"}, ("id",), 3, 1, ("id",), True, 2),
        StageFacts(3, {"id": "LongType"}, {"id": 0}, 1),
    ),
    "last change": LastChange("u", (5, 6, 7), "bin.000005", 5, "u:5", 8),
    "step": StepEntry("snapshot", AT, 1.5, "failed", "no answer", "SourceError", (StepPart("read", -0.5, 1.0),)),
    "step, bare": StepEntry("snapshot"),
}  # fmt: skip
