"""Records that could not be applied, repaired by reading their key from the source again.

They are kept, with the reason, before the offsets are stamped past them, so a record is either applied or kept. The old
event is never applied later (INV 20): the source's current row replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_cdc.spark_apps.events import RAW_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.dead_letter import DeadLetter


def as_records(spark: SparkSession, some: Sequence[DeadLetter], topic: str) -> DataFrame:
    """Dead letters as tombstones of their keys (RAW_SCHEMA); the offset is the index in `some`.

    Decoding them gives the keys only, nothing of the old rows.
    """
    rows = [(topic, 0, at, None if one.key is None else bytearray(one.key), None) for at, one in enumerate(some)]
    return spark.createDataFrame(rows, RAW_SCHEMA)
