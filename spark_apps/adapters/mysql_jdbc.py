"""Read MySQL from Spark with MariaDB Connector/J and Spark's MySQL dialect; every connection proves its server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pymysql.constants import CLIENT

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.table import Table
from airflow_cdc.sources.mysql.client import BinlogSource
from airflow_cdc.sources.mysql.facts import BinlogFacts
from airflow_cdc.sources.mysql.quoting import quote_ident, quote_table
from airflow_cdc.sources.mysql.types import read_sql
from airflow_cdc.sources.tls import Mode, mode_of
from airflow_cdc.spark_apps.adapters.jdbc import query_frame, typed_rows, value_names
from airflow_cdc.spark_apps.adapters.mysql_values import from_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


DRIVER = "org.mariadb.jdbc.Driver"
_SSL_MODES = {
    Mode.DISABLED: "disable",
    Mode.REQUIRED: "trust",
    Mode.VERIFY_CA: "verify-ca",
    Mode.VERIFY_IDENTITY: "verify-full",
}


def jdbc_options(
    source: BinlogSource[BinlogFacts], init_statement: str, fetched_rows: int, *, several_statements: bool = False
) -> dict[str, str]:
    """Options of Spark's JDBC reader, password included: never for a log.

    Spark chooses its dialect (quoting, types) by the URL's prefix, so the MariaDB driver is told to accept MySQL's.
    `several_statements` allows more than one init statement; rows are then sent as text instead of binary.
    """
    endpoint = source.endpoint
    settings = {
        "permitMysqlScheme": "true",
        "useServerPrepStmts": str(not several_statements).lower(),
        "allowMultiQueries": str(several_statements).lower(),
        "connectTimeout": str(round(endpoint.connect_timeout * 1000)),
        "socketTimeout": str(round(endpoint.read_timeout * 1000)),
        **_tls(source),
    }
    return {
        "url": f"jdbc:mysql://{endpoint.host}:{endpoint.port}/?{_query(settings, source)}",
        "driver": DRIVER,
        "user": endpoint.user,
        "password": endpoint.password,
        "fetchsize": str(fetched_rows),
        "sessionInitStatement": init_statement,
    }


def _query(settings: Mapping[str, str], source: BinlogSource[BinlogFacts]) -> str:
    """The URL's settings, unescaped: this driver decodes none (a certificate with an escaped path is not found)."""
    for name, value in settings.items():
        if set(value) & set("&?#"):
            raise ConfigError(
                f"{name} has a character that cannot stand in a JDBC URL",
                where=source.where,
                todo=f"Set another {name} in the connection: without &, ? and #.",
            )
    return "&".join(f"{name}={value}" for name, value in settings.items())


def _tls(source: BinlogSource[BinlogFacts]) -> dict[str, str]:
    ssl: Mapping[str, object] = {key: value for key, value in (source.endpoint.ssl or {}).items() if value}
    if "cert" in ssl:
        raise ConfigError(
            "Spark's driver cannot read a client certificate from a PEM file",
            where=source.where,
            todo="Use a user with a password over TLS for the snapshot.",
        )
    mode = mode_of(ssl, source.where)
    if mode is Mode.PREFERRED:
        mode = Mode.REQUIRED if _offers_tls(source) else Mode.DISABLED
    ca = {"serverSslCert": str(ssl["ca"])} if "ca" in ssl and mode.verifies else {}
    # without TLS the driver takes the server's key for the password on trust, or cannot log in; doctor warns of that
    key = {"allowPublicKeyRetrieval": "true"} if mode is Mode.DISABLED else {}
    return {"sslMode": _SSL_MODES[mode], **ca, **key}


def _offers_tls(source: BinlogSource[BinlogFacts]) -> bool:
    with closing(source.connect()) as connection:
        capabilities: int = getattr(connection, "server_capabilities", 0)
    return bool(capabilities & CLIENT.SSL)


def rows_frame(
    spark: SparkSession, options: Mapping[str, str], table: Table, predicates: Sequence[str] = ()
) -> DataFrame:
    """The table in its sink types, one partition per predicate (none: one partition with every row).

    The derived table keeps the raw key columns beside the value expressions, so that MySQL, which merges it, finds a
    predicate on bare columns and reads a range of the key's index.
    """
    names = value_names(table)
    keys = [quote_ident(name) for name in table.key]
    values = [f"{read_sql(c)} AS {name}" for c, name in zip(table.mirrored, names, strict=True)]
    query = f"(SELECT {', '.join([*keys, *values])} FROM {quote_table(table)}) AS cdc_rows"
    return typed_rows(query_frame(spark, options, query, predicates), table, names, from_read)
