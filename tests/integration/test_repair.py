"""Repair on a real server and a real lake: what differs is rewritten, whatever moves meanwhile, and nothing else is."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.codec import read
from airflow_cdc.core.errors import RecoveryOpenError, VerificationError
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.row_diff import RowPair, rows_file
from airflow_cdc.flows.close import report_folder
from airflow_cdc.sinks.iceberg.dead_letters import COLUMNS as LETTERS
from airflow_cdc.sinks.iceberg.dead_letters import table_name, unresolved
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.spark_apps.repair import repair
from airflow_cdc.spark_apps.stages import repair as stage_repair
from airflow_cdc.spark_apps.stages import work
from tests.integration.mirror import NUMBERS, Mirror
from tests.integration.rig import Rig

pytestmark = pytest.mark.slow

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(40), qty INT)"
FILL = f"INSERT INTO orders {NUMBERS.format(1000)} SELECT i, CONCAT('n', i), i % 9 FROM n"
PEOPLE = "CREATE TABLE people (code VARCHAR(20) COLLATE utf8mb4_general_ci, n INT, v INT, PRIMARY KEY (code, n))"
FILL_PEOPLE = f"INSERT INTO people {NUMBERS.format(60)} SELECT CONCAT(ELT(1 + i % 3, 'é', 'E', 'x|'), i), i, i FROM n"
EVENTS = "CREATE TABLE events (kind VARCHAR(20), n INT)"
FILL_EVENTS = f"INSERT INTO events {NUMBERS.format(300)} SELECT ELT(1 + i % 3, 'a', 'b', NULL), i % 50 FROM n"
ALL = Policy(max_deletes=Limit(100, percent=True))


@pytest.fixture
def mirror(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    return Mirror(rig, tmp_path).opened(monkeypatch)


@pytest.fixture
def orders(mirror: Mirror) -> Table:
    return mirror.table("orders", ORDERS, FILL)


def spoil(mirror: Mirror, orders: Table) -> None:
    """One row changed, one gone, one too many, one twice."""
    mirror.interfere(
        orders,
        "UPDATE {} SET qty = 77 WHERE id = 400",
        "DELETE FROM {} WHERE id = 500",
        "INSERT INTO {} VALUES (5000, 'ghost', 1)",
        "INSERT INTO {} SELECT * FROM {} WHERE id = 600",
    )


def stored(run: Any, name: str) -> Any:
    """A JSON file beside the run's report; None if there is none."""
    path = Path(report_folder(run)) / name
    return json.loads(path.read_text()) if path.exists() else None


