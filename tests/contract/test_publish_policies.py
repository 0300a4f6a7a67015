"""What each policy publishes for each verdict of the comparison, and what readers see afterwards.

publish: all    one table that is not MATCH keeps every table as it was
publish: each   a table that is not MATCH stays as it was; the others are published, and the run still fails
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import NotAgreedError, StaleHeadError, VerificationError
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.kinds import read_position
from airflow_cdc.sinks.iceberg.client import Lake
from tests.contract.lakes import COLUMNS, append, append_staged, compact, ids, run_on
from tests.recoveries import advance_to

PublishMode = Literal["all", "each"]
ORDERS, CUSTOMERS = "shop.orders", "shop.customers"
BEFORE, AFTER = [0, 1, 2], [0, 1, 2, 3]
NOT_COMPARED = None


def compared(lake: Lake, folder: Path, mode: PublishMode, **verdicts: str | None) -> Run:
    """A recovery whose stages hold one row more than main, compared with these verdicts (None: not compared yet)."""
    unset = run_on(lake, folder, ORDERS, CUSTOMERS)
    run = replace(unset, pipeline=replace(unset.pipeline, policy=Policy(publish=mode)))
    control = run.clients.control
    control.acquire(run.run_id, 600)
    control.open_recovery(run.run_id, tables=[ORDERS, CUSTOMERS])
    stages: dict[str, Any] = {}
    verified: dict[str, Any] = {}
    for name, verdict in verdicts.items():
        lake.ensure_table("shop", name, COLUMNS)
        append(lake, "shop", name, *BEFORE)
        stage = lake.stage("shop", name, "recov_1_1")
        lake.table(*stage.identifier).delete()
        head = append_staged(lake, stage, *AFTER)
        stages[f"shop.{name}"] = {"label": stage.label, "rows": len(AFTER), "snapshot_id": head}
        if verdict is not NOT_COMPARED:
            verified[f"shop.{name}"] = {"verdict": verdict, "snapshot_id": head, "samples": ["why"]}
            verified[f"shop.{name}"] |= dict.fromkeys(("source_rows", "sink_rows"), len(AFTER))
    advance_to(control, run.run_id, stages=stages, verified=verified)
    return run


def readers_see(lake: Lake) -> dict[str, list[int]]:
    return {f"shop.{name}": ids(lake.read_arrow("shop", name)) for name in ("orders", "customers")}


def published(run: Run) -> set[str]:
    return set(run.clients.control.state()["recovery"].get("published") or {})


@pytest.mark.parametrize("verdict", ["MISMATCH", "INCONCLUSIVE", NOT_COMPARED])
def test_all_one_table_that_was_not_proven_keeps_every_table_as_it_was(
    lake: Lake, tmp_path: Path, verdict: str | None
) -> None:
    run = compared(lake, tmp_path, "all", orders="MATCH", customers=verdict)
    with pytest.raises(VerificationError, match=f"nothing is published: {CUSTOMERS} is {verdict or 'not verified'}"):
        publish(run)
    assert readers_see(lake) == {ORDERS: BEFORE, CUSTOMERS: BEFORE}
    assert published(run) == set()


@pytest.mark.parametrize("verdict", ["MISMATCH", "INCONCLUSIVE", NOT_COMPARED])
def test_each_a_table_that_was_not_proven_stays_as_it_was_and_the_run_fails(
    lake: Lake, tmp_path: Path, verdict: str | None
) -> None:
    run = compared(lake, tmp_path, "each", orders="MATCH", customers=verdict)
    with pytest.raises(VerificationError, match=f"not published, because they are not MATCH: {CUSTOMERS}"):
        publish(run)
    assert readers_see(lake) == {ORDERS: AFTER, CUSTOMERS: BEFORE}
    assert published(run) == {ORDERS}


@pytest.mark.parametrize("mode", ["all", "each"])
def test_tables_that_all_match_are_published_by_either_policy(lake: Lake, tmp_path: Path, mode: PublishMode) -> None:
    run = compared(lake, tmp_path, mode, orders="MATCH", customers="MATCH")
    assert set(publish(run)["published"]) == {ORDERS, CUSTOMERS}
    assert readers_see(lake) == {ORDERS: AFTER, CUSTOMERS: AFTER}


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ({"orders": "INCONCLUSIVE", "customers": "MISMATCH"}, "MISMATCH"),
        ({"orders": "INCONCLUSIVE", "customers": "MATCH"}, "INCONCLUSIVE"),
        ({"orders": "MATCH", "customers": NOT_COMPARED}, "INCONCLUSIVE"),
    ],
)
def test_the_verdict_of_a_refused_publish_is_its_worst_tables(
    lake: Lake, tmp_path: Path, verdicts: dict[str, str | None], worst: str
) -> None:
    with pytest.raises(VerificationError) as refused:
        publish(compared(lake, tmp_path, "all", **verdicts))
    assert refused.value.verdict == worst


@pytest.mark.parametrize("mode", ["all", "each"])
def test_inv_36_approval_allows_removals_and_never_a_mismatch(lake: Lake, tmp_path: Path, mode: PublishMode) -> None:
    run = compared(lake, tmp_path, mode, orders="MISMATCH", customers="MISMATCH")
    with pytest.raises(VerificationError):
        publish(replace(run, options=RunOptions(approved=True)))
    assert readers_see(lake) == {ORDERS: BEFORE, CUSTOMERS: BEFORE}


def test_inv_36_all_a_table_that_would_lose_too_many_rows_keeps_the_other_as_it_was(lake: Lake, tmp_path: Path) -> None:
    run = compared(lake, tmp_path, "all", orders="MATCH", customers="MATCH")
    verified = now.verified if (now := run.clients.control.recovery(read_position)) else {}
    empty = replace(verified[CUSTOMERS], report=replace(verified[CUSTOMERS].report, source_rows=0, sink_rows=0))
    run.clients.control.change_recovery(run.run_id, lambda now: now.compared({CUSTOMERS: empty}), read_position)
    limited = replace(run, pipeline=replace(run.pipeline, policy=Policy(max_deletes=Limit.parse("1%"))))
    with pytest.raises(NotAgreedError, match=f"3 of 3 rows of {CUSTOMERS} would be removed"):
        publish(limited)
    assert readers_see(lake) == {ORDERS: BEFORE, CUSTOMERS: BEFORE}


def test_inv_04_a_table_that_somebody_wrote_to_meanwhile_is_left_as_they_wrote_it(lake: Lake, tmp_path: Path) -> None:
    run = compared(lake, tmp_path, "all", orders="MATCH", customers="MATCH")
    append(lake, "shop", "orders", 99)
    with pytest.raises(StaleHeadError) as stale:
        publish(run)
    assert "clear the task recover and all after it" in stale.value.todo
    assert readers_see(lake)[ORDERS] == [*BEFORE, 99]


@pytest.mark.parametrize(("verdict", "worst"), [("MISMATCH", "MISMATCH"), ("INCONCLUSIVE", "INCONCLUSIVE")])
def test_inv_35_a_connectors_own_table_is_not_called_recovered_unless_it_matches(
    lake: Lake, tmp_path: Path, verdict: str, worst: str
) -> None:
    run = compared(lake, tmp_path, "all", orders="MATCH", customers=verdict)
    sink = replace(run.pipeline.sink, writer="connector")
    with pytest.raises(VerificationError, match=f"not proven: {CUSTOMERS} is {verdict}") as unproven:
        publish(replace(run, pipeline=replace(run.pipeline, sink=sink)))
    assert unproven.value.verdict == worst


def test_inv_04_a_table_that_was_only_compacted_meanwhile_is_published(lake: Lake, tmp_path: Path) -> None:
    run = compared(lake, tmp_path, "all", orders="MATCH", customers="MATCH")
    compact(lake, "shop", "orders")
    publish(run)
    assert readers_see(lake) == {ORDERS: AFTER, CUSTOMERS: AFTER}
