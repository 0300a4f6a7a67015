"""A dead letter keeps the headers that its key is read with: Avro whose schema's id is in headers, of a real connector."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.decisions.apply.applied import Applied
from airflow_cdc.decisions.apply.start import DdlLog, Start
from airflow_cdc.events.record import SchemaId
from airflow_cdc.sinks.iceberg import dead_letters
from airflow_cdc.spark_apps.adapters.debezium import Events
from airflow_cdc.spark_apps.adapters.mysql import MySqlReader
from airflow_cdc.spark_apps.apply import replay
from airflow_cdc.spark_apps.apply.batch import apply_batch
from airflow_cdc.spark_apps.events import RAW_HEADERS, RAW_SCHEMA
from tests.apply_support import Bench, Topic, column, stamp_at, table
from tests.wires import Recorded, recording

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.spark_apps.apply.context import ApplyContext
    from airflow_cdc.spark_apps.ports import Ranges

FORM = recording("mysql-avro-headers")
SETTINGS = ConnectorSettings.from_config(
    {**FORM.settings, **{f"{side}.converter.apicurio.registry.url": "http://localhost:1" for side in ("key", "value")}}
)
T = replace(
    table("t", [column("id", "int", nullable=False), column("v", "varchar(10)"), column("n", "decimal(5,2)")], ("id",)),
    schema="wires",
)
# the letters' table as versions before 1.0 made it
OLD_COLUMNS = tuple(one for one in dead_letters.COLUMNS if one[0] != dead_letters.HEADERS)


def texts(ids: Any) -> dict[SchemaId, str]:
    return {one: json.dumps(FORM.schemas[f"{one.kind}:{one.number}"]) for one in ids}


class Rows(MySqlReader):
    """The source, which holds one row."""

    def __init__(self) -> None:
        """There is no server to ask."""
        self.asked = list[str]()

    def rows_of_keys(self, session: Any, _table: Any, keys: Any, *, at: Any) -> Any:
        assert at is None
        self.asked += keys
        return session.createDataFrame([(2, "now", None)], "id int, v string, n decimal(5,2)")


def context(bench: Bench, topic: Topic, records: list[Recorded]) -> ApplyContext:
    """A context whose topic holds these records with their headers."""

    def read(spark: SparkSession, ranges: Ranges) -> DataFrame:
        bounds = ranges.get(topic.name, {}).get(0, (0, 0))
        rows = [
            (topic.name, 0, one.offset, bytearray(one.key or b""), bytearray(one.value or b""), list(one.headers))
            for one in records
            if bounds[0] <= one.offset < bounds[1]
        ]
        return spark.createDataFrame(rows, f"{RAW_SCHEMA}, {RAW_HEADERS}")

    return replace(bench.context([topic]), read=read, events=Events(SETTINGS, texts))


@pytest.mark.parametrize("columns", [dead_letters.COLUMNS, OLD_COLUMNS], ids=["new", "of before"])
def test_a_letters_key_is_read_again_by_the_headers_that_its_record_had(bench: Bench, columns: Any) -> None:
    first, second, *_ = FORM.records["t"]
    records = [first, replace(second, value=(second.value or b"")[:-1])]
    topic = Topic(T, name=SETTINGS.topic_of(T.full_name), ends={0: len(records)})
    bench.lake.ensure_table(dead_letters.NAMESPACE, dead_letters.table_name(bench.pipeline), columns, format_version=2)
    target = bench.target(T, stamp_at(topic))
    ctx = context(bench, topic, records)

    apply_batch(ctx, [target], topic.upto)

    (letter,) = dead_letters.unresolved(bench.lake, bench.pipeline)
    assert (letter.key, letter.headers) == (second.key, second.headers)
    assert bench.rows(target.stage)[0][:2] == (1, "a")
    start, rows = Start(T, topic.name, topic.id, stamp_at(topic), {}, {}, None, Applied(), DdlLog("ddl")), Rows()
    assert replay.replay(ctx, target, start, [letter], rows) == (letter,)
    assert (2, "now", None) in bench.rows(target.stage)
    assert len(rows.asked) == 1
    assert replay.replay(ctx, target, start, [replace(letter, headers=())], rows) == ()
