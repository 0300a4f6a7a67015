"""The application `verify`: it catches up, compares, and says what may be published."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.core.errors import VerificationError
from airflow_cdc.core.recovery import VerifiedTable
from airflow_cdc.core.topics import TopicOffsets, TopicState, fence_to_json
from airflow_cdc.decisions.apply.start import FINGERPRINT
from airflow_cdc.flows.publish import publish
from airflow_cdc.kinds import read_position
from airflow_cdc.reports.data_docs import make_page
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.spark_apps import verify as application
from airflow_cdc.spark_apps.adapters import kafka
from airflow_cdc.spark_apps.adapters.iceberg import IcebergWriter
from airflow_cdc.spark_apps.apply import batch, few
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.stages import catch_up, passes
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from tests import apply_support
from tests.apply_support import no_session
from tests.integration.rig import Rig
from tests.integration.verify_support import (
    FILL,
    ORDERS,
    Scene,
    five_changes,
    order,
    reader,
)
from tests.recoveries import advance_to

if TYPE_CHECKING:
    pass


class FakeConnect:
    """A connector that has always read everything."""

    codec = MySqlCodec()

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    def raw_config(self, _name: str) -> dict[str, str]:
        return {**apply_support.CONFIG, "database.include.list": self.rig.schema}

    def committed_offset(self, _name: str, _server: str) -> dict[str, Any]:
        at = mysql_position(self.rig.source.position().position)
        return {"file": at.file, "pos": at.pos, "gtids": str(at.gtids), "ts_sec": 1}


class FakeTransport:
    """Topics in memory."""

    endpoint = KafkaEndpoint("127.0.0.1:1")

    def __init__(self, topics: Mapping[str, apply_support.Topic]) -> None:
        self.topics = topics

    def topic_states(self, names: list[str]) -> dict[str, TopicState]:
        return {name: self.topics[name].state for name in names if name in self.topics}

    gathered = topic_states

    def records(self, _topic: str, _ranges: Any) -> list[Any]:
        return []


@pytest.fixture
def recovered(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Scene]]:
    """A recovery of `orders` whose stage is read and whose connector is resumed; changes wait in the topic.

    `others`: DDL of more tables, whose topics stay empty.
    """

    def make(ddl: str = ORDERS, *others: str) -> tuple[Any, Scene]:
        rig.run(ddl, FILL, *others)
        tables = [rig.table(text.split()[2]) for text in (ddl, *others)]
        topics = {topic.name: topic for topic in map(apply_support.Topic, tables)}
        transport = FakeTransport(topics)
        run = rig.recovery_run([table.name for table in tables], tmp_path, FakeConnect(rig), transport)
        run.clients.control.acquire(run.run_id, 600)
        epoch = run.clients.control.open_recovery(run.run_id, tables=[table.full_name for table in tables])
        taken = rig.source.watermark()
        fence = {topic.name: TopicOffsets(topic.id, {0: 0}) for topic in topics.values()}
        stages = {}
        for table in tables:
            reading = rig.reading(table, taken, f"recov_{epoch}_1")
            reading = replace(reading, stamp=replace(reading.stamp, epoch=epoch, offsets=fence))
            stages[table.full_name] = reading.stage, application_read(rig, reading)
        advance_to(
            run.clients.control,
            run.run_id,
            watermark=taken.to_json(),
            fence=fence_to_json(fence),
            stages={
                name: {"label": stage.label, "rows": 1000, "snapshot_id": head}
                for name, (stage, head) in stages.items()
            },
            resumed_at="2026-11-21T10:00:00+00:00",
        )
        read = reader(*topics.values())
        monkeypatch.setattr(kafka, "read_topics", lambda spark, _endpoint, ranges, **_: read(spark, ranges))
        monkeypatch.setattr(kafka, "read_few", lambda _endpoint, *wanted: apply_support.few_of(topics, *wanted))
        orders = tables[0]
        stage, head = stages[orders.full_name]
        return run, Scene(rig, orders, stage, head, next(iter(topics.values())), taken)

    return make


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The tables that each batch of verify brings up to date."""
    batches: list[list[str]] = []

    def apply_batch(context: Any, targets: list[Any], *args: Any) -> Any:
        batches.append([target.table.name for target in targets])
        return batch.apply_batch(context, targets, *args)

    monkeypatch.setattr(catch_up, "apply_batch", apply_batch)
    return batches


def application_read(rig: Rig, reading: Any) -> int:
    from airflow_cdc.spark_apps.driver.progress import Progress
    from airflow_cdc.spark_apps.snapshot.read import read_table

    return read_table(rig.tools(), reading, Progress({reading.table.full_name: 0}))


