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
from kafka import KafkaAdminClient

from airflow_cdc.connectors.debezium import config_rules
from airflow_cdc.connectors.debezium.schema_changes import read_statements
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.pipeline import HoldPolicy
from airflow_cdc.decisions.apply.ddl import Ddl
from airflow_cdc.flows import backlog as pending
from airflow_cdc.flows import connector, watermark
from airflow_cdc.flows import reset_offset as offset
from airflow_cdc.flows.capture import captured, settings
from airflow_cdc.flows.reached import wait_past
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.apply import context
from airflow_cdc.transports.kafka.wire import read_all
from stack.process import wait_until
from tests.integration.followed import Followed
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from stack.connect import ConnectWorker

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

PLAIN = "(id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9))"
TABLES = {
    "parts": "CREATE TABLE parts (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9)) PARTITION BY RANGE (id) "
    "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (1000))",
    **{
        name: f"CREATE TABLE {name} {PLAIN}"
        for name in ("renamed", "again", "cut", "emptied", "indexed", "noted", "rebuilt", "plain")
    },
    "kinds": "CREATE TABLE kinds (id INT PRIMARY KEY, kind ENUM('red', 'blue'))",
}
ROWS = (
    *(
        f"INSERT INTO {name} VALUES (1, 'a1', 'b1'), (2, 'a2', 'b2'), (50, 'a', 'b')"
        for name in TABLES
        if name != "kinds"
    ),
    "INSERT INTO kinds VALUES (1, 'red')",
)

TakeOut = Callable[[Any, str, Any], None]


@pytest.fixture
def followed(rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path) -> Iterator[Followed]:
    made = Followed(rig, connect_worker, kafka, tmp_path, TABLES)
    # what stops a table is looked at here, and not mended by reading it again
    pipeline = made.base.pipeline
    stopping = replace(pipeline, policy=replace(pipeline.policy, schema_change="stop"))
    made.base = replace(made.base, pipeline=stopping)
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

# table → what is done to it, and what the refusal says. Each leaves the table's definition as it was.
SILENT = {
    "parts": (["ALTER TABLE parts TRUNCATE PARTITION p0"], "TRUNCATE PARTITION p0"),
    "renamed": (
        [
            "CREATE TABLE _renamed_gho LIKE renamed",
            "INSERT INTO _renamed_gho VALUES (1, 'a1', 'other')",
            "RENAME TABLE renamed TO _renamed_del, _renamed_gho TO renamed",
        ],
        "RENAME TABLE renamed TO _renamed_del",
    ),
    "again": (["ALTER TABLE again DROP COLUMN b, ADD COLUMN b VARCHAR(9)"], "column b was dropped and added again"),
    "cut": (
        [
            "SET SESSION sql_mode = ''",
            "ALTER TABLE cut MODIFY b VARCHAR(1)",
            "ALTER TABLE cut MODIFY b VARCHAR(9)",
        ],
        "column b .* not a lossless widening",
    ),
    "emptied": (["TRUNCATE TABLE emptied"], "was truncated or rebuilt"),
    "indexed": (["TRUNCATE TABLE indexed", "CREATE INDEX i ON indexed (a)"], "was truncated or rebuilt"),
    "noted": (["ALTER TABLE noted COMMENT = 'x'", "TRUNCATE TABLE noted"], "was truncated or rebuilt"),
    "rebuilt": (["TRUNCATE TABLE rebuilt", "ALTER TABLE rebuilt FORCE"], "perhaps by ALTER TABLE rebuilt FORCE"),
}


def test_inv_13_ddl_that_changes_rows_without_row_events(followed: Followed, take_out: TakeOut) -> None:
    before = {table: followed.rig.table(table).fingerprint for table in SILENT}
    for statements, _ in SILENT.values():
        followed.rig.run(*statements)
    assert before == {table: followed.rig.table(table).fingerprint for table in SILENT}
    everywhere(followed)
    assert {f"{followed.rig.schema}.{table}" for table in SILENT} <= set(pending.pending(followed.base)["tables"])
    for table, (_, said) in SILENT.items():
        with pytest.raises(SchemaError, match=said):
            followed.apply(f"run-{table}", table)
    with pytest.raises(SchemaError, match=SILENT["parts"][1]):
        followed.apply("run-3", "parts")  # it stays so until the table is read again

    take_out(context, "check_ddl", lambda start, *_args, **_kwargs: start)
    followed.apply("run-4")
    for table in SILENT:
        assert followed.differences(table) != ([], []), table  # without any error
    assert followed.differences("plain") == ([], [])


