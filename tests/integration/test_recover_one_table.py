"""INV 39, with a real connector: one table of a pipeline is recovered, and the others go on through it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_cdc.core.codec import plain
from airflow_cdc.core.pipeline import HoldPolicy
from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import backlog as pending
from airflow_cdc.flows import connector, watermark
from airflow_cdc.flows import reset_offset as offset
from airflow_cdc.flows.close import close
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.offsets import stored_value
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.verify import verify
from tests.diagnosing import diagnose, make_plan
from tests.integration.followed import Followed
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from stack.connect import ConnectWorker

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

COLUMNS = "(id INT PRIMARY KEY, a VARCHAR(9))"
TABLES = {"others": f"CREATE TABLE others {COLUMNS}", "broken": f"CREATE TABLE broken {COLUMNS}"}


@pytest.fixture
def followed(rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path) -> Iterator[Followed]:
    """Two tables that are followed and applied; then a third that the pipeline has never filled."""
    made = Followed(rig, connect_worker, kafka, tmp_path, TABLES)
    made.follow({})
    made.stamp()
    rig.run("INSERT INTO others VALUES (1, 'a')", "INSERT INTO broken VALUES (1, 'a')")
    made.apply("run-1")
    rig.run(f"CREATE TABLE added {COLUMNS}", "INSERT INTO added VALUES (1, 'a'), (2, 'b')")
    base = made.base
    source = replace(base.pipeline.source, tables=(*base.pipeline.source.tables, f"{rig.schema}.added"))
    policy = replace(base.pipeline.policy, hold=HoldPolicy(mode="off"))
    made.base = replace(base, pipeline=replace(base.pipeline, source=source, policy=policy))
    yield made
    connect_worker.call("DELETE", f"/connectors/{base.pipeline.connector.name}")


def rows(followed: Followed, table: str) -> list[int]:
    return sorted(followed.rig.lake.read_arrow(followed.rig.schema, table).column("id").to_pylist())


def test_inv_39_an_added_table_is_read_alone_and_the_others_are_applied_meanwhile(followed: Followed) -> None:
    rig, run = followed.rig, replace(followed.base, run_id="rec-1")
    added, others = f"{rig.schema}.added", f"{rig.schema}.others"
    decision = decide(run)
    assert (decision["diagnosis"]["code"], decision["tables"]) == ("TABLE_ADDED", [added])
    opened = open_recovery(run, Decision.from_json(decision))
    connector.stop(run)
    stored = stored_value(run)
    rig.run("INSERT INTO others VALUES (2, 'before W')", "UPDATE added SET a = 'b2' WHERE id = 2")
    watermark.fence_and_watermark(run)
    rig.run("INSERT INTO others VALUES (3, 'after W')", "DELETE FROM added WHERE id = 1")
    recover(run, rig.spark)
    offset.reset_offset(run)
    assert stored_value(run) == stored, "the connector's offset is of all tables"
    connector.resume(run)

    # the recovery is open, and its lease held
    assert pending.pending(run)["recovery"] is None
    applied = followed.apply("apply-1")
    assert set(applied) == {"others", "broken"}
    assert rows(followed, "others") == [1, 2, 3], "with what was written while the connector was stopped before W"

    rig.run("INSERT INTO added VALUES (3, 'c')")
    assert verify(run, rig.spark)["verdict"] == "MATCH"
    publish(run)
    close(run)
    assert rows(followed, "added") == [2, 3]
    facts = run.clients.control.facts()
    assert (facts.required.of(added), facts.required.of(others)) == (opened["epoch"], opened["epoch"] - 1)
    assert diagnose(observe(run, watch=0.0)).code == "HEALTHY"
    rig.run("INSERT INTO added VALUES (4, 'd')", "INSERT INTO others VALUES (4, 'd')")
    followed.apply("apply-2")
    for table in ("others", "broken", "added"):
        assert followed.differences(table) == ([], []), table


def test_inv_11_a_column_renamed_between_the_offset_and_the_watermark_is_read_in_its_turn(followed: Followed) -> None:
    """A rebuilt history has no column of the old name, at whose CHANGE Debezium fails."""
    rig, run = followed.rig, replace(followed.base, run_id="rec-1")
    rig.run("INSERT INTO others VALUES (7, 'read')")
    decision = decide(run)
    open_recovery(run, Decision.from_json(decision))
    connector.stop(run)
    rig.run(
        "ALTER TABLE added CHANGE a c VARCHAR(9)", "INSERT INTO added VALUES (3, 'c')", "DELETE FROM added WHERE id = 1"
    )
    watermark.fence_and_watermark(run)
    recover(run, rig.spark)
    assert offset.reset_offset(run)["history_differences"] == {}
    connector.resume(run)
    rig.run("INSERT INTO added VALUES (4, 'd')")
    assert verify(run, rig.spark)["verdict"] == "MATCH"
    publish(run)
    close(run)
    followed.apply("apply-1")
    assert followed.differences("added") == ([], [])


def test_inv_39_a_recovery_that_moves_the_offset_asks_a_new_epoch_of_every_table(followed: Followed) -> None:
    """The changes between the two positions are of all tables: one that is not read again has lost some."""
    rig, run = (
        followed.rig,
        replace(followed.base, run_id="rec-1", options=RunOptions(tables=(f"{followed.rig.schema}.broken",))),
    )
    seen = observe(run, watch=0.0)
    found = replace(diagnose(seen), code="GTID_PURGED", strategies=("full_snapshot",))
    plan = plain(make_plan(found, run.pipeline.policy, seen))
    decision: dict[str, Any] = {
        "tables": run.tables,
        "pipeline_hash": run.pipeline.hash,
        "diagnosis": plain(found),
        "plan": plan,
    }
    open_recovery(run, Decision.from_json(decision))
    connector.stop(run)
    rig.run("INSERT INTO others VALUES (2, 'jumped over')")
    _through(run, rig)
    now = diagnose(observe(run, watch=0.0))
    assert now.code == "EPOCH_BEHIND"
    assert f"stamp of {rig.schema}.others" in now.evidence
    assert f"stamp of {rig.schema}.broken" not in now.evidence


def _through(run: Run, rig: Rig) -> None:
    """The steps from the watermark to the end."""
    watermark.fence_and_watermark(run)
    recover(run, rig.spark)
    offset.reset_offset(run)
    connector.resume(run)
    verify(run, rig.spark)
    publish(run)
    close(run)


def test_a_table_that_another_program_filled_is_taken_over_once_a_person_agreed_and_its_later_commit_is_a_problem(
    followed: Followed,
) -> None:
    """The other program's rows go with the recovery that a person approved; what it commits after that is named."""
    rig, run = followed.rig, replace(followed.base, run_id="rec-1")
    added = f"{rig.schema}.added"
    theirs = pa.table({"id": pa.array([1, 99], pa.int32()), "a": ["a", "theirs alone"]})
    rig.lake.ensure_table(rig.schema, "added", [("id", "int"), ("a", "string")])
    rig.lake.table(rig.schema, "added").append(theirs)

    decision = decide(run)
    plan = decision["plan"]
    assert (decision["diagnosis"]["code"], plan["needs_approval"]) == ("TABLE_ADDED", True)
    assert (
        f"tables that another program wrote: {added} (version {rig.lake.head(rig.schema, 'added')} of "
        in plan["reason"]
    )
    assert rows(followed, "added") == [1, 99]

    open_recovery(run, Decision.from_json(decision))
    connector.stop(run)
    _through(run, rig)
    assert rows(followed, "added") == [1, 2]
    assert diagnose(observe(run, watch=0.0)).code == "HEALTHY"

    rig.lake.table(rig.schema, "added").append(theirs.slice(1, 1))
    rig.run("INSERT INTO added VALUES (3, 'c')")
    followed.apply("apply-1")
    found = diagnose(observe(run, watch=0.0))
    assert (found.code, found.exit_status) == ("SINK_WRITTEN_BY_OTHERS", 1)
    assert f"commit in the sink of {added}" in found.evidence