def test_the_application_catches_up_compares_and_says_what_may_be_published(
    recovered: Callable[[], tuple[Any, Scene]],
) -> None:
    run, made = recovered()
    five_changes(made)
    facts = application.verify(run, made.rig.spark, {})
    assert facts["verdict"] == "MATCH"
    told = verified(run)[made.table.full_name]
    assert told.verdict == "MATCH"
    stage = made.rig.lake.open_stage(made.rig.schema, "orders", told.stage)
    assert told.snapshot_id == made.rig.lake.stage_head(stage)
    assert (told.report.source_rows, told.report.sink_rows) == (1000, 1000)
    page = Path(facts["data_docs"])
    assert json.loads((page.parent.parent / "verify.json").read_text())["verdict"] == "MATCH"
    assert not page.exists()  # made when the run ends: nothing waits for it
    make_page(ReportStore(run.report_dir), run.pipeline.name, run.run_id)
    assert made.table.full_name in page.read_text()
    assert run.clients.control.ledger_get(run.run_id)["verify"]["tables"] == {made.table.full_name: "MATCH"}


def test_a_wrong_row_in_the_branch_is_named_and_nothing_may_be_published(
    recovered: Callable[[], tuple[Any, Scene]],
) -> None:
    run, made = recovered()
    made.sink("UPDATE {} SET qty = 77 WHERE id = 400")
    with pytest.raises(VerificationError, match=r"orders is MISMATCH .*different: 400") as caught:
        application.verify(run, made.rig.spark, {})
    assert caught.value.verdict == "MISMATCH"
    told = verified(run)[made.table.full_name].report
    assert (told.verdict, told.different, told.samples) == ("MISMATCH", 1, ("different: 400",))


