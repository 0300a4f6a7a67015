"""What Spark needs to read a PostgreSQL server."""

from __future__ import annotations

from airflow_cdc.core.spark_jars import Need

POSTGRES = Need("postgresql", "reads the source", "org.postgresql:postgresql:42.7.11", "org/postgresql/Driver.class")
JARS = (POSTGRES,)
