"""A night on a real server and a real lake: three pipelines, of which one is corrupted, one healthy, one unreachable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import VerificationError
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.report import CaughtUp, RecoveryReport, TableReport
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare import verdict
from airflow_cdc.decisions.compare.row_diff import rows_file
from airflow_cdc.flows.checks import conclude
from airflow_cdc.flows.close import report_folder
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.spark_apps import nightly as application
from airflow_cdc.spark_apps.driver.sql import quote_ident
from airflow_cdc.spark_apps.nightly import nightly
from airflow_cdc.spark_apps.repair import repair
from tests.apply_support import Topic
from tests.integration.every_type import CASES, create_sql, insert_sql, row_id
from tests.integration.mirror import NUMBERS, Mirror
from tests.integration.rig import Rig
from tests.integration.test_verify import other

NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(40), qty INT)"
FILL = f"INSERT INTO orders {NUMBERS.format(1400)} SELECT i, CONCAT('n', i), i % 9 FROM n"
ITEMS = "CREATE TABLE items (code VARCHAR(20) PRIMARY KEY, v INT)"
FILL_ITEMS = f"INSERT INTO items {NUMBERS.format(700)} SELECT CONCAT('c', i), i FROM n"
ALL = Policy(max_deletes=Limit(100, percent=True))
SMALL = {"leaf_rows": 50, "reach_seconds": 60}


@pytest.fixture
def mirrors(
    rig: Rig, databases: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Mirror]:
    """`mirrors()`: another pipeline, with a database of its own; broker and lake are shared."""
    topics: dict[str, Topic] = {}

    def make() -> Mirror:
        own = Rig(rig.server, rig.spark, rig.lake, databases())
        return Mirror(own, tmp_path, topics).opened(monkeypatch)

    return make


def every_type(mirror: Mirror) -> tuple[Table, list[str]]:
    """A table with one row for each type of column, each of which is then changed in a row of its own."""
    cases = [case for case in CASES if case.changeable]
    names = ", ".join(quote_ident(case.name) for case in cases)
    same = ", ".join(f"t.{quote_ident(case.name)}" for case in cases)
    copies = f"INSERT INTO t (id, {names}) {NUMBERS.format(len(cases))} SELECT 1000 + n.i, {same} FROM n, t WHERE id = {row_id(0)}"
    table = mirror.table("t", create_sql("t"), *insert_sql("t"), copies)
    changes = [
        f"{quote_ident(case.name)} = IF(id = {1001 + at}, {other(table, case.name)}, {quote_ident(case.name)})"
        for at, case in enumerate(cases)
    ]
    mirror.interfere(table, f"UPDATE {{}} SET {', '.join(changes)}")
    return table, [str(1001 + at) for at in range(len(cases))]


def report(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(report_folder(run)) / "report.json").read_text())
    return found


def test_a_night_over_three_pipelines(mirrors: Callable[[], Mirror], monkeypatch: pytest.MonkeyPatch) -> None:
    """The run names the exact keys, repairs once that is agreed to, says INCONCLUSIVE where it cannot look, and touches nothing else."""
    monkeypatch.setattr(verdict, "SAMPLE_KEYS", 1000)
    bad, good, far = mirrors(), mirrors(), mirrors()
    spoiled, wrong = every_type(bad)
    beside = bad.table("orders", ORDERS, FILL)
    healthy = [good.table("orders", ORDERS, FILL), good.table("items", ITEMS, FILL_ITEMS)]
    unseen = far.table("orders", ORDERS, FILL)
    others = [(bad, beside), *((good, table) for table in healthy), (far, unseen)]
    heads = [mirror.head(table) for mirror, table in others]
    spark = bad.rig.spark

    at_bad, at_good = bad.run("night-1"), good.run("night-1")
    facts = nightly(at_bad, spark, SMALL, NIGHT)
    assert facts["verdict"] == "MISMATCH"
    assert facts["tables"] == {spoiled.full_name: "MISMATCH", beside.full_name: "MATCH"}
    plan = facts["plans"][spoiled.full_name]
    assert (plan["writes"], plan["deletes"], facts["needs_approval"]) == (len(wrong), 0, True)
    keys = json.loads((Path(report_folder(at_bad)) / f"keys-{spoiled.full_name}.json").read_text())
    assert sorted(str(one["key"][0]) for one in keys) == wrong
    pairs = json.loads((Path(report_folder(at_bad)) / rows_file(spoiled.full_name)).read_text())
    changed = [case.name for case in CASES if case.changeable]
    assert {pair["key"]: pair["differ"] for pair in pairs} == {
        key: [name] for key, name in zip(wrong, changed, strict=True)
    }
    assert report(at_bad)["verdict"] == "MISMATCH"
    with pytest.raises(VerificationError, match=rf"MISMATCH: {spoiled.full_name} is MISMATCH: different: 1001"):
        conclude(at_bad)

    assert nightly(at_good, spark, SMALL, NIGHT)["verdict"] == "MATCH"
    assert conclude(at_good) == {"verdict": "MATCH", "tables": 2}

    at_far = far.run("night-1")
    nowhere = MySqlSource(replace(far.rig.source.endpoint, port=1, connect_timeout=1))
    at_far = replace(at_far, clients=replace(at_far.clients, source=nowhere))
    facts = nightly(at_far, spark, SMALL, NIGHT)
    assert (facts["verdict"], facts["plans"], facts["needs_approval"]) == ("INCONCLUSIVE", {}, False)
    assert (report(at_far)["verdict"], report(at_far)["problem"]) == ("INCONCLUSIVE", "UNKNOWN")
    with pytest.raises(VerificationError, match="INCONCLUSIVE") as caught:
        conclude(at_far)
    assert caught.value.verdict == "INCONCLUSIVE"
    assert [mirror.head(table) for mirror, table in others] == heads
    assert bad.stages() == good.stages() == far.stages() == []

    agreed = replace(at_bad, options=RunOptions(tables=(spoiled.full_name,)))
    assert repair(agreed, spark)["verdict"] == "MATCH"
    assert conclude(at_bad) == {"verdict": "MATCH", "tables": 2}
    assert [mirror.head(table) for mirror, table in others] == heads
    made = report(at_bad)
    assert (made["verdict"], made["strategy"], made["problem"]) == ("MATCH", "diff_repair", "SINK_DIFFERS")
    assert f"{len(wrong)} rows were read again" in made["evidence"][spoiled.full_name]
    after = nightly(bad.run("night-2"), spark, SMALL, NIGHT + timedelta(days=1))
    assert after["verdict"] == "MATCH"


def compared(run: Run) -> dict[str, str]:
    """Table (without schema) → what of it was compared."""
    check = run.clients.control.ledger_get(run.run_id)["check"]
    return {name.partition(".")[2]: f"{told['compared']}: {told['why']}" for name, told in check.items()}


@pytest.mark.slow
def test_every_row_is_compared_within_a_week_and_what_was_touched_at_once(mirrors: Callable[[], Mirror]) -> None:
    """A fault that no event tells of is found by the share it lies in; one beside a touched row the very next night."""
    mirror = mirrors()
    orders, items = mirror.table("orders", ORDERS, FILL), mirror.table("items", ITEMS, FILL_ITEMS)
    spark = mirror.rig.spark

    def night(number: int) -> tuple[Run, dict[str, Any]]:
        run = mirror.run(f"night-{number}")
        return run, nightly(run, spark, SMALL, NIGHT + timedelta(days=number))

    run, facts = night(0)
    assert facts["verdict"] == "MATCH"
    assert compared(run) == dict.fromkeys(("orders", "items"), "all rows: it was never compared before")
    # wrong on both sides alike for the counts, and no commit of the sink tells of it: the source changes unlogged
    mirror.rig.run("UPDATE orders SET qty = 77 WHERE id = 1300", "UPDATE items SET v = 0 WHERE code = 'c7'")
    found: dict[str, int] = {}
    for number in range(1, 8):
        run, facts = night(number)
        if number <= found.get("orders", number):  # once it is wrong, all of it is compared
            assert re.fullmatch(r"[45] leaves: 0 touched leaves, and share \d of 7", compared(run)["orders"])
        for table, said in facts["tables"].items():
            if said == "MISMATCH":
                found.setdefault(table.partition(".")[2], number)
    assert found.keys() == {"orders", "items"}
    assert found["orders"] == 7  # 1300 of 1400 is in the last share
    assert max(found.values()) <= 7

    repair(mirror.run("mend", policy=ALL), spark)
    run, facts = night(8)
    assert facts["verdict"] == "MATCH"
    # the row is wrong, and its neighbour is touched
    mirror.rig.run("UPDATE orders SET qty = 78 WHERE id = 703", "UPDATE orders SET qty = 8 WHERE id = 702")
    mirror.topic(orders).update({"id": 702, "name": "n702", "qty": 0}, id=702, name="n702", qty=8)
    run, facts = night(9)
    assert "1 touched leaves" in compared(run)["orders"]
    assert facts["plans"][orders.full_name]["first"] == ["different: 703"]
    assert facts["tables"][items.full_name] == "MATCH"


@pytest.mark.slow
def test_inv_35_a_match_says_up_to_when_main_is_equal(mirrors: Callable[[], Mirror]) -> None:
    """While main is at its topic's end: the time of the night. With events that wait: the time of the first of them."""
    mirror = mirrors()
    orders = mirror.table("orders", ORDERS, FILL)
    spark = mirror.rig.spark

    def night(number: int) -> TableReport:
        run, began = mirror.run(f"night-{number}"), datetime.now(UTC)
        assert nightly(run, spark, SMALL, NIGHT + timedelta(days=number))["verdict"] == "MATCH"
        (table,) = RecoveryReport.from_json(report(run)).tables
        assert datetime.fromisoformat(table.verified_through) < datetime.now(UTC)
        if number == 0:
            assert datetime.fromisoformat(table.verified_through) > began - timedelta(seconds=5)
        return table

    night(0)
    mirror.rig.run("UPDATE orders SET qty = 8 WHERE id = 702")
    mirror.topic(orders).ts_ms = 1_700_000_000_000  # the source's time of what waits
    mirror.topic(orders).update({"id": 702, "name": "n702", "qty": 0}, id=702, name="n702", qty=8)
    waiting = night(1)
    assert datetime.fromisoformat(waiting.verified_through) == datetime.fromtimestamp(1_700_000_000, UTC)
    assert waiting.compared_at.snapshot_id == mirror.head(orders), "main's, and not that of what was compared"
    assert waiting.caught_up == CaughtUp(1400, 1, "2023-11-14T22:13:20+00:00")


