"""A night and a repair of a Hudi sink, with a real connector and rows written meanwhile.

The recovery is the row "Debezium to Hudi" of `make systems`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.flows.close import report_folder
from airflow_cdc.flows.run import RunOptions
from airflow_cdc.sinks.hudi.timeline import stamped
from airflow_cdc.spark_apps.adapters import hudi_table
from airflow_cdc.spark_apps.nightly import nightly
from airflow_cdc.spark_apps.repair import repair
from tests.integration.nights import NIGHT, SMALL, night
from tests.systems.case import Differences
from tests.systems.debezium_hudi import NAME, DebeziumHudi, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING = Differences()


@pytest.fixture
def mirrored(tmp_path: Path, spark: SparkSession) -> Iterator[DebeziumHudi]:
    """Two tables on a server of their own, filled and applied."""
    unused: Any = None
    with opened(tmp_path, spark, unused) as system:
        system.fill()
        yield system


def tamper(system: DebeziumHudi, spark: SparkSession) -> None:
    """Behind everybody's back, and in a commit that looks like ours: one row changed, one gone, one too much."""
    sink: Any = system.followed.base.clients.sink
    place = NAME, "kinds"
    known = stamped(sink.commits(place))
    assert known is not None
    rows = hudi_table.read(spark, sink.folder(place), known.version)
    names = [name for name in rows.columns if name not in {"id", "tiny", hudi_table.KEY, hudi_table.DELETED}]
    others = ", ".join(f"`{name}`" for name in names)
    columns = ", ".join(f"`{name}`" for name in rows.columns)
    rows.createOrReplaceTempView("kinds_now")
    spoilt = spark.sql(
        f"SELECT {columns} FROM (SELECT id, tiny + 1 AS tiny, {others}, {hudi_table.KEY}, {hudi_table.DELETED} FROM kinds_now WHERE id = 7"
        f" UNION ALL SELECT id, tiny, {others}, {hudi_table.KEY}, true FROM kinds_now WHERE id = 8"
        f" UNION ALL SELECT 9007, tiny, {others}, '9007', false FROM kinds_now WHERE id = 9)"
    )
    hudi_table.write(spoilt, hudi_table.HudiTable(sink.folder(place), "kinds"), hudi_table.UPSERT, known.summary)


@pytest.mark.slow
def test_a_night_names_what_was_changed_in_the_sink_and_a_repair_puts_it_right(
    mirrored: DebeziumHudi, spark: SparkSession
) -> None:
    followed = mirrored.followed
    with mirrored.writing():
        healthy = nightly(night(followed, 1), spark, SMALL, NIGHT)
    assert (healthy["verdict"], set(healthy["tables"].values())) == ("MATCH", {"MATCH"})
    followed.apply("between")
    tamper(mirrored, spark)
    second = night(followed, 2)
    facts = nightly(second, spark, SMALL, NIGHT + timedelta(days=1))
    assert facts["tables"] == {f"{NAME}.kinds": "MISMATCH", f"{NAME}.words": "MATCH"}
    keys = json.loads((Path(report_folder(second)) / f"keys-{NAME}.kinds.json").read_text())
    assert {(str(one["key"][0]), one["why"]) for one in keys} == {
        ("7", "different"),
        ("8", "missing"),
        ("9007", "ghosts"),
    }
    # the writer counts from one again
    followed.execute("DELETE FROM kinds WHERE id > 100000", "DELETE FROM words WHERE lang = 'live'")
    with mirrored.writing():
        repaired = repair(replace(night(followed, 3), options=RunOptions(approved=True)), spark, {"reach_seconds": 60})
    assert repaired["verdict"] == "MATCH"
    followed.apply("after")
    assert mirrored.differences() == NOTHING
