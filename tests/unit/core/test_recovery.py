"""The open recovery as a value: its JSON, and what each step sets and clears."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from airflow_cdc.core.errors import PositionError, UnknownStateError
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.core.recovery import (
    Decision,
    HistoryDoubts,
    HoldAnswer,
    OpenRecovery,
    ReplicaVisit,
    Sent,
    StagedTable,
    VerifiedTable,
)
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.kinds import read_position
from tests.unit.builders import GTID_OFFSET, WATERMARK
from tests.unit.core.test_report import TABLE

FENCE = {"t": TopicOffsets("id", {0: 7})}
FULL = OpenRecovery(
    run_id="run:1",
    epoch=3,
    attempt=2,
    opened_at="2026-11-21T09:00:00+00:00",
    problem="GTID_PURGED",
    strategy="full_snapshot",
    tables=("shop.orders", "shop.customers"),
    offset_kept=True,
    agreed={"shop.orders": 4},
    pipeline_hash="h",
    taken_over_from="run:0",
    hold=HoldAnswer("HELD", "", "2026-11-21T09:00:01+00:00"),
    fence=FENCE,
    watermark=WATERMARK,
    watermark_at="2026-11-21T09:00:02+00:00",
    definitions={"shop.orders": "f"},
    stages={"shop.orders": StagedTable("recov_3_1", 3, 6)},
    backup=OffsetEntry({"server": "shop"}, GTID_OFFSET),
    written=GTID_OFFSET,
    written_at="2026-11-21T09:00:03+00:00",
    history=HistoryDoubts({"shop.orders": ("qty",)}, 0, doubted=True),
    settings_before={"heartbeat.interval.ms": None, "snapshot.mode": "initial"},
    resuming="80 % there",
    resumed_at="2026-11-21T09:00:04+00:00",
    verified={"shop.orders": VerifiedTable(TABLE, "recov_1_1_v1")},
    published={"shop.customers": 9},
    corrections={"shop.orders": Sent(2, "shop.shop.orders", {0: 5, 3: 1}, {0: 8, 3: 1}, 4, 1)},
    replica=ReplicaVisit("shop_replica", "u:1", "u:1-9", "u:1", 0),
)


def again(recovery: OpenRecovery) -> OpenRecovery:
    return OpenRecovery.from_json(json.loads(json.dumps(recovery.to_json())), read_position)


@pytest.mark.parametrize("name", [field.name for field in fields(OpenRecovery)])
def test_every_field_survives_json_alone_and_with_the_others(name: str) -> None:
    assert getattr(FULL, name) != getattr(OpenRecovery("run:9"), name), "the example must say something"
    alone = replace(OpenRecovery("run:1"), **{name: getattr(FULL, name)})
    assert again(alone) == alone
    assert again(FULL) == FULL


@pytest.mark.parametrize(
    "recovery",
    [
        OpenRecovery("r"),
        replace(FULL, backup=OffsetEntry({"server": "shop"}, None)),
        replace(FULL, fence={}, history=HistoryDoubts(since=0), replica=ReplicaVisit(read="")),
    ],
)
def test_nothing_and_empty_are_told_apart(recovery: OpenRecovery) -> None:
    assert again(recovery) == recovery


def test_a_recovery_of_the_first_format_is_refused_by_name() -> None:
    first = {**FULL.to_json(), "watermark": {"server_uuid": "u", "file": "b.000001", "pos": 4, "gtids": None}}
    with pytest.raises(PositionError, match="watermark of format 1, but only format 2"):
        OpenRecovery.from_json(first, read_position)


@pytest.mark.parametrize("damage", [{"run_id": None, "tables": 7}, {"fence": {"t": {}}}, {"stages": {"t": {}}}])
def test_what_cannot_be_read_is_unknown(damage: dict[str, Any]) -> None:
    with pytest.raises(UnknownStateError, match="open recovery cannot be read"):
        OpenRecovery.from_json({**FULL.to_json(), **damage}, read_position)


def test_inv_03_another_watermark_discards_what_was_read_under_the_old_one() -> None:
    new = FULL.with_watermark(WATERMARK, {}, {"shop.orders": "g"}, "later")
    kept = {"run_id", "epoch", "opened_at", "problem", "strategy", "tables", "offset_kept", "agreed", "pipeline_hash"}
    kept |= {"taken_over_from", "hold", "watermark", "backup", "written", "history", "settings_before", "resuming"}
    kept |= {"published", "replica", "corrections"}
    assert {
        field.name for field in fields(OpenRecovery) if getattr(new, field.name) == getattr(FULL, field.name)
    } == kept
    assert (new.attempt, new.stages, new.verified, new.written_at, new.resumed_at) == (3, {}, {}, "", "")


def test_the_first_backup_and_the_first_settings_stand() -> None:
    assert FULL.backed_up(OffsetEntry({"server": "other"}, None)).backup == FULL.backup
    saved = FULL.settings_saved({"snapshot.mode": "recovery", "x": "y"}).settings_before
    assert saved == {"heartbeat.interval.ms": None, "snapshot.mode": "initial", "x": "y"}
    assert FULL.settings_restored(("snapshot.mode",)).settings_before == {"heartbeat.interval.ms": None}
    assert FULL.rebuilding_since(99).history.since == 0
    assert OpenRecovery("r").rebuilding_since(99).history.since == 99
    assert FULL.set_out("u:2", 50).replica == ReplicaVisit("shop_replica", "u:2", None, "u:1", 0)


def test_tables_are_added_to_those_that_are_done() -> None:
    more = FULL.staged({"shop.customers": StagedTable("recov_3_1", 1, 8)})
    assert set(more.stages) == {"shop.orders", "shop.customers"}
    assert set(FULL.compared({"shop.customers": FULL.verified["shop.orders"]}).verified) == set(FULL.tables)
    assert FULL.published_as({"shop.orders": 7}).published == {"shop.customers": 9, "shop.orders": 7}
    assert (FULL.unpublished, FULL.published_as({"shop.orders": 7}).unpublished) == (["shop.orders"], [])


def test_a_reading_recovery_in_place_of_a_detour_keeps_the_backup_alone() -> None:
    new = FULL.superseded(Decision("P", "full_snapshot", ("t",), deletes={"t": 5}, needs_approval=True), 4)
    assert (new.epoch, new.problem, new.tables, new.agreed) == (4, "P", ("t",), {"t": 5})
    assert (new.backup, new.opened_at, new.history) == (FULL.backup, FULL.opened_at, HistoryDoubts(doubted=True))
    assert (new.watermark, new.written_at, new.replica, new.stages) == (None, "", ReplicaVisit(), {})


def test_a_takeover_changes_the_name_alone() -> None:
    taken = FULL.taken_over_by("run:2")
    assert taken == replace(FULL, run_id="run:2", taken_over_from="run:1")


def test_a_decision_is_read_from_what_the_step_returned() -> None:
    told = {
        "pipeline_hash": "h",
        "tables": ["a", "b"],
        "deletes": {"a": 60, "b": None},
        "diagnosis": {"code": "GTID_PURGED"},
        "plan": {"strategy": "full_snapshot", "needs_approval": True},
    }
    assert Decision.from_json(told) == Decision(
        "GTID_PURGED", "full_snapshot", ("a", "b"), "h", {"a": 60, "b": None}, needs_approval=True
    )
    assert Decision.from_json(told).agreed == {"a": 60}
    with pytest.raises(UnknownStateError, match="decision of this run cannot be read"):
        Decision.from_json({"plan": {}})
