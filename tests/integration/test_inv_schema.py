"""Schema changes that shift or change values without an error, with a real connector: prevented, and shown without the rule.

INV 11, 12 and 13.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.ddl import Ddl
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.pipeline import HoldPolicy
from airflow_cdc.core.poll import poll_until
from airflow_cdc.flows import connector, offset, pending, watermark
from airflow_cdc.flows.captured import captured, settings
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps import apply
from airflow_cdc.systems.kafka_clients import read_all
from tests.integration.followed import Followed
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from stack.connect import ConnectWorker

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

TABLES = {
    "plain": "CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9))",
    "parts": "CREATE TABLE parts (id INT PRIMARY KEY, a VARCHAR(9)) PARTITION BY RANGE (id) "
    "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (1000))",
    "kinds": "CREATE TABLE kinds (id INT PRIMARY KEY, kind ENUM('red', 'blue'))",
}
ROWS = (
    "INSERT INTO plain VALUES (1, 'a1', 'b1'), (2, 'a2', 'b2')",
    "INSERT INTO parts VALUES (1, 'low'), (50, 'high')",
    "INSERT INTO kinds VALUES (1, 'red')",
)

TakeOut = Callable[[Any, str, Any], None]


@pytest.fixture
def followed(rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path) -> Iterator[Followed]:
    made = Followed(rig, connect_worker, kafka, tmp_path, TABLES)
    made.follow({})
    made.stamp()
    rig.run(*ROWS)
    made.apply("run-1")
    yield made
    connect_worker.call("DELETE", f"/connectors/{made.base.pipeline.connector.name}")


@pytest.fixture
def take_out(monkeypatch: pytest.MonkeyPatch) -> TakeOut:
    """`take_out(module, name, instead)`: the rule is gone until the test ends."""

    def gone(module: Any, name: str, instead: Any) -> None:
        monkeypatch.setattr(module, name, instead)

    return gone


# --- INV 13: rows changed without row events -------------------------------------------------------------------------

# what is done → the table, and what the refusal says. Each leaves the table's definition as it was.
SILENT = {
    "a partition truncated": ("parts", ["ALTER TABLE parts TRUNCATE PARTITION p0"], "TRUNCATE PARTITION p0"),
    "a table renamed into place": (
        "plain",
        [
            "CREATE TABLE _plain_gho LIKE plain",
            "INSERT INTO _plain_gho VALUES (1, 'a1', 'other')",
            "RENAME TABLE plain TO _plain_del, _plain_gho TO plain",
        ],
        "RENAME TABLE _plain_gho TO plain",
    ),
    "a column dropped and added again": (
        "plain",
        ["ALTER TABLE plain DROP COLUMN b, ADD COLUMN b VARCHAR(9)"],
        "DROP COLUMN b, ADD COLUMN b",
    ),
    "values cut and the type put back": (
        "plain",
        [
            "SET SESSION sql_mode = ''",
            "ALTER TABLE plain MODIFY b VARCHAR(1)",
            "ALTER TABLE plain MODIFY b VARCHAR(9)",
        ],
        "MODIFY b VARCHAR",
    ),
    "the table truncated": ("plain", ["TRUNCATE TABLE plain"], "was truncated or rebuilt"),
}


@pytest.mark.parametrize("what", SILENT, ids=[name.replace(" ", "_") for name in SILENT])
def test_inv_13_ddl_that_changes_rows_without_row_events(what: str, followed: Followed, take_out: TakeOut) -> None:
    table, statements, said = SILENT[what]
    assert followed.differences(table) == ([], [])
    before = followed.rig.table(table).fingerprint
    seconds_pass(followed, table)
    followed.rig.run(*statements)
    assert followed.rig.table(table).fingerprint == before
    everywhere(followed)
    assert f"{followed.rig.schema}.{table}" in pending.pending(followed.base)["tables"]
    with pytest.raises(SchemaError, match=said):
        followed.apply("run-2")
    with pytest.raises(SchemaError, match=said):
        followed.apply("run-3")  # it stays so until the table is read again

    take_out(apply, "check_ddl", lambda start, *_args, **_kwargs: start)
    everywhere(followed)
    followed.apply("run-4")
    assert followed.differences(table) != ([], [])  # without any error


def seconds_pass(followed: Followed, table: str) -> None:
    """A table's time of creation is kept in whole seconds."""
    sql = (
        "SELECT NOW() > CREATE_TIME + INTERVAL 1 SECOND FROM information_schema.TABLES "
        f"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}'"
    )
    poll_until(lambda: followed.rig.run(sql)[0][0] or None, timeout=10, what="the clock to move on")


