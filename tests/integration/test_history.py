"""The query of docs/how-to/consistency.md, as it stands there, on a table whose history is known."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.table import Table
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.repair import repair
from tests.integration.mirror import Mirror
from tests.integration.rig import Rig

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "consistency.md"
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def snippets() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)


def at(mirror: Mirror, table: Table, moment: datetime) -> list[tuple[Any, ...]]:
    """The rows that the page's two statements give for a time."""
    find, read = (text.replace("lake.shop.orders", f"lake.{mirror.rig.schema}.orders") for text in snippets())
    text = moment.strftime("%Y-%m-%d %H:%M:%S")
    (commit,) = mirror.rig.spark.sql(find.replace("2026-11-20 12:00:00", text)).collect()
    assert commit["source_time"].replace(tzinfo=UTC) <= moment
    rows = mirror.rig.spark.sql(read.replace("1234567890", str(commit["snapshot_id"]))).collect()
    return sorted(tuple(row) for row in rows)


def test_the_documented_query(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = Mirror(rig, tmp_path).opened(monkeypatch)
    made = "CREATE TABLE orders (id BIGINT PRIMARY KEY, v INT)"
    orders = mirror.table("orders", made, "INSERT INTO orders VALUES (1, 0)")
    topic, states = mirror.topic(orders), {}
    for hour in range(1, 4):
        topic.ts_ms = int((NOON + timedelta(hours=hour)).timestamp() * 1000)
        mirror.rig.run(f"UPDATE orders SET v = {hour} WHERE id = 1", f"INSERT INTO orders VALUES ({10 + hour}, 0)")
        topic.update({"id": 1, "v": hour - 1}, id=1, v=hour)
        topic.create(id=10 + hour, v=0)
        apply_changes(mirror.run(f"run-{hour}"), mirror.rig.spark)
        states[hour] = sorted(mirror.source_rows(orders))
    for hour, rows in states.items():
        assert at(mirror, orders, NOON + timedelta(hours=hour)) == rows
        assert at(mirror, orders, NOON + timedelta(hours=hour, minutes=59)) == rows
    # a repair mends the present, and keeps the times of the past
    mirror.interfere(orders, "DELETE FROM {} WHERE id = 1")
    repair(mirror.run("mend"), mirror.rig.spark)
    assert at(mirror, orders, NOON + timedelta(hours=2)) == states[2]
    assert at(mirror, orders, NOON + timedelta(hours=9)) == states[3]
