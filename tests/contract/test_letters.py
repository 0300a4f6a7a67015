"""Dead letters marked as put right, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from airflow_cdc.core.dead_letter import is_before
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets, fence_to_json
from airflow_cdc.flows.publish import publish
from airflow_cdc.sinks.iceberg import dead_letters as letters
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.dead_letters import COLUMNS, NAMESPACE, resolve_before, table_name, waiting
from tests.contract.lakes import append_staged, run_on
from tests.recoveries import advance_to

SINCE = {"t": TopicOffsets("id1", {0: 10, 1: 5})}


def letter(table: str, partition: int, offset: int, **more: Any) -> dict[str, Any]:
    seen = datetime(2026, 11, 21, tzinfo=UTC)
    known = {"topic": "t", "topic_id": "id1", "partition": partition, "offset": offset, "table": table}
    rest = {"key": "a2V5", "value": None, "reason": "bad", "attempts": 1, "first_seen": seen, "resolved_at": None}
    return {**known, **rest, **more}


def fill(lake: Lake, *rows: dict[str, Any]) -> None:
    lake.ensure_table(NAMESPACE, table_name("shop"), COLUMNS, format_version=2)
    table = lake.table(NAMESPACE, table_name("shop"))
    table.append(pa.Table.from_pylist(list(rows), schema=table.schema().as_arrow()))


def open_ones(lake: Lake) -> list[tuple[str, int, int]]:
    rows = lake.read_arrow(NAMESPACE, table_name("shop")).to_pylist()
    return sorted((r["table"], r["partition"], r["offset"]) for r in rows if r["resolved_at"] is None)


@pytest.mark.parametrize(
    ("place", "before"),
    [
        (("t", "id1", 0, 9), True),
        (("t", "id1", 0, 10), False),
        (("t", "id1", 1, 5), False),
        (("t", "id1", 7, 0), False),
        (("t", "older", 0, 99), True),
        (("absent", "id1", 0, 0), False),
    ],
)
def test_what_lies_before_a_fence(place: tuple[str, str, int, int], before: bool) -> None:
    assert is_before(place, SINCE) is before


def test_only_what_lies_before_is_resolved_and_nothing_else_changes(lake: Lake) -> None:
    rows = [
        letter("shop.orders", 0, 9),
        letter("shop.orders", 0, 10),
        letter("shop.items", 0, 9),
        letter("shop.orders", 1, 4, attempts=7),
    ]
    fill(lake, *rows)
    assert waiting(lake, "shop") == 3
    before = lake.read_arrow(NAMESPACE, table_name("shop")).drop_columns(["resolved_at"]).to_pylist()
    assert resolve_before(lake, "shop", {"shop.orders": SINCE}) == 2
    assert open_ones(lake) == [("shop.items", 0, 9), ("shop.orders", 0, 10)]
    after = lake.read_arrow(NAMESPACE, table_name("shop")).drop_columns(["resolved_at"]).to_pylist()
    assert sorted(after, key=repr) == sorted(before, key=repr)
    head = lake.head(NAMESPACE, table_name("shop"))
    assert resolve_before(lake, "shop", {"shop.orders": SINCE}) == 0
    assert lake.head(NAMESPACE, table_name("shop")) == head


def test_without_a_table_there_is_nothing_to_resolve(lake: Lake) -> None:
    assert resolve_before(lake, "shop", {"shop.orders": SINCE}) == 0
    assert waiting(lake, "shop") == 0


def test_a_letter_that_comes_meanwhile_is_not_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lake, letter("shop.orders", 0, 9))
    real, calls = Table.overwrite, []

    def overwrite(self: Table, *args: Any, **kwargs: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            fill(lake, letter("shop.orders", 0, 50))
        real(self, *args, **kwargs)

    monkeypatch.setattr(Table, "overwrite", overwrite)
    monkeypatch.setattr(letters, "RESOLVE_SECONDS", 20)
    assert resolve_before(lake, "shop", {"shop.orders": SINCE}) == 1
    assert open_ones(lake) == [("shop.orders", 0, 50)]
    assert len(calls) == 2


def test_publishing_a_recovery_resolves_what_lies_before_its_fence(shop: Lake, tmp_path: Path) -> None:
    """Their rows were read again with the table, and no event before the fence is ever applied."""
    run = run_on(shop, tmp_path, "shop.orders", run_id="run-1")
    run.clients.control.acquire("run-1", 600)
    epoch = run.clients.control.open_recovery("run-1", tables=["shop.orders"])
    stage = shop.stage("shop", "orders", f"recov_{epoch}_1")
    head = append_staged(shop, stage, 1, summary=Stamp(epoch, None, SINCE).to_summary())
    advance_to(
        run.clients.control,
        "run-1",
        fence=fence_to_json(SINCE),
        stages={"shop.orders": {"label": stage.label, "rows": 1, "snapshot_id": head}},
        verified={"shop.orders": {"verdict": "MATCH", "snapshot_id": head, "source_rows": 1, "sink_rows": 1}},
    )
    fill(shop, letter("shop.orders", 0, 9), letter("shop.orders", 0, 10), letter("shop.items", 0, 9))
    assert publish(run)["published"] == {"shop.orders": head}
    assert open_ones(shop) == [("shop.items", 0, 9), ("shop.orders", 0, 10)]
