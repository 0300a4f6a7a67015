"""INV 36: before main moves, the rows that go are counted once more, by what the verification proved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import NotAgreedError
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.recovery import Decision
from airflow_cdc.decisions.removal import Removal
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.sinks.iceberg.client import Lake
from tests.contract.lakes import COLUMNS, append, append_staged, ids, run_on
from tests.recoveries import advance_to

TABLES = ("shop.orders", "shop.customers")


def recovered(lake: Lake, folder: Path, sink: int, source: int, policy: Policy | None = None, **opened: Any) -> Run:
    """A recovery of two tables, verified: main has `sink` rows of orders, the source `source`; customers lose nothing."""
    made = run_on(lake, folder, *TABLES)
    run = replace(made, pipeline=replace(made.pipeline, policy=policy or Policy()))
    control = run.clients.control
    control.acquire(run.run_id, 600)
    control.open_recovery(run.run_id, tables=list(TABLES), **opened)
    verified, stages = {}, {}
    for name, before, after in (("orders", sink, source), ("customers", 3, 3)):
        lake.ensure_table("shop", name, COLUMNS)
        append(lake, "shop", name, *range(before))
        stage = lake.stage("shop", name, "recov_1_1")
        lake.table(*stage.identifier).delete()
        head = append_staged(lake, stage, *range(after)) if after else lake.stage_head(stage)
        stages[f"shop.{name}"] = {"label": stage.label, "rows": after, "snapshot_id": head}
        verified[f"shop.{name}"] = {"verdict": "MATCH", "snapshot_id": head, "source_rows": after, "sink_rows": after}
    advance_to(control, run.run_id, stages=stages, verified=verified)
    return run


def rows(lake: Lake, table: str) -> int:
    return len(ids(lake.read_arrow("shop", table)))


def test_inv_36_a_half_empty_source_that_was_not_counted_is_not_published_unasked(lake: Lake, tmp_path: Path) -> None:
    run = recovered(lake, tmp_path, sink=100, source=40)
    with pytest.raises(
        NotAgreedError, match=r"60 of 100 rows of shop.orders would be removed, more than max_deletes 1%"
    ) as caught:
        publish(run)
    assert "airflow cdc recover shop --yes" in caught.value.todo
    assert "airflow cdc abandon shop" in caught.value.todo
    assert (rows(lake, "orders"), rows(lake, "customers")) == (100, 3)


def test_the_way_on_is_a_run_that_was_approved(lake: Lake, tmp_path: Path) -> None:
    run = recovered(lake, tmp_path, sink=100, source=40)
    publish(replace(run, options=RunOptions(approved=True)))
    assert rows(lake, "orders") == 40


def test_what_a_person_agreed_to_is_published_and_not_much_more(lake: Lake, tmp_path: Path) -> None:
    agreed = Decision(
        "P", "full_snapshot", (), deletes={"shop.orders": 60, "shop.slow": None}, needs_approval=True
    ).agreed
    assert agreed == {"shop.orders": 60}
    publish(recovered(lake, tmp_path, sink=100, source=39, agreed=agreed))
    assert rows(lake, "orders") == 39  # one more than was agreed to: the limit has room for it
    assert Removal("t", 100, 38, agreed=60).beyond(Limit.parse("1%")) == (
        "62 of 100 rows of t would be removed, more than max_deletes 1%; 60 were approved"
    )


def test_inv_36_nobody_was_asked_so_nobody_agreed() -> None:
    assert Decision("P", "full_snapshot", (), deletes={"shop.orders": 60}).agreed == {}


def test_inv_36_rows_that_nobody_can_count_are_not_few() -> None:
    one = Limit.parse("1%")
    assert Removal("t", None, 40).beyond(one) == "it is unknown how many rows of t would be removed"
    assert Removal("t", 40, None).beyond(one) == "it is unknown how many rows of t would be removed"
    assert Removal("t", None, None).beyond(Limit.parse("100%")) == ""
    assert Removal("t", 0, 40).beyond(one) == ""


def test_publish_each_goes_on_with_the_others(lake: Lake, tmp_path: Path) -> None:
    run = recovered(lake, tmp_path, sink=100, source=40, policy=Policy(publish="each"))
    with pytest.raises(NotAgreedError, match=r"shop\.orders"):
        publish(run)
    assert set(run.clients.control.state()["recovery"]["published"]) == {"shop.customers"}
    assert rows(lake, "orders") == 100


@pytest.mark.parametrize("policy", [Policy(approval="never"), Policy(max_deletes=Limit.parse(60))])
def test_a_policy_that_allows_it_is_asked_for_nothing(lake: Lake, tmp_path: Path, policy: Policy) -> None:
    publish(recovered(lake, tmp_path, sink=100, source=40, policy=policy))
    assert rows(lake, "orders") == 40
