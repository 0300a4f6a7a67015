"""Hudi tables that Flink's job made and writes: read with the source's types, and replaced as the job would write them.

Flink's TIMESTAMP is an instant for Spark, and its TIMESTAMP_LTZ a time without a zone: each the other one's type. In a session
with UTC, which all of ours are, both hold the same microseconds, so a cast changes no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_cdc.spark_apps.adapters import hudi_table
from airflow_cdc.spark_apps.driver.sql import quote_ident

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.sinks.hudi.shared import SharedTable

_OTHER: Final = {"timestamp": "timestamp_ntz", "timestamp_ntz": "timestamp"}
# the job cleans and archives its table, and merges its log files
_LEFT_TO_THE_JOB: Final = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
}


def read(spark: SparkSession, folder: Path, version: int) -> DataFrame:
    """All columns of the table at a version, without Hudi's own, with the types of the source's columns."""
    frame = hudi_table.read(spark, folder, version)
    return frame.selectExpr(*(_cast(name, _OTHER.get(kind, kind)) for name, kind in _types(frame).items()))


def misfits(
    spark: SparkSession, table: SharedTable, columns: Sequence[tuple[str, str]], key: Sequence[str], buckets: int
) -> tuple[str, ...]:
    """Why rows of these columns (name, Spark SQL type) with this key cannot be put in place of the table's."""
    types = dict(columns)
    types_now = {name: _OTHER.get(kind, kind) for name, kind in _types(_now(spark, table.folder)).items()}
    absent = [f"{name} is missing" for name in types if name not in types_now]
    more = [f"{name} is not in the source" for name in types_now if name not in types]
    others = [
        f"{n} is {types_now[n]}, not {kind}" for n, kind in types.items() if n in types_now and types_now[n] != kind
    ]
    return (*absent, *more, *others, *table.faults([(name, types[name]) for name in key], buckets))


def replace(rows: DataFrame, table: SharedTable, buckets: int, summary: Mapping[str, str]) -> None:
    """Replace all rows by these in one commit, in the buckets in which the job looks for them."""
    types = _types(_now(rows.sparkSession, table.folder))
    options = {
        "hoodie.table.name": table.name,
        "hoodie.datasource.write.table.type": table.kind,
        "hoodie.datasource.write.operation": hudi_table.REPLACE,
        "hoodie.datasource.write.recordkey.field": ",".join(table.keys),
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedAvroKeyGenerator",
        "hoodie.datasource.write.commitmeta.key.prefix": "cdc.",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(buckets),
        "hoodie.metadata.enable": str(table.listed).lower(),
        **_LEFT_TO_THE_JOB,
        **summary,
    }
    rows_now = rows.selectExpr(*(_cast(name, kind) for name, kind in types.items()))
    rows_now.write.format("hudi").options(**options).mode("append").save(str(table.folder))


def _now(spark: SparkSession, folder: Path) -> DataFrame:
    frame = spark.read.format("hudi").load(str(folder))
    return frame.drop(*(name for name in frame.columns if name.startswith(hudi_table.HUDIS)))


def _types(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema}


def _cast(name: str, kind: str) -> str:
    return f"CAST({quote_ident(name)} AS {kind}) AS {quote_ident(name)}"
