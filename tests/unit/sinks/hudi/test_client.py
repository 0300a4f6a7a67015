"""The sink without Spark: a folder, notes, and a timeline that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_cdc.core.errors import ConfigError, SinkError, UnknownStateError
from airflow_cdc.sinks.hudi.client import HudiSink
from airflow_cdc.sinks.hudi.endpoint import HudiEndpoint

COLUMNS = (("id", "bigint"),)


@pytest.fixture
def sink(tmp_path: Path) -> HudiSink:
    return HudiSink(HudiEndpoint(str(tmp_path)))


@pytest.mark.parametrize("path", ["s3a://bucket/lake", "lake", ""])
def test_a_place_that_was_not_tried_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r"sink\.path"):
        HudiSink(HudiEndpoint.of(path)).reach()


def test_a_folder_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UnknownStateError, match="does not exist"):
        HudiSink(HudiEndpoint.of(f"file://{tmp_path}/gone")).reach()


def test_a_new_table_is_empty_and_is_made_once(sink: HudiSink) -> None:
    assert sink.facts("shop", "orders").exists is False
    assert sink.ensure_table("shop", "orders", COLUMNS) is True
    assert sink.ensure_table("shop", "orders", COLUMNS) is False
    facts = sink.facts("shop", "orders")
    assert (facts.exists, facts.head, facts.rows, facts.stamp) == (True, 0, 0, None)


def test_a_timeline_that_cannot_be_read_is_unknown_and_not_empty(sink: HudiSink) -> None:
    sink.ensure_table("shop", "orders", COLUMNS)
    timeline = sink.folder(("shop", "orders")) / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    (timeline / "20260101000000000_20260101000001000.commit").write_bytes(b"not Avro")
    with pytest.raises(UnknownStateError, match="timeline cannot be read"):
        sink.stamp("shop", "orders")


def test_a_table_whose_timeline_is_gone_is_unknown_and_not_empty(sink: HudiSink) -> None:
    sink.ensure_table("shop", "orders", COLUMNS)
    (sink.folder(("shop", "orders")) / ".hoodie").mkdir(parents=True)
    with pytest.raises(UnknownStateError, match="timeline cannot be read"):
        sink.facts("shop", "orders")


def test_a_stage_is_found_again_and_dropped_twice(sink: HudiSink) -> None:
    sink.ensure_table("shop", "orders", COLUMNS)
    stage = sink.stage("shop", "orders", "recov_1_1")
    assert sink.stage("shop", "orders", "recov_1_1") == stage
    assert sink.stages("shop", "orders") == sink.stages() == (stage,)
    assert sink.stages("shop", "other") == sink.stages("bank") == ()
    sink.drop_stage(stage)
    sink.drop_stage(stage)
    assert sink.stages() == ()
    with pytest.raises(SinkError, match="no such table"):
        sink.open_stage("shop", "orders", "recov_1_1")
