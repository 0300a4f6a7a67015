"""Reading MySQL from Spark: MariaDB Connector/J behind Spark's MySQL dialect, every connection proving its server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pymysql.constants import CLIENT
from pyspark.sql import functions as fn

from airflow_cdc.core.chunk import quote_ident, quote_table, sql_literal
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.core.types import from_read, read_sql, time_micros
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.events import covered
from airflow_cdc.sources.mysql.position import MySqlPosition, read_position
from airflow_cdc.sources.mysql.schema_steps import judge_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.apply.coverage import Covered
    from airflow_cdc.core.apply.ddl import Ddl
    from airflow_cdc.core.apply.schema_change import SchemaChange
    from airflow_cdc.core.position import JsonObject, Watermark
    from airflow_cdc.spark_apps.ports import Defaults

DRIVER = "org.mariadb.jdbc.Driver"
FETCH_ROWS = 10_000
KEYS_PER_QUERY = 200
VISIBLE_SECONDS = 60.0
_TEMPORAL = frozenset({"date", "datetime", "timestamp"})
_SSL_MODES = {
    "disabled": "disable",
    "required": "trust",
    "verify_ca": "verify-ca",
    "verify_identity": "verify-full",
}


def jdbc_options(source: MySqlSource, init_statement: str, *, several_statements: bool = False) -> dict[str, str]:
    """Options of Spark's JDBC reader, password included: never for a log.

    Spark chooses its dialect (quoting, types) by the URL's prefix, so the MariaDB driver is asked to take MySQL's.
    `several_statements` lets the init statement hold more than one; rows then come as text instead of binary.
    """
    endpoint = source.endpoint
    settings = {
        "permitMysqlScheme": "true",
        "allowPublicKeyRetrieval": "true",
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
        "fetchsize": str(FETCH_ROWS),
        "sessionInitStatement": init_statement,
    }


def _query(settings: Mapping[str, str], source: MySqlSource) -> str:
    """The URL's settings as they are: this driver decodes none (an escaped path of a certificate is not found)."""
    for name, value in settings.items():
        if set(value) & set("&?#"):
            raise ConfigError(f"{name} has a character that cannot stand in a JDBC URL", where=source.where)
    return "&".join(f"{name}={value}" for name, value in settings.items())


def _tls(source: MySqlSource) -> dict[str, str]:
    given: Mapping[str, Any] = {key: value for key, value in (source.endpoint.ssl or {}).items() if value}
    if "cert" in given:
        raise ConfigError(
            "Spark's driver cannot read a client certificate from a PEM file",
            where=source.where,
            todo="Use a user with a password over TLS for the snapshot.",
        )
    mode = str(given.get("mode") or ("verify_identity" if "ca" in given else "required" if given else "preferred"))
    mode = mode.lower().replace("-", "_")
    if mode == "preferred":
        mode = "required" if _offers_tls(source) else "disabled"
    ca = {"serverSslCert": str(given["ca"])} if "ca" in given else {}
    return {"sslMode": _SSL_MODES[mode], **ca}


def _offers_tls(source: MySqlSource) -> bool:
    with closing(source.connect()) as connection:
        offered: int = getattr(connection, "server_capabilities", 0)
    return bool(offered & CLIENT.SSL)


def rows_frame(
    spark: SparkSession, options: Mapping[str, str], table: Table, predicates: Sequence[str] = ()
) -> DataFrame:
    """The table in its sink types, one partition per predicate (none: one partition with every row).

    The derived table keeps the raw key columns beside the value expressions, so that MySQL, which merges it, finds a
    predicate on bare columns and reads a range of the key's index.
    """
    prefix = _value_prefix(table)
    names = [f"{prefix}{number}" for number in range(len(table.mirrored))]
    keys = [quote_ident(name) for name in table.key]
    values = [f"{read_sql(c)} AS {name}" for c, name in zip(table.mirrored, names, strict=True)]
    query = f"(SELECT {', '.join([*keys, *values])} FROM {quote_table(table)}) AS cdc_rows"
    raw = query_frame(spark, options, query, predicates)
    columns = zip(table.mirrored, names, strict=True)
    return raw.selectExpr(*(f"{from_read(c, quote_ident(name))} AS {quote_ident(c.name)}" for c, name in columns))


