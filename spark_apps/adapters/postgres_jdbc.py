"""Reading PostgreSQL from Spark: pgjdbc, every connection in one read-only transaction on a server that it proves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.sources.postgres.quoting import quote_ident, quote_table
from airflow_cdc.sources.postgres.session import tls_parameters
from airflow_cdc.sources.postgres.types import read_sql
from airflow_cdc.spark_apps.adapters.jdbc import query_frame, typed_rows, value_names
from airflow_cdc.spark_apps.adapters.postgres_values import from_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.table import Table
    from airflow_cdc.sources.postgres.client import PostgresSource

DRIVER = "org.postgresql.Driver"
NO_ROWS = "FALSE"


def jdbc_options(source: PostgresSource, at: Watermark | None, fetched_rows: int, snapshot: str = "") -> dict[str, str]:
    """Options of Spark's JDBC reader, password included: never for a log. `snapshot`: the exported one to read under.

    Fetching in parts needs a transaction, so Spark opens one, and the init statement makes it what it has to be.
    """
    own = source.endpoint
    settings = {
        "connectTimeout": str(max(1, round(own.connect_timeout))),
        "socketTimeout": str(round(own.read_timeout)),
        "binaryTransfer": "false",  # text is a fifth faster here
        "prepareThreshold": "0",
        "tcpKeepAlive": "true",
        **_tls(source),
    }
    return {
        "url": f"jdbc:postgresql://{own.host}:{own.port}/{quote(own.database, safe='')}?{urlencode(settings)}",
        "driver": DRIVER,
        "user": own.user,
        "password": own.password,
        "fetchsize": str(fetched_rows),
        "sessionInitStatement": "; ".join(source.init_statements(at, snapshot)),
    }


def _tls(source: PostgresSource) -> dict[str, str]:
    settings = tls_parameters(source.endpoint)
    if "sslcert" in settings or "sslkey" in settings:
        raise ConfigError(
            "Spark's driver cannot read a client certificate from a PEM file",
            where=source.where,
            todo="Use a user with a password over TLS for the snapshot.",
        )
    return settings


def rows_frame(
    spark: SparkSession,
    options: Mapping[str, str],
    table: Table,
    predicates: Sequence[str] = (),
    *,
    place: bool = False,
) -> DataFrame:
    """The table in its sink types, one partition per predicate (none: one partition with every row).

    The derived table keeps the raw key columns (with `place` the rows' ctid instead) beside the value expressions, so
    that the server, which flattens it, reads a range of the key's index.
    """
    names = value_names(table)
    raw = ["ctid"] if place else [quote_ident(name) for name in table.key]
    values = [f"{read_sql(c)} AS {name}" for c, name in zip(table.mirrored, names, strict=True)]
    query = f"(SELECT {', '.join([*raw, *values])} FROM {quote_table(table)}) AS cdc_rows"
    return typed_rows(query_frame(spark, options, query, predicates), table, names, from_read)
