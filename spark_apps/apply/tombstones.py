"""Tombstones of deletes that the snapshot knows already, also where a batch ended between the two.

A tombstone has no place in the log, so the delete of its key, which is the record before it, says whether a watermark covers
it. A connector that resumes before W sends, for a key deleted and created again before W, both the delete and the create. Both
are in the snapshot; the tombstone between them would delete the row that the snapshot holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as fn

from airflow_cdc.events.record import DELETE, TOMBSTONE
from airflow_cdc.spark_apps.apply.changes import is_covered
from airflow_cdc.spark_apps.events import IN_RECORD, meta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.position import Covered
    from airflow_cdc.decisions.apply.start import Start
    from airflow_cdc.spark_apps.ports import Bounds

# A connector sends a tombstone directly after its delete. Only marks of transactions and a producer's repeats are between.
LOOK_BACK: Final = 500


def before_batch(start: Start, covered: Covered) -> Bounds:
    """The offsets before a batch where the delete of a tombstone in it may be; {} if no such delete can be covered.

    A partition is past the watermark once a change that it does not cover was applied from it. The fence may be between a
    delete and its tombstone, too, so this looks behind it.
    """
    if start.table.keyless or not (covered.numbers or covered.below):
        return {}
    bounds = dict[int, tuple[int, int]]()
    for p, (begin, end) in start.ranges.items():
        last, low = start.applied.last.get(str(p)), max(start.begins[p], begin - LOOK_BACK)
        if low < begin < end and (last is None or covered.holds(last.origin, last.place)):
            bounds[p] = (low, begin)
    return bounds


def has_tombstone(records: Sequence[TopicRecord]) -> bool:
    """Whether one of them is a tombstone."""
    return any(record.value is None for record in records)


def without_covered_tombstones(decoded: DataFrame, covered: Covered, earlier: DataFrame | None = None) -> DataFrame:
    """A keyed table's records without tombstones whose delete is at or before W.

    `earlier`: decoded records before them, in which such a delete may be; they are not in the result.
    """
    both = decoded.withColumn("cdc_earlier", fn.lit(False))
    if earlier is not None:
        past = earlier.select("key", "cdc", fn.lit(True).alias("cdc_earlier"))
        both = both.unionByName(past, allowMissingColumns=True)
    in_order = Window.partitionBy("key").orderBy(meta("partition"), meta("offset"), *IN_RECORD)
    delete_before = fn.lag(is_covered(covered) & (meta("op") == DELETE)).over(in_order)
    follows = (meta("op") == TOMBSTONE) & fn.coalesce(delete_before, fn.lit(False))
    marked = both.withColumn("cdc_covered", follows)
    return marked.where(~fn.col("cdc_covered") & ~fn.col("cdc_earlier")).drop("cdc_covered", "cdc_earlier")
