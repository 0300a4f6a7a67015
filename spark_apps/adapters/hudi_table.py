"""Reading and writing a Hudi table at a path, by its data source's own options.

A table has the source's columns and two of ours: the key's text (`_cdc_key`), which is Hudi's record key, and
`_hoodie_is_deleted`, by which one commit upserts and deletes. Hudi's own text of a key of several columns is not
unambiguous ("a:1,b:2" is also a value of `a`), and takes no empty text; ours is (ADR 0018).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_cdc.sinks.hudi.endpoint import COPY_ON_WRITE
from airflow_cdc.sinks.hudi.timeline import table_type
from airflow_cdc.spark_apps.driver.sql import quote_ident

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY: Final = "_cdc_key"
DELETED: Final = "_hoodie_is_deleted"
HUDIS: Final = "_hoodie_"
ADD, UPSERT, REPLACE = "bulk_insert", "upsert", "insert_overwrite_table"
_OPTIONS: Final = {
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    # every commit holds net changes in the order of the topic: the later commit is right
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    "hoodie.datasource.write.commitmeta.key.prefix": "cdc.",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.metadata.enable": "false",
    "hoodie.bulkinsert.sort.mode": "NONE",
}
_MERGE_ON_READ: Final = "MERGE_ON_READ"
# the write that makes the tenth log file of a file group merges them
_COMPACT: Final = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "10"}
# a new table definition, which only a commit that replaces all rows brings
_ANY_COLUMNS: Final = {
    "hoodie.avro.schema.validate": "false",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
}
# how many versions of a table can still be read while others are written
_KEPT: Final = {
    "hoodie.clean.commits.retained": "30",
    "hoodie.keep.min.commits": "40",
    "hoodie.keep.max.commits": "50",
}
# a stage is read at any of its versions
KEEP_ALL: Final = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def read(spark: SparkSession, folder: Path, version: int) -> DataFrame:
    """All columns of the table at a version, without Hudi's own."""
    frame = spark.read.format("hudi").option("as.of.instant", f"{version:017d}").load(str(folder))
    return frame.select(*(quote_ident(name) for name in frame.columns if not name.startswith(HUDIS) or name == DELETED))


class HudiTable(NamedTuple):
    """A table: its folder, the name in its properties, which a copy keeps, and its type if it is new."""

    folder: Path
    name: str
    table_type: str = COPY_ON_WRITE


def write(
    rows: DataFrame,
    table: HudiTable,
    operation: str,
    summary: Mapping[str, str],
    more: Mapping[str, str] | None = None,
) -> None:
    """One commit, whose metadata holds `summary`. Makes the table if there is none."""
    columns = _ANY_COLUMNS if operation == REPLACE else {}
    kind = table_type(table.folder) or table.table_type.upper().replace("-", "_")
    own = {"hoodie.table.name": table.name, "hoodie.datasource.write.table.type": kind}
    own |= _COMPACT if kind == _MERGE_ON_READ else {}
    options = {**own, **_OPTIONS, **_KEPT, "hoodie.datasource.write.operation": operation}
    rows.write.format("hudi").options(**options, **columns, **(more or {}), **summary).mode("append").save(
        str(table.folder)
    )
