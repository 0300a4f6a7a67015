"""What Spark needs to read a MySQL server."""

from __future__ import annotations

from airflow_cdc.core.spark_jars import Need

MYSQL = Need(
    "mariadb-java-client",
    "reads the source",
    "org.mariadb.jdbc:mariadb-java-client:3.5.11",
    "org/mariadb/jdbc/Driver.class",
)
JARS = (MYSQL,)
