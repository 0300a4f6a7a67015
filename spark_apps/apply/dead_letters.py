"""Records that could not be applied: put right by reading their key again.

They are kept, with the reason, before the offsets are stamped past them, so a record is either applied or kept. The old
event is never applied later (INV 20): what counts then is what the source holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_cdc.spark_apps.apply.record import RAW_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.dead_letter import DeadLetter


def as_records(spark: SparkSession, some: Sequence[DeadLetter], topic: str) -> DataFrame:
    """Letters as tombstones of their keys (RAW_SCHEMA), the offset being the place in `some`.

    Decoding them gives the keys, and nothing of the old rows.
    """
    rows = [(topic, 0, at, None if one.key is None else bytearray(one.key), None) for at, one in enumerate(some)]
    return spark.createDataFrame(rows, RAW_SCHEMA)