@pytest.mark.slow
def test_inv_32_a_row_of_a_rolled_back_transaction_is_found_the_next_night(mirrors: Callable[[], Mirror]) -> None:
    """The server counted a rollback: of a table that had events since, all rows are compared, of no other."""
    mirror = mirrors()
    orders = mirror.table("orders", ORDERS, FILL)
    mirror.table("quiet", ORDERS.replace("orders", "quiet"), FILL.replace("orders", "quiet"))
    spark = mirror.rig.spark
    nightly(mirror.run("night-0"), spark, SMALL, NIGHT)
    change = "UPDATE orders SET qty = 99 WHERE id = 1300"
    mirror.rig.run("XA START 'ghost'", change, "XA END 'ghost'", "XA PREPARE 'ghost'", "XA ROLLBACK 'ghost'")
    mirror.topic(orders).update({"id": 1300, "name": "n1300", "qty": 4}, id=1300, name="n1300", qty=99)
    run = mirror.run("night-1")
    facts = nightly(run, spark, SMALL, NIGHT + timedelta(days=1))
    assert compared(run)["orders"] == "all rows: 1 XA ROLLBACK since then"
    assert "0 touched leaves" in compared(run)["quiet"]
    assert facts["plans"][orders.full_name]["first"] == ["different: 1300"]
    repair(mirror.run("mend", policy=ALL), spark)
    assert nightly(mirror.run("night-2"), spark, SMALL, NIGHT + timedelta(days=2))["verdict"] == "MATCH"


