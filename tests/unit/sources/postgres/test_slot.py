"""Rows of pg_replication_slots of three releases, and how long their log stays."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.sources.postgres.position import Lsn
from airflow_cdc.sources.postgres.slot import Slot, WalStatus, forecast
from airflow_cdc.sources.row import Row

# as PostgreSQL 15 and 18 gave them
OF_15: dict[str, Any] = {
    "xmin": None, "active": False, "datoid": "5", "plugin": "pgoutput", "database": "postgres", "slot_name": "x",
    "slot_type": "logical", "temporary": False, "two_phase": False, "active_pid": None, "wal_status": "reserved",
    "restart_lsn": "0/14F6440", "catalog_xmin": "727", "safe_wal_size": None, "confirmed_flush_lsn": "0/14F6478",
}  # fmt: skip
OF_18 = OF_15 | {
    "synced": False,
    "failover": True,
    "conflicting": False,
    "invalidation_reason": None,
    "two_phase_at": None,
}


@pytest.mark.parametrize("row", [OF_15, OF_18])
def test_a_healthy_one(row: dict[str, Any]) -> None:
    slot = Slot.from_row(Row(row))
    assert (slot.name, slot.active, slot.invalidated, slot.wal_status) == ("x", False, "", WalStatus.RESERVED)
    assert slot.restart == Lsn.parse("0/14F6440")
    assert slot.retained(Lsn.parse("0/14F6478")) == 0x38


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"wal_status": "lost", "restart_lsn": None}, "wal_removed"),
        ({"wal_status": "lost", "invalidation_reason": "wal_removed"}, "wal_removed"),
        # restart_lsn stays filled after an idle timeout
        ({"invalidation_reason": "idle_timeout"}, "idle_timeout"),
        ({"conflicting": True}, "conflict"),  # 16 says no more
        ({"wal_status": "unreserved", "safe_wal_size": "-2128448"}, ""),
    ],
)
def test_why_one_can_never_be_read_again(change: dict[str, Any], why: str) -> None:
    assert Slot.from_row(Row(OF_18 | change)).invalidated == why


@pytest.mark.parametrize(
    ("change", "survives"),
    [
        ({"synced": True}, True),
        ({"synced": True, "temporary": True}, False),
        ({"synced": False}, False),
        ({"synced": True, "invalidation_reason": "wal_removed"}, False),
    ],
)
def test_a_fresh_synchronised_slot_does_not_survive_a_promotion(change: dict[str, Any], survives: bool) -> None:
    assert Slot.from_row(Row(OF_18 | change)).survives_failover is survives


@pytest.mark.parametrize(
    ("safe", "rate", "idle", "timeout", "left", "earliest"),
    [
        (None, 100.0, None, 0, None, None),  # no limit: it may fill the disk
        (1000, 100.0, None, 0, 10.0, 10.0),
        (1000, None, None, 0, None, None),
        (-5, 100.0, None, 0, 0.0, 0.0),
        (-5, None, None, 0, 0.0, 0.0),
        (None, 1.0, 50.0, 60, None, 10.0),
        (1000, 100.0, 59.0, 60, 10.0, 1.0),
        (1000, 100.0, 90.0, 60, 10.0, 0.0),
        (1000, 100.0, None, 60, 10.0, 10.0),  # it is being read
    ],
)
def test_forecast(
    *,
    safe: int | None,
    rate: float | None,
    idle: float | None,
    timeout: int,
    left: float | None,
    earliest: float | None,
) -> None:
    slot = Slot.from_row(Row(OF_18 | {"safe_wal_size": safe}), idle)
    said = forecast(slot, Lsn.parse("0/14F6478"), rate, timeout)
    assert said.left_s == left
    assert said.earliest_s == earliest


def test_a_forecast_is_said_in_bytes_and_hours() -> None:
    text = str(forecast(Slot.from_row(Row(OF_18 | {"safe_wal_size": 36_000_000})), Lsn.parse("0/14F6478"), 1000.0))
    assert text == "keeps 56 bytes, 36,000,000 bytes left, 3,600,000 bytes of log an hour, may be lost in 10 h"