def query_frame(
    spark: SparkSession, options: Mapping[str, str], query: str, predicates: Sequence[str] = ()
) -> DataFrame:
    """A table expression as it comes over JDBC, one partition per predicate."""
    if not predicates:
        return spark.read.format("jdbc").options(**options).option("dbtable", query).load()
    rest = {key: value for key, value in options.items() if key != "url"}
    return spark.read.jdbc(options["url"], query, predicates=list(predicates), properties=rest)


def _value_prefix(table: Table) -> str:
    """A prefix for the value columns that no column of the table starts with."""
    prefix = "v"
    while any(c.name.lower().startswith(prefix) for c in table.columns):
        prefix = f"{prefix}_"
    return prefix


class MySqlLog:
    """What positions and DDL of MySQL mean, as ports.SourceLog."""

    def read_position(self, value: JsonObject) -> MySqlPosition:
        """See ports.SourceLog."""
        return read_position(value)

    def covered(self, watermark: Watermark | None) -> Covered:
        """See ports.SourceLog."""
        return covered(watermark)

    def judge_ddl(self, stored: Table | None, statements: Sequence[Ddl], now: Table) -> SchemaChange | None:
        """See ports.SourceLog."""
        return judge_ddl(stored, statements, now)


class MySqlReader(MySqlLog):
    """A MySQL server for Spark, as ports.RowReader."""

    def __init__(self, source: MySqlSource) -> None:
        self._source = source

    def rows_by_key(self, spark: SparkSession, table: Table, keys: DataFrame) -> DataFrame:
        """See ports.RowReader."""
        position = self._source.position()
        self._source.wait_visible(position, VISIBLE_SECONDS)
        options = jdbc_options(self._source, self._source.init_statement(position))
        return rows_frame(spark, options, table, list(key_predicates(table, keys)))

    def defaults(self, tables: Sequence[Table]) -> Mapping[str, Defaults]:
        """See ports.RowReader."""
        return source_defaults(self._source, tables)


def key_predicates(table: Table, keys: DataFrame) -> Iterator[str]:
    """MySQL conditions that find the keys, some hundred of them each."""
    values = [_as_text(column).alias(f"k{at}") for at, column in enumerate(table.key_columns)]
    found = [tuple(row) for row in keys.select(*values).collect()]
    for start in range(0, len(found), KEYS_PER_QUERY):
        yield " OR ".join(f"({_equals(table, key)})" for key in found[start : start + KEYS_PER_QUERY])


def _as_text(column: Column) -> Any:
    # Python would shift a timestamp into its own time zone; the session's is UTC
    value = fn.col(quote_ident(column.name))
    return value.cast("string") if column.data_type in _TEMPORAL else value


def _equals(table: Table, key: Sequence[Any]) -> str:
    return " AND ".join(_equal(column, value) for column, value in zip(table.key_columns, key, strict=True))


def _equal(column: Column, value: Any) -> str:
    name = quote_ident(column.name)
    left = time_micros(name) if column.data_type == "time" else name
    return f"{left} = {sql_literal(bytes(value) if isinstance(value, bytearray) else value)}"


def source_defaults(source: MySqlSource, tables: Sequence[Table]) -> dict[str, dict[str, str | None]]:
    """Table → column → its default at the source (None: it has none, or NULL): a literal in quotes, else an expression.

    So the text 'NULL' or 'CURRENT_TIMESTAMP' is not taken for the word. MariaDB writes quotes itself.
    """
    query = (
        "SELECT COLUMN_NAME AS name, COLUMN_DEFAULT AS value, EXTRA AS extra, DATA_TYPE AS data_type"
        " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    )
    found: dict[str, dict[str, str | None]] = {}
    with source.session() as session:
        quoted = session.version.mariadb
        for table in tables:
            rows = session.rows(query, (table.schema, table.name), doing="read the columns' defaults")
            found[table.full_name] = {row["name"]: _default(row, quoted=quoted) for row in rows}
    return found


def _default(row: Mapping[str, Any], *, quoted: bool) -> str | None:
    if row["value"] is None:
        return None
    text = row["value"].decode() if isinstance(row["value"], bytes) else str(row["value"])
    clock = str(row["data_type"]).lower() in {"timestamp", "datetime"} and text.upper().startswith("CURRENT_TIMESTAMP")
    return text if quoted or clock or "DEFAULT_GENERATED" in str(row["extra"]).upper() else f"'{text}'"