def everywhere(followed: Followed) -> None:
    """A row in every table, so that each has something to apply."""
    number = followed.rig.run("SELECT MAX(id) + 1 FROM kinds")[0][0]
    followed.rig.run(
        f"INSERT INTO kinds VALUES ({number}, 'blue')",
        f"INSERT INTO parts VALUES ({100 + number}, 'more')",
        f"INSERT INTO plain (id, a) VALUES ({100 + number}, 'more')",
    )


def test_inv_13_what_leaves_rows_alone_passes(followed: Followed) -> None:
    followed.rig.run(
        "ALTER TABLE plain ADD INDEX ia (a), COMMENT 'DROP COLUMN a, not'",
        "ALTER TABLE plain ADD COLUMN c INT",
        "ALTER TABLE parts ADD PARTITION (PARTITION p2 VALUES LESS THAN (5000))",
        "CREATE TABLE unrelated (id INT PRIMARY KEY)",
        "TRUNCATE TABLE unrelated",
        "INSERT INTO plain VALUES (3, 'a3', 'b3', 3)",
    )
    done = followed.apply("run-2")
    assert done["plain"]["added"] == ["c"]
    for table in TABLES:
        assert followed.differences(table) == ([], []), table
    assert pending.pending(followed.base)["tables"] == []


# --- INV 11, 12: decoded with another definition ---------------------------------------------------------------------


def recovering(followed: Followed) -> Run:
    """A recovery of all tables, opened, its connector stopped; no hold, so that DDL gets between its steps."""
    policy = replace(followed.base.pipeline.policy, hold=HoldPolicy(mode="off"))
    run = replace(followed.base, run_id="rec-1", pipeline=replace(followed.base.pipeline, policy=policy))
    control = run.clients.control
    control.acquire(run.run_id, 600)
    control.open_recovery(run.run_id, tables=list(run.pipeline.source.tables))
    connector.stop(run)
    return run


def last_image(followed: Followed, table: str, number: int) -> dict[str, Any]:
    """The newest row image in the topic of the row with this id."""
    topic = f"{followed.base.pipeline.connector.name}.{followed.rig.schema}.{table}"
    found = [
        json.loads(record.value) for record in read_all(followed.base.clients.transport.endpoint, topic) if record.value
    ]
    bodies = [event.get("payload", event) for event in found]
    return dict([body["after"] for body in bodies if (body["after"] or {}).get("id") == number][-1])


@pytest.mark.parametrize("ruled", [True, False], ids=["with_the_rule", "without_it"])
def test_inv_12_an_enum_label_added_in_front_while_the_connector_was_stopped(
    ruled: bool, followed: Followed, take_out: TakeOut
) -> None:
    if not ruled:
        take_out(offset, "compare_history", lambda *_: ())
    run = recovering(followed)
    followed.rig.run("ALTER TABLE kinds MODIFY kind ENUM('black', 'red', 'blue')")
    watermark.fence_and_watermark(run)
    differences = offset.reset_offset(run)["history_differences"]
    connector.resume(run)
    followed.rig.run("INSERT INTO kinds VALUES (77, 'red')")
    connector.wait_past(run, run.clients.source.position(), 60)
    assert bool(differences) is ruled
    assert last_image(followed, "kinds", 77)["kind"] == ("red" if ruled else "blue")
    assert streamed_ddl(run) == []  # what rebuilding the history writes is no DDL to apply


def streamed_ddl(run: Run) -> list[Ddl]:
    """What an apply that starts at the fence finds in the topic of schema changes."""
    topic, fence = settings(run).ddl_topic, run.clients.control.state()["recovery"]["fence"]
    ends = run.clients.transport.end_offsets([topic])[topic]
    start = fence.get(topic, {"partitions": {}})["partitions"]
    return run.clients.transport.schema_changes(topic, {p: (start.get(str(p), 0), end) for p, end in ends.items()})


@pytest.mark.parametrize("ruled", [True, False], ids=["with_the_rule", "without_it"])
def test_inv_11_a_definition_that_changed_between_w_and_the_offset_write(
    ruled: bool, followed: Followed, take_out: TakeOut
) -> None:
    """The row was written by the definition at W, and would be decoded by a history rebuilt from the newer one."""
    run = recovering(followed)
    watermark.fence_and_watermark(run)
    followed.rig.run(
        "INSERT INTO plain VALUES (77, 'first', 'second')",
        "ALTER TABLE plain MODIFY a VARCHAR(9) AFTER b",
    )
    if ruled:
        with pytest.raises(SchemaError, match=r"plain changed since the watermark"):
            offset.reset_offset(run)
        assert "offset_written_at" not in {k for k, v in run.clients.control.state()["recovery"].items() if v}
        return
    take_out(offset, "_unchanged", lambda given, document: captured(given, document["tables"]))
    offset.reset_offset(run)
    connector.resume(run)
    image = last_image(followed, "plain", 77)
    assert (image["a"], image["b"]) == ("second", "first")  # the source has them the other way round