@pytest.mark.slow
def test_a_row_that_is_gone_anywhere_shows_in_the_counts(mirrors: Callable[[], Mirror]) -> None:
    mirror = mirrors()
    orders = mirror.table("orders", ORDERS, FILL)
    spark = mirror.rig.spark
    nightly(mirror.run("night-0"), spark, SMALL, NIGHT)
    mirror.rig.run("DELETE FROM orders WHERE id = 1333")
    run = mirror.run("night-1")
    facts = nightly(run, spark, SMALL, NIGHT + timedelta(days=1))
    assert facts["plans"][orders.full_name]["first"] == ["ghosts: 1333"]
    assert compared(run)["orders"] == "all rows: its row counts differ outside the part that was compared"


@pytest.mark.slow
def test_inv_14_cascades_and_commits_that_are_not_ours_make_it_all_rows(mirrors: Callable[[], Mirror]) -> None:
    mirror = mirrors()
    orders = mirror.table("orders", ORDERS, FILL)
    lines = "CREATE TABLE `lines` (id BIGINT PRIMARY KEY, order_id BIGINT, FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE)"
    mirror.table("lines", lines, f"INSERT INTO `lines` {NUMBERS.format(700)} SELECT i, i FROM n")
    spark = mirror.rig.spark
    nightly(mirror.run("night-0"), spark, SMALL, NIGHT)
    mirror.interfere(orders, "UPDATE {} SET qty = 77 WHERE id = 1300")
    # the server removes the line too, and its log does not say so
    mirror.rig.run("DELETE FROM orders WHERE id = 5")
    mirror.topic(orders).delete(id=5, name="n5", qty=5)
    run = mirror.run("night-1")
    facts = nightly(run, spark, SMALL, NIGHT + timedelta(days=1))
    assert "another writer than this pipeline made commit" in compared(run)["orders"]
    assert compared(run)["lines"] == "all rows: rows of it change by foreign keys, which this server does not log"
    assert facts["plans"][orders.full_name]["first"] == ["different: 1300"]
    assert facts["plans"][f"{mirror.rig.schema}.lines"]["first"] == ["ghosts: 5"]


@pytest.mark.slow
def test_inv_03_an_interrupted_night_goes_on_with_what_is_left(
    mirrors: Callable[[], Mirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = mirrors()
    mirror.table("items", ITEMS, FILL_ITEMS)
    mirror.table("orders", ORDERS, FILL)
    spark, run = mirror.rig.spark, mirror.run("night-1")
    seen: list[str] = []
    real = application._checked

    def checked(night: Any, table: Table) -> Any:
        seen.append(table.name)
        return real(night, table)

    def interrupted(night: Any, table: Table) -> Any:
        if seen:
            raise KeyboardInterrupt
        return checked(night, table)

    monkeypatch.setattr(application, "_checked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        nightly(run, spark, SMALL, NIGHT)
    monkeypatch.setattr(application, "_checked", checked)
    facts = nightly(run, spark, SMALL, NIGHT)
    assert seen == ["items", "orders"]
    assert facts["verdict"] == "MATCH"
    assert {table["table"].partition(".")[2] for table in report(run)["tables"]} == {"items", "orders"}
    (page,) = (Path(report_folder(run)) / "data_docs").glob("expectations/**/*.html")
    assert "and 1 more" in page.read_text(), "the page is about both tables"