def everywhere(followed: Followed) -> None:
    """A row in every table, so that each has something to apply."""
    others = (f"INSERT INTO {name} (id, a) VALUES (100, 'more')" for name in TABLES if name != "kinds")
    followed.rig.run(*others, "INSERT INTO kinds VALUES (100, 'blue')")


def test_inv_13_what_leaves_rows_alone_passes(followed: Followed) -> None:
    followed.rig.run(
        "ALTER TABLE plain ADD INDEX ia (a)",
        "ALTER TABLE plain COMMENT 'DROP COLUMN a, not'",
        "ALTER TABLE plain ADD COLUMN c INT",
        "CREATE INDEX ib ON again (b)",
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
    kafka: Any = followed.base.clients.transport.endpoint
    found = [json.loads(record.value) for record in read_all(kafka, topic) if record.value]
    bodies = [event.get("payload", event) for event in found]
    return dict([body["after"] for body in bodies if (body["after"] or {}).get("id") == number][-1])


@pytest.mark.parametrize(
    "ruled", [pytest.param(True, id="with_the_rule"), pytest.param(False, marks=pytest.mark.slow, id="without_it")]
)
def test_inv_12_an_enum_label_added_in_front_while_the_connector_was_stopped(
    ruled: bool, followed: Followed, take_out: TakeOut
) -> None:
    if not ruled:
        take_out(config_rules, "compare_history", lambda *_: ())
    run = recovering(followed)
    followed.rig.run("ALTER TABLE kinds MODIFY kind ENUM('black', 'red', 'blue')")
    watermark.fence_and_watermark(run)
    differences = offset.reset_offset(run)["history_differences"]
    connector.resume(run)
    followed.rig.run("INSERT INTO kinds VALUES (77, 'red')")
    wait_past(run, run.clients.source.position(), 60)
    assert bool(differences) is ruled
    assert last_image(followed, "kinds", 77)["kind"] == ("red" if ruled else "blue")
    assert streamed_ddl(run) == []  # what rebuilding the history writes is no DDL to apply


def test_inv_12_a_schema_history_whose_topic_is_gone_is_written_anew(followed: Followed) -> None:
    run = recovering(followed)
    topic, transport = str(settings(run).history_topic), run.clients.transport
    admin = KafkaAdminClient(bootstrap_servers=followed.kafka)
    admin.delete_topics([topic])
    admin.close()
    wait_until(lambda: not transport.topic_states([topic]) or None, timeout=60, what="the history to be gone")
    watermark.fence_and_watermark(run)
    differences = offset.reset_offset(run)["history_differences"]
    assert set(differences) == set(run.pipeline.source.tables)
    assert connector.resume(run)["history_rebuilt"]
    followed.rig.run("INSERT INTO kinds VALUES (77, 'red')")
    wait_past(run, run.clients.source.position(), 60)
    assert last_image(followed, "kinds", 77)["kind"] == "red"


def streamed_ddl(run: Run) -> list[Ddl]:
    """What an apply that starts at the fence finds in the topic of schema changes."""
    topic, fence = settings(run).ddl_topic or "", run.clients.control.state()["recovery"]["fence"]
    ends = run.clients.transport.end_offsets([topic])[topic]
    start = fence.get(topic, {"partitions": {}})["partitions"]
    ranges = {p: (start.get(str(p), 0), end) for p, end in ends.items()}
    return read_statements(run.clients.transport.records(topic, ranges), topic)


@pytest.mark.parametrize(
    "ruled", [pytest.param(True, id="with_the_rule"), pytest.param(False, marks=pytest.mark.slow, id="without_it")]
)
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
        assert not run.clients.control.state()["recovery"].get("written_at")
        return
    take_out(offset, "_unchanged", lambda given, recovery: captured(given, list(recovery.tables)))
    offset.reset_offset(run)
    with pytest.raises(SchemaError, match=r"plain changed while the connector's schema history was rebuilt"):
        connector.resume(run)
    take_out(connector, "_as_at_w", lambda *_: None)
    connector.resume(run)
    image = last_image(followed, "plain", 77)
    assert (image["a"], image["b"]) == ("second", "first")  # the source has them the other way round
