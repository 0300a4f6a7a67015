"""Ways in which a recovery could publish what differs in silence, on a real source and lake.

Each is shown with the rule that prevents it and with that rule taken out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.core.errors import SchemaError, StaleHeadError
from airflow_cdc.core.recovery import Decision
from airflow_cdc.core.topics import NewestRecord
from airflow_cdc.flows import open as opening
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Run
from airflow_cdc.sinks.iceberg import client as lake_module
from airflow_cdc.sinks.iceberg.snapshots import head_of
from airflow_cdc.spark_apps.recover import recover
from tests.integration.apply_scene import Connector
from tests.integration.rig import Rig
from tests.recoveries import advance_to

TakeOut = Callable[[Any, str, Any], None]
ITEMS = "CREATE TABLE items (id INT PRIMARY KEY, secret VARCHAR(20))"


@pytest.fixture
def take_out(monkeypatch: pytest.MonkeyPatch) -> TakeOut:
    """`take_out(owner, name, instead)`: the rule is gone until the test ends."""

    def gone(owner: Any, name: str, instead: Any) -> None:
        monkeypatch.setattr(owner, name, instead)

    return gone


class NothingSent:
    """A transport whose topics have no record yet."""

    def newest(self, _: Iterable[str]) -> dict[str, NewestRecord]:
        return {}


@pytest.fixture
def run(rig: Rig, tmp_path: Path) -> Run:
    """An open recovery of `items`, W taken."""
    rig.run(ITEMS, "INSERT INTO items VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    rig.stage(rig.table("items"), "to_make_the_target")
    made = rig.recovery_run(["items"], tmp_path, Connector(rig.schema), NothingSent())
    made.clients.control.acquire(made.run_id, 600)
    made.clients.control.open_recovery(made.run_id, tables=list(made.pipeline.source.tables))
    advance_to(
        made.clients.control,
        made.run_id,
        watermark=rig.source.watermark().to_json(),
        fence={"p.items": {"id": "t1", "partitions": {"0": 7}}},
        definitions={f"{rig.schema}.items": rig.table("items").fingerprint},
    )
    return made


def items(rig: Rig) -> list[int]:
    return sorted(rig.lake.read_arrow(rig.schema, "items").column("id").to_pylist())


def verified(rig: Rig, run: Run, facts: dict[str, Any]) -> None:
    """What `verify` writes for a table that matches."""
    told = facts["stages"][f"{rig.schema}.items"]
    proven = {"verdict": "MATCH", "snapshot_id": told["snapshot_id"]}
    proven |= dict.fromkeys(("source_rows", "sink_rows"), told["rows"])
    advance_to(run.clients.control, run.run_id, verified={f"{rig.schema}.items": proven})


# --- INV 20: a redo reads the source again ---------------------------------------------------------------------------


def deleted_meanwhile(rig: Rig) -> None:
    """Row 2 goes from the source, and another writer of the sink follows it there."""
    rig.run("DELETE FROM items WHERE id = 2")
    rig.spark.sql(f"INSERT INTO lake.{rig.schema}.items VALUES (1, 'one'), (3, 'three')")


def test_inv_20_a_redo_on_a_newer_head_reads_the_source_again(rig: Rig, run: Run) -> None:
    first = recover(run, rig.spark)
    verified(rig, run, first)
    deleted_meanwhile(rig)
    with pytest.raises(StaleHeadError, match=r"by commits \d+ append.*clear the task recover") as caught:
        publish(run)
    assert len(caught.value.commits) == 1
    assert items(rig) == [1, 3]

    again = recover(run, rig.spark)
    label = again["stages"][f"{rig.schema}.items"]["label"]
    assert rig.lake.open_stage(rig.schema, "items", label).base_head == rig.lake.head(rig.schema, "items")
    verified(rig, run, again)
    publish(run)
    assert items(rig) == [1, 3]


def test_inv_20_without_the_rule_a_deleted_row_comes_back(rig: Rig, run: Run, take_out: TakeOut) -> None:
    verified(rig, run, recover(run, rig.spark))
    deleted_meanwhile(rig)
    take_out(lake_module, "check_main", lambda target, *_args, **_kwargs: head_of(target))
    publish(run)
    assert items(rig) == [1, 2, 3]  # the source has no row 2


def test_inv_20_what_compaction_moved_is_not_read_again(rig: Rig, run: Run) -> None:
    rig.spark.sql(f"INSERT INTO lake.{rig.schema}.items VALUES (8, 'a')")
    rig.spark.sql(f"INSERT INTO lake.{rig.schema}.items VALUES (9, 'a')")
    first = recover(run, rig.spark)
    rig.spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{rig.schema}.items', options => map('rewrite-all', 'true'))"
    )
    verified(rig, run, first)
    publish(run)
    assert items(rig) == [1, 2, 3]


# --- INV 21: what the connector masks is never read past it ----------------------------------------------------------


def masked(rig: Rig, run: Run) -> None:
    connector: Any = run.clients.connector
    connector.settings["column.mask.with.5.chars"] = f"{rig.schema}.items.secret"


def test_inv_21_a_masked_column_is_refused_before_anything_is_changed_or_read(rig: Rig, run: Run) -> None:
    masked(rig, run)
    with pytest.raises(SchemaError, match=r"column.mask.with.5.chars hides or changes secret"):
        opening.open_recovery(
            run, Decision.from_json({"tables": list(run.pipeline.source.tables), "plan": {"strategy": "full_snapshot"}})
        )
    stages = len(rig.lake.stages(rig.schema, "items"))
    with pytest.raises(SchemaError, match=r"column.mask.with.5.chars hides or changes secret"):
        recover(run, rig.spark)
    assert len(rig.lake.stages(rig.schema, "items")) == stages


def test_inv_21_without_the_rule_the_lake_holds_what_was_masked(rig: Rig, run: Run, take_out: TakeOut) -> None:
    masked(rig, run)
    take_out(ConnectorSettings, "check_table", lambda *_: None)
    told = recover(run, rig.spark)["stages"][f"{rig.schema}.items"]
    stage = rig.lake.open_stage(rig.schema, "items", told["label"])
    assert (1, "one") in rig.staged(stage)


# --- maintenance by others between the steps of a recovery -----------------------------------------------------------


def test_a_column_added_to_the_sink_by_hand_is_no_dead_end(rig: Rig, run: Run) -> None:
    verified(rig, run, recover(run, rig.spark))
    rig.spark.sql(f"ALTER TABLE lake.{rig.schema}.items ADD COLUMN mine STRING")
    with pytest.raises(StaleHeadError, match="schema was changed since staging"):
        publish(run)
    verified(rig, run, recover(run, rig.spark))
    publish(run)
    assert items(rig) == [1, 2, 3]
    assert [field.name for field in rig.lake.table(rig.schema, "items").schema().fields] == ["id", "secret"]


def test_expiry_during_a_recovery_keeps_what_the_stage_builds_on(rig: Rig, run: Run) -> None:
    rig.spark.sql(f"INSERT INTO lake.{rig.schema}.items VALUES (8, 'a')")
    first = recover(run, rig.spark)
    place = f"{rig.schema}.items"
    rig.spark.sql(f"CALL lake.system.rewrite_data_files(table => '{place}', options => map('rewrite-all', 'true'))")
    rig.spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{place}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    verified(rig, run, first)
    publish(run)
    assert items(rig) == [1, 2, 3]
    assert rig.spark.table(f"lake.{place}").count() == 3


def test_main_put_back_during_a_recovery_is_named_and_read_again(rig: Rig, run: Run) -> None:
    place = f"{rig.schema}.items"
    before = rig.lake.head(rig.schema, "items")
    rig.spark.sql(f"INSERT INTO lake.{place} VALUES (8, 'a')")
    verified(rig, run, recover(run, rig.spark))
    rig.spark.sql(f"CALL lake.system.rollback_to_snapshot('{place}', {before})")
    with pytest.raises(StaleHeadError, match="main moved"):
        publish(run)
    verified(rig, run, recover(run, rig.spark))
    publish(run)
    assert items(rig) == [1, 2, 3]


def test_orphan_removal_that_takes_the_stages_files_fails_the_recovery_and_not_the_readers(rig: Rig, run: Run) -> None:
    """Files that no snapshot of main names are orphans to it, once they are old enough: those of a stage too."""
    place = f"{rig.schema}.items"
    rig.spark.sql(f"INSERT INTO lake.{place} VALUES (8, 'a')")
    label = recover(run, rig.spark)["stages"][place]["label"]
    folder = Path(rig.lake.table(rig.schema, "items").location().removeprefix("file://"))
    for path in folder.rglob("*.*"):
        os.utime(path, (time.time() - 5 * 86400,) * 2)
    rig.spark.sql(f"CALL lake.system.remove_orphan_files(table => '{place}')")
    with pytest.raises(Exception, match=r"does not exist|NotFound|FileNotFound|read the metadata of"):
        rig.staged(rig.lake.open_stage(rig.schema, "items", label))  # what verify reads: it can't end in MATCH
    assert [tuple(row) for row in rig.spark.table(f"lake.{place}").collect()] == [(8, "a")]
