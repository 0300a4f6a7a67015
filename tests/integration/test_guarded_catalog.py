"""Stages in catalogs that refuse a second table on a table's files, or all stages: real servers, one made to refuse."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.errors import ConfigError, SinkError
from airflow_cdc.flows.doctor import guarded
from airflow_cdc.flows.stages import check_stages, require_stages
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.snapshots import last_sequence
from airflow_cdc.sinks.iceberg.stage import SEQUENCE_RESERVE
from stack.nessie import start_nessie
from stack.object_store import start_object_store
from stack.process import end
from stack.rest_catalog import start_rest_catalog
from tests.contract.lakes import COLUMNS, run_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def properties_of(folder: Path, refuses: str) -> Iterator[dict[str, str]]:
    """A REST server that refuses, its warehouse a local folder."""
    warehouse = f"file://{folder}/warehouse"
    server = start_rest_catalog(folder, folder / "logs", {"warehouse": warehouse}, refuses=refuses)
    try:
        yield {"type": "rest", "uri": server.url, "warehouse": warehouse}
    finally:
        end(server.child)


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    yield from properties_of(tmp_path_factory.mktemp("guarded"), "register")


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The properties of a server that allows no stage at all."""
    yield from properties_of(tmp_path_factory.mktemp("closed"), "register, create")


@pytest.fixture(scope="module")
def nessie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("nessie")
    store = start_object_store(folder, folder / "logs")
    try:
        server = start_nessie(folder, folder / "logs", store)
        try:
            yield {"type": "rest", "uri": server.url, **store.iceberg()}
        finally:
            end(server.child)
    finally:
        end(store.child)


class Orders:
    """One table of the guarded catalog, which Spark knows by a name of its own."""

    def __init__(self, spark: SparkSession, properties: dict[str, str], version: str) -> None:
        self.lake = Lake(f"guarded_{uuid.uuid4().hex[:8]}", {**properties, "format_version": version})
        for key, value in self.lake.spark_conf().items():
            if key.startswith("spark.sql.catalog."):
                spark.conf.set(key, value)
        self.spark, self.name = spark, f"orders_{uuid.uuid4().hex[:8]}"
        self.lake.ensure_table("shop", self.name, COLUMNS)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(text.format(t=f"{self.lake.name}.shop.{self.name}")).collect()]


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_stage_beside_is_written_by_spark_and_published_over_a_compaction(
    spark: SparkSession, properties: dict[str, str], version: str
) -> None:
    orders = Orders(spark, properties, version)
    lake = orders.lake
    for number in (1, 2):
        orders.sql(f"INSERT INTO {{t}} SELECT {number} * 1000 + id, 'a', 1 FROM range(500)")
    before = lake.table("shop", orders.name).metadata
    stage = lake.stage("shop", orders.name, "recov_1_1")
    staged = lake.table(*stage.identifier).metadata
    assert staged.location != before.location
    assert last_sequence(staged) >= last_sequence(before) + SEQUENCE_RESERVE
    name = stage.spark_name(lake.name)
    spark.sql(f"ALTER TABLE {name} DROP COLUMN b")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN c int")
    spark.sql(f"DELETE FROM {name} WHERE id % 2 = 1")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT 1000 + id AS id, 'm' AS a, 8 AS c FROM range(10)) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    orders.sql(
        f"CALL {lake.name}.system.rewrite_data_files(table => 'shop.{orders.name}', options => map('rewrite-all', 'true'))"
    )
    assert orders.sql("SELECT count(*), sum(b) FROM {t}") == [(1000, 1000)]
    lake.publish(stage, lake.stage_head(stage), stage.base_head, over_compaction=True)
    lake.drop_stage(stage)
    assert orders.sql("SELECT count(*), count(DISTINCT id), sum(c) FROM {t}") == [(505, 505, 80)]
    assert lake.read_arrow("shop", orders.name).column_names == ["id", "a", "c"]
    orders.sql("INSERT INTO {t} VALUES (9001, 'later', 1)")
    if version == "3":
        assert orders.sql("SELECT count(*) - count(DISTINCT _row_id) FROM {t}") == [(0,)]
    lake.close()


def test_a_catalog_that_allows_no_stage_is_one_error_at_the_first_step(closed: dict[str, str], tmp_path: Path) -> None:
    lake = Lake("closed", closed)
    lake.ensure_table("shop", "orders", COLUMNS)
    with pytest.raises(SinkError, match=r"not registered here.*not created in cdc_stage") as caught:
        require_stages(run_on(lake, tmp_path))
    assert "the namespace cdc_stage" in caught.value.todo
    assert lake.stages() == ()
    assert lake.catalog.list_tables(("cdc_control",)) == []
    lake.close()


def test_nessie_is_refused_by_name_at_the_first_step_and_by_doctor(nessie: dict[str, str], tmp_path: Path) -> None:
    lake = Lake("nessie", nessie)
    with pytest.raises(ConfigError, match="neither tags nor earlier snapshots"):
        require_stages(run_on(lake, tmp_path))
    (check,) = guarded(check_stages, run_on(lake, tmp_path))
    assert check.state == "bad"
    assert "Use another catalog" in check.todo
    lake.close()