def actions(mirror: Mirror, run: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((Path(report_folder(run)) / "repair.json").read_text())
    return {table.partition(".")[2]: done for table, done in found.items()}


def test_a_dry_run_names_the_keys_and_touches_nothing(mirror: Mirror, orders: Table) -> None:
    people = mirror.table("people", PEOPLE, FILL_PEOPLE)
    spoil(mirror, orders)
    mirror.interfere(people, "UPDATE {} SET v = 0 WHERE n = 5")
    heads = [mirror.head(orders), mirror.head(people)]
    run = mirror.run(dry_run=True)
    facts = repair(run, mirror.rig.spark)
    assert (facts["verdict"], facts["dry_run"], facts["needs_approval"]) == ("MISMATCH", True, True)
    assert facts["plans"][orders.full_name]["first"] == [
        "missing: 500",
        "different: 400",
        "ghosts: 5000",
        "ghosts: 600",
    ]
    assert actions(mirror, run) == {
        "orders": [
            {"action": "write", "why": "missing", "key": [500]},
            {"action": "write", "why": "different", "key": [400]},
            {"action": "delete", "why": "ghosts", "key": [5000]},
            {"action": "delete", "why": "ghosts", "key": [600]},
        ],
        "people": [{"action": "write", "why": "different", "key": ["x|5", 5]}],
    }
    pairs = [read(RowPair, one) for one in stored(run, rows_file(orders.full_name))]
    assert {pair.key: pair.finding for pair in pairs} == {
        "500": "only in the source",
        "400": "differs in qty",
        "5000": "only in the sink",
        "600": "more often in the sink than in the source",
    }
    (changed,) = (pair for pair in pairs if pair.key == "400")
    assert changed.source == {"id": "400", "name": "n400", "qty": "4"}
    assert changed.sink == {"id": "400", "name": "n400", "qty": "77"}
    assert [mirror.head(orders), mirror.head(people)] == heads
    assert mirror.stages() == []
    report = json.loads((Path(report_folder(run)) / "report.json").read_text())
    assert (report["verdict"], report["problem"], report["strategy"]) == ("MISMATCH", "SINK_DIFFERS", "none")


def test_inv_35_a_comparison_says_what_main_has_and_not_its_copy(mirror: Mirror, orders: Table) -> None:
    """30 events wait: main has 1,000 rows, and the copy that is compared 1,030."""
    head, topic = mirror.head(orders), mirror.topic(orders)
    mirror.rig.run(f"INSERT INTO orders {NUMBERS.format(30)} SELECT 2000 + i, 'new', i FROM n")
    topic.ts_ms = 1_700_000_000_000
    for i in range(1, 31):
        topic.create(id=2000 + i, name="new", qty=i)
    run = mirror.run(dry_run=True)
    assert repair(run, mirror.rig.spark)["verdict"] == "MATCH"
    (report,) = stored(run, "report.json")["tables"]
    assert (report["source_rows"], report["sink_rows"], report["compared_at"]["snapshot_id"]) == (1030, 1000, head)
    assert report["caught_up"] == {"rows": 1030, "events": 30, "since": "2023-11-14T22:13:20+00:00"}
    assert report["verified_through"].startswith("2023-11-14T22:13:20")
    assert "events that main lacks: 30" in (Path(report_folder(run)) / "report.html").read_text().lower()


def test_inv_35_a_main_that_apply_will_never_bring_there_is_no_match(mirror: Mirror) -> None:
    """A MyISAM table whose connector sends no TRUNCATE: apply refuses its events, so what they make is not compared."""
    table = mirror.table("old", "CREATE TABLE old (id INT PRIMARY KEY) ENGINE=MyISAM", "INSERT INTO old VALUES (1)")
    calm = mirror.run("run-1", dry_run=True)
    assert repair(calm, mirror.rig.spark)["verdict"] == "MATCH", "it is main itself that was compared"
    mirror.rig.run("INSERT INTO old VALUES (2)")
    mirror.topic(table).create(id=2)
    waiting = mirror.run("run-2", dry_run=True)
    assert repair(waiting, mirror.rig.spark)["verdict"] == "INCONCLUSIVE"
    (report,) = stored(waiting, "report.json")["tables"]
    assert (report["source_rows"], report["sink_rows"]) == (2, 1)
    assert report["compared_at"]["snapshot_id"] == mirror.head(table)
    assert "apply refuses the events that wait (1)" in report["samples"][0]
    assert "a TRUNCATE of the table would go unnoticed" in report["samples"][0]
    with pytest.raises(VerificationError, match="TRUNCATE of the table would go unnoticed"):
        repair(mirror.run("run-3"), mirror.rig.spark)
    assert mirror.rows(table) == [(1,)]


def test_values_of_rows_stay_out_of_reports_where_the_policy_says_so(mirror: Mirror, orders: Table) -> None:
    spoil(mirror, orders)
    run = mirror.run(policy=Policy(report_rows=False), dry_run=True)
    assert repair(run, mirror.rig.spark)["verdict"] == "MISMATCH"
    assert stored(run, "repair.json")
    assert stored(run, rows_file(orders.full_name)) is None


def test_only_what_differs_is_rewritten(mirror: Mirror, orders: Table) -> None:
    people = mirror.table("people", PEOPLE, FILL_PEOPLE)
    spoil(mirror, orders)
    mirror.interfere(people, "DELETE FROM {} WHERE n IN (5, 7)", "INSERT INTO {} VALUES ('X|8', 8, 9)")
    equal = mirror.table("events", EVENTS, FILL_EVENTS)
    before = mirror.rig.lake.stamp(mirror.rig.schema, "orders")
    untouched = mirror.head(equal)
    run = mirror.run(policy=ALL)
    facts = repair(run, mirror.rig.spark)
    assert facts["verdict"] == "MATCH"
    assert mirror.rows(orders) == mirror.source_rows(orders)
    assert mirror.rows(people) == mirror.source_rows(people)
    assert mirror.head(equal) == untouched
    assert mirror.stages() == []
    after = mirror.rig.lake.stamp(mirror.rig.schema, "orders")
    assert before is not None
    assert after is not None
    assert (after.epoch, after.offsets) == (before.epoch, before.offsets)
    assert run.clients.control.mirrored_stamp(orders.full_name) == after
    added = mirror.rig.lake.table(mirror.rig.schema, "orders").current_snapshot()
    assert added is not None
    assert added.summary is not None
    assert added.summary.additional_properties["added-records"] == "3"
    assert run.clients.control.facts().lease is None
    head = mirror.head(orders)
    assert repair(mirror.run("run-2"), mirror.rig.spark)["plans"] == {}
    assert mirror.head(orders) == head


def test_more_deletes_than_allowed_are_refused_until_a_person_agrees(mirror: Mirror, orders: Table) -> None:
    mirror.interfere(orders, "INSERT INTO {} SELECT id + 10000, name, qty FROM {} WHERE id <= 11")
    head = mirror.head(orders)
    with pytest.raises(VerificationError, match=r"delete 11 of 1011 rows, more than max_deletes 1%"):
        repair(mirror.run(), mirror.rig.spark)
    with pytest.raises(VerificationError, match=r"of which 10 were approved"):
        repair(mirror.run("run-2", deletes={orders.full_name: 10}), mirror.rig.spark)
    assert mirror.head(orders) == head
    assert repair(mirror.run("run-3", deletes={orders.full_name: 11}), mirror.rig.spark)["verdict"] == "MATCH"
    assert mirror.rows(orders) == mirror.source_rows(orders)


def test_inv_20_a_redo_reads_again_what_was_deleted_meanwhile(
    mirror: Mirror, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repair reads row 400; then it is deleted, and another writer applies that: the row must not come back."""
    spoil(mirror, orders)
    real, calls = stage_repair.read_again, []

    def read_again(*args: Any) -> None:
        real(*args)
        calls.append(1)
        if len(calls) == 1:
            mirror.rig.run("DELETE FROM orders WHERE id = 400")
            mirror.topic(orders).delete(id=400, name="n400", qty=4)
            mirror.applied(orders, "DELETE FROM {} WHERE id = 400")

    monkeypatch.setattr(stage_repair, "read_again", read_again)
    facts = repair(mirror.run(policy=ALL), mirror.rig.spark)
    assert facts["verdict"] == "MATCH"
    assert len(calls) == 2
    assert [row for row in mirror.rows(orders) if row[0] == 400] == []
    assert mirror.rows(orders) == mirror.source_rows(orders)


def test_inv_20_a_change_after_the_read_is_applied_before_anybody_sees_the_row(
    mirror: Mirror, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is read, then changed twice: what is published holds both changes, and the offsets say so."""
    spoil(mirror, orders)
    real = stage_repair.read_again

    def read_again(*args: Any) -> None:
        real(*args)
        mirror.rig.run("UPDATE orders SET qty = 8 WHERE id = 400", "UPDATE orders SET qty = 9 WHERE id = 400")
        mirror.topic(orders).update({"id": 400, "name": "n400", "qty": 4}, id=400, name="n400", qty=8)
        mirror.topic(orders).update({"id": 400, "name": "n400", "qty": 8}, id=400, name="n400", qty=9)

    monkeypatch.setattr(stage_repair, "read_again", read_again)
    assert repair(mirror.run(policy=ALL), mirror.rig.spark)["verdict"] == "MATCH"
    assert mirror.rows(orders) == mirror.source_rows(orders)
    stamp = mirror.rig.lake.stamp(mirror.rig.schema, "orders")
    assert stamp is not None
    assert stamp.next_offset(mirror.topic(orders).name, 0) == 2


def test_a_table_without_a_key_is_replaced_at_once(mirror: Mirror) -> None:
    """Copies too few and too many, and a change that waits in the topic and is in the new snapshot already."""
    events = mirror.table("events", EVENTS, FILL_EVENTS)
    mirror.interfere(events, "DELETE FROM {} WHERE kind = 'a' AND n = 3", "INSERT INTO {} VALUES ('z', 1)")
    mirror.rig.run("INSERT INTO events VALUES ('late', 1)")
    now = mirror.rig.source.position()
    at = mysql_position(now.position)
    topic = mirror.topic(events)
    assert at.gtids is not None
    ((_, _, spans),) = [item for item in at.gtids.items if item[0] == now.server]
    place = topic.source(file=at.file, pos=at.pos - 100, server_id=at.server_id, gtid=f"{now.server}:{spans[-1][1]}")
    topic.event("c", None, {"kind": "late", "n": 1}, source=place)
    facts = repair(mirror.run(policy=ALL), mirror.rig.spark)
    assert facts["verdict"] == "MATCH"
    assert facts["plans"][events.full_name]["replaces"] is True
    assert mirror.rows(events) == mirror.source_rows(events)


def test_dead_letters_are_put_right_by_a_repair(mirror: Mirror, orders: Table) -> None:
    """Their rows were compared like all others; one that came after what was published still waits."""
    mirror.interfere(orders, "UPDATE {} SET qty = 77 WHERE id = 400")
    mirror.topic(orders).raw(b'{"id":400}', b"no json")
    run = mirror.run(policy=ALL)
    assert repair(run, mirror.rig.spark)["verdict"] == "MATCH"
    assert unresolved(mirror.rig.lake, run.pipeline.name) == ()
    letters = mirror.rig.lake.table("cdc_control", table_name(run.pipeline.name))
    (row,) = letters.scan().to_arrow().to_pylist()
    letters.append(
        pa.Table.from_pylist([{**row, "offset": 9, "resolved_at": None}], schema=letters.scan().to_arrow().schema)
    )
    mirror.interfere(orders, "UPDATE {} SET qty = 78 WHERE id = 401")
    assert repair(mirror.run("run-2", policy=ALL), mirror.rig.spark)["verdict"] == "MATCH"
    assert [letter.offset for letter in unresolved(mirror.rig.lake, run.pipeline.name)] == [9]
    assert [name for name, _ in LETTERS][:2] == ["topic", "topic_id"]


def test_nothing_is_read_while_an_xa_transaction_is_prepared(mirror: Mirror, orders: Table) -> None:
    """Its change was applied, and is not in the source's row: written back, it would be lost for good."""
    with closing(mirror.rig.server.connect(database=mirror.rig.schema)) as connection, connection.cursor() as cursor:
        for statement in (
            "XA START 'r1'",
            "UPDATE orders SET qty = 50 WHERE id = 10",
            "XA END 'r1'",
            "XA PREPARE 'r1'",
        ):
            cursor.execute(statement)
        try:
            mirror.applied(orders, "UPDATE {} SET qty = 50 WHERE id = 10")
            head = mirror.head(orders)
            with pytest.raises(VerificationError, match="prepared XA transactions"):
                repair(mirror.run(policy=ALL), mirror.rig.spark)
            assert mirror.head(orders) == head
        finally:
            cursor.execute("XA COMMIT 'r1'")
    assert repair(mirror.run("run-2"), mirror.rig.spark)["plans"] == {}


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_open_recovery_is_not_disturbed(mirror: Mirror, orders: Table, dry_run: bool) -> None:
    """One sentence, and no report in which each table is UNKNOWN for it."""
    run = mirror.run("run-2", dry_run=dry_run)
    run.clients.control.open_recovery("other", tables=[orders.full_name])
    with pytest.raises(
        RecoveryOpenError, match="nothing is compared or repaired while the recovery of run other is open"
    ):
        repair(run, mirror.rig.spark)
    assert stored(run, "report.json") is None


def test_stages_of_killed_repairs_are_forgotten_after_a_day(
    mirror: Mirror, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.rig.lake.stage(mirror.rig.schema, "orders", "repair_dead")
    repair(mirror.run(), mirror.rig.spark)
    assert mirror.stages() == ["repair_dead"]  # it may still be at work
    monkeypatch.setattr(work, "ORPHAN_SECONDS", 0.0)
    repair(mirror.run("run-2"), mirror.rig.spark)
    assert mirror.stages() == []


def test_inv_34_rows_of_the_source_with_one_key_in_the_sink_are_named(mirror: Mirror) -> None:
    """An event about one of them replaced both in the sink. A repair reads both again."""
    table = mirror.table(
        "days",
        "CREATE TABLE days (day DATE NOT NULL PRIMARY KEY, n INT)",
        "INSERT INTO days VALUES ('0000-00-00', 1), ('1970-01-01', 2)",
    )
    mirror.interfere(table, "DELETE FROM {} WHERE n = 1")
    run = mirror.run("run-1", dry_run=True)
    assert repair(run, mirror.rig.spark)["verdict"] == "MISMATCH"
    (report,) = stored(run, "report.json")["tables"]
    assert (report["source_rows"], report["sink_rows"], report["missing"]) == (2, 1, 1)
    assert any("2 rows of the source have the same key in the sink" in sample for sample in report["samples"])
    assert repair(mirror.run("run-2", policy=ALL), mirror.rig.spark)["verdict"] == "MATCH"
    assert sorted(row[1] for row in mirror.rows(table)) == [1, 2]
