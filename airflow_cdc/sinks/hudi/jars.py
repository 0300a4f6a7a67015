"""What Spark needs to read and write Hudi tables."""

from __future__ import annotations

from airflow_cdc.core.spark_jars import Need, Of

HUDI = Need(
    "hudi-spark",
    "reads and writes the sink tables",
    "org.apache.hudi:hudi-spark{minor}-bundle_{scala}:1.2.0",
    "org/apache/hudi/DefaultSource.class",
    Of.BUNDLE,
)
JARS = (HUDI,)