def test_a_table_without_events_is_stamped_in_one_commit_without_spark(
    recovered: Callable[..., tuple[Any, Scene]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, made = recovered(ORDERS, "CREATE TABLE quiet (id INT PRIMARY KEY, v INT)")
    five_changes(made)
    fitted = list[str]()
    fit = IcebergWriter.fit

    def counted(self: IcebergWriter, spark: Any, stage: Any, *args: Any) -> Any:
        fitted.append(stage.table)
        return fit(self, spark, stage, *args)

    monkeypatch.setattr(IcebergWriter, "fit", counted)
    monkeypatch.setattr(few, "FEW", 0)
    assert application.verify(run, made.rig.spark, {})["verdict"] == "MATCH"
    assert fitted == ["orders"]
    lake, told = made.rig.lake, verified(run)[f"{made.rig.schema}.quiet"]
    stage = lake.open_stage(made.rig.schema, "quiet", told.stage)
    read, stamped = lake.stage_chain(stage)
    assert (read.ledger and read.ledger.complete, stamped.ledger, stamped.operation) == (True, None, "append")
    assert stamped.stamp is not None
    assert FINGERPRINT in stamped.summary


def test_small_tables_with_few_plain_events_are_verified_without_a_session(
    recovered: Callable[..., tuple[Any, Scene]],
) -> None:
    run, made = recovered(ORDERS, "CREATE TABLE quiet (id INT PRIMARY KEY, v INT)")
    five_changes(made)
    spark, asked = no_session()
    told = application.verify(run, spark, {})
    assert (told["verdict"], set(told["tables"].values())) == ("MATCH", {"MATCH"})
    assert (asked, next(iter(told["expectations"].values()))["failures"]) == ([], [])


SJIS = ORDERS.replace("name VARCHAR(40)", "name VARCHAR(40) CHARACTER SET sjis")


def test_inv_31_letters_of_the_catch_up_are_read_again_and_keep_no_recovery_open(
    recovered: Callable[..., tuple[Any, Scene]],
) -> None:
    """A dash in sjis arrives as another one, so its events become dead letters; apply waits for the recovery's end."""
    run, made = recovered(SJIS)
    for number in (10, 2000):
        made.source(f"REPLACE INTO orders VALUES ({number}, _sjis X'815C', 1, NULL)")
    made.events.update(order(10), id=10, name="\N{EM DASH}", qty=1, doc=None)
    made.events.create(id=2000, name="\N{EM DASH}", qty=1, doc=None)
    made.source("UPDATE orders SET qty = 50 WHERE id = 11")
    made.events.update(order(11), **order(11, qty=50))
    assert application.verify(run, made.rig.spark, {})["verdict"] == "MATCH"
    assert len(run.clients.sink.unresolved_letters(run.pipeline.name)) == 2, "until the next apply"
    publish(run)
    rows = {row["id"]: row for row in made.rig.lake.read_arrow(made.rig.schema, "orders").to_pylist()}
    assert [rows[number]["name"] for number in (10, 2000)] == ["\N{HORIZONTAL BAR}"] * 2
    assert rows[11]["qty"] == 50


OTHER = ORDERS.replace("orders", "others")


def test_inv_31_only_the_table_with_such_letters_catches_up_again(
    recovered: Callable[..., tuple[Any, Scene]], applied: list[list[str]]
) -> None:
    run, made = recovered(SJIS, OTHER)
    made.source("REPLACE INTO orders VALUES (10, _sjis X'815C', 1, NULL)")
    made.events.update(order(10), id=10, name="\N{EM DASH}", qty=1, doc=None)
    assert application.verify(run, made.rig.spark, {})["verdict"] == "MATCH"
    assert applied == [["orders", "others"], ["orders"]]


def test_only_the_table_that_differs_is_compared_once_more(
    recovered: Callable[..., tuple[Any, Scene]], applied: list[list[str]]
) -> None:
    run, made = recovered(ORDERS, OTHER)
    made.sink("UPDATE {} SET qty = 77 WHERE id = 400")
    with pytest.raises(VerificationError, match=r"orders is MISMATCH .*different: 400"):
        application.verify(run, made.rig.spark, {})
    assert applied == [["orders", "others"], ["orders"]]
    assert {name.split(".")[1]: told.verdict for name, told in verified(run).items()} == {
        "orders": "MISMATCH",
        "others": "MATCH",
    }


def test_inv_31_a_record_that_cannot_be_read_again_is_told_with_its_reason(
    recovered: Callable[..., tuple[Any, Scene]],
) -> None:
    run, made = recovered()
    made.events.raw(b"no key", b"no event")
    with pytest.raises(
        VerificationError, match=r"INCONCLUSIVE .*first: 1 records are in the dead-letter table, the first for"
    ):
        application.verify(run, made.rig.spark, {})


def test_verify_waits_for_the_connector_and_no_longer(recovered: Callable[[], tuple[Any, Scene]]) -> None:
    run, made = recovered()
    advance_to(run.clients.control, run.run_id, resumed_at=None)
    with pytest.raises(Exception, match="the connector to be resumed"):
        application.verify(run, made.rig.spark, {"resume_seconds": 1})
    advance_to(run.clients.control, run.run_id, resumed_at="2026-11-21T10:00:00+00:00")
    application.wait_resumed(run, 1)


def test_inv_38_what_an_orphan_of_verify_appends_is_never_published(
    recovered: Callable[[], tuple[Any, Scene]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task was killed and its driver lives: what that one applies comes between the catch-up and the comparison of
    the next try.
    """
    run, made = recovered()
    five_changes(made)
    application.verify(run, made.rig.spark, {})
    first = verified(run)[made.table.full_name]
    orphan = made.rig.lake.open_stage(made.rig.schema, "orders", first.stage)
    real = catch_up.catch_up

    def beside(*args: Any, **kwargs: Any) -> Any:
        caught = real(*args, **kwargs)
        made.rig.spark.sql(f"INSERT INTO {orphan.spark_name(made.rig.lake.name)} VALUES (9999, 'ghost', 1, NULL)")
        return caught

    monkeypatch.setattr(passes, "catch_up", beside)
    assert application.verify(run, made.rig.spark, {})["verdict"] == "MATCH"
    second = verified(run)[made.table.full_name]
    publish(run)
    assert second.stage != first.stage
    assert 9999 not in made.rig.lake.read_arrow(made.rig.schema, "orders").column("id").to_pylist()
    stamped = made.rig.lake.head(made.rig.schema, "orders")
    assert stamped == second.snapshot_id


def test_once_all_tables_are_published_nothing_is_left_to_verify(
    recovered: Callable[[], tuple[Any, Scene]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished publish whose close failed is taken up by another run: nothing is read or compared again."""
    run, made = recovered()
    application.verify(run, made.rig.spark, {})
    publish(run)
    monkeypatch.setattr(application, "compare_passes", None)
    done = application.verify(run, made.rig.spark, {})
    assert (done["verdict"], done["tables"]) == ("MATCH", {made.table.full_name: "MATCH"})
    assert recover(run, made.rig.spark) == {"stages": {}, "rows": 0}


def verified(run: Any) -> Mapping[str, VerifiedTable]:
    """Table → what verify wrote of it."""
    recovery = run.clients.control.recovery(read_position)
    assert recovery is not None
    return dict(recovery.verified)
