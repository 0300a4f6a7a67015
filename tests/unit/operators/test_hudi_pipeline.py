"""A sink with a Spark of its own: refused without it, and published by a driver on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import airflow_cdc
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.flows import publish as publishing
from airflow_cdc.flows import reset_offset as offsets
from airflow_cdc.operators import spark
from airflow_cdc.operators.offset import ResetOffsetOperator
from airflow_cdc.operators.publish import PublishOperator
from tests.unit.operator_support import Submitted, context, declared, environment

LAKE, HUDI = (
    "{kind: iceberg, catalog: lake, namespace: shop, writer: cdc_apply}",
    "{kind: hudi, path: /lake, namespace: shop, table_type: merge-on-read}",
)


@pytest.fixture
def hudi(registry: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The registry, its pipeline with a Hudi sink."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_STATE", '{"conn_type": "cdc_sql_control", "host": "/tmp/x.db", "extra": {"dialect": "sqlite"}}'
    )
    text = registry.read_text()
    assert LAKE in text
    registry.write_text(text.replace(LAKE, f"{HUDI}\n    control:   {{kind: sql, conn_id: state}}"))
    return registry


def test_our_spark_is_refused_by_name(submitted: Submitted, hudi: Path) -> None:
    with pytest.raises(ConfigError, match=r"Apache Hudi is written by Spark 3\.5.*spark\.python"):
        spark.CdcSparkOperator(task_id="t", app="recover", pipeline="shop").execute(context())
    assert submitted.command == []


def test_another_release_in_the_other_environment_is_refused(submitted: Submitted, hudi: Path, tmp_path: Path) -> None:
    declared(hudi, environment(tmp_path / "env", airflow_cdc.__version__, "4.1.3"))
    with pytest.raises(ConfigError, match=r"has Spark 4\.1\.3.*Install pyspark 3\.5"):
        spark.CdcSparkOperator(task_id="t", app="recover", pipeline="shop").execute(context())


def test_it_is_published_by_a_driver(submitted: Submitted, hudi: Path, tmp_path: Path) -> None:
    declared(hudi, environment(tmp_path / "env", airflow_cdc.__version__, "3.5.7"))
    submitted.result = {"published": {"shop.orders": 7}}
    assert PublishOperator(task_id="publish", pipeline="shop").execute(context()) == submitted.result
    assert submitted.command[-3:-1] == ["publish", "--settings"]
    assert submitted.settings["endpoints"]["sink"] == {
        "kind": "hudi",
        "path": "/lake",
        "table_type": "merge-on-read",
        "buckets": 0,
    }


@pytest.fixture
def flink(hudi: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The registry, its pipeline with a Flink job that writes the Hudi tables."""
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_FLINK", '{"conn_type": "flink", "host": "flink", "port": 8081}')
    declared(hudi, environment(tmp_path / "env", airflow_cdc.__version__, "3.5.7"))
    text = hudi.read_text()
    for old, new in (
        ("[shop.customers, shop.orders]", "[shop.orders]"),
        ("{kind: debezium, conn_id: shop_connect, name: shop}", "{kind: flink, conn_id: shop_flink, name: shop}"),
        ("{kind: kafka, conn_id: shop_kafka}", "{kind: direct}"),
        ("table_type: merge-on-read}", "writer: connector, buckets: 8}"),
    ):
        assert old in text
        text = text.replace(old, new)
    hudi.write_text(text)
    return hudi


def test_tables_that_the_job_writes_are_published_by_a_driver_before_the_offset_is_written(
    submitted: Submitted, flink: Path
) -> None:
    submitted.result = {"kept": False}
    assert ResetOffsetOperator(task_id="reset_offset", pipeline="shop").execute(context()) == submitted.result
    assert submitted.command[-3:-1] == ["reset_offset", "--settings"]
    assert submitted.settings["endpoints"]["sink"]["buckets"] == 8


def test_their_step_publish_only_asks_whether_they_are_proven(submitted: Submitted, flink: Path, step: Any) -> None:
    step(publishing, "publish", {"published": {"shop.orders": 7}})
    assert PublishOperator(task_id="publish", pipeline="shop").execute(context()) == {"published": {"shop.orders": 7}}
    assert submitted.command == []


def test_other_offsets_are_written_without_spark(submitted: Submitted, hudi: Path, step: Any) -> None:
    step(offsets, "reset_offset", {"kept": False})
    assert ResetOffsetOperator(task_id="reset_offset", pipeline="shop").execute(context()) == {"kept": False}
    assert submitted.command == []


def test_other_sinks_are_published_without_spark(submitted: Submitted, step: Any) -> None:
    step(publishing, "publish", {"published": {"shop.orders": 7}})
    PublishOperator(task_id="publish", pipeline="shop").execute(context())
    assert submitted.command == []
