"""A MySQL server for Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as fn

from airflow_cdc.core.compare.leaves import KeyHash
from airflow_cdc.core.table import Column, Table
from airflow_cdc.core.types import Date, Instant, LocalDateTime, Time
from airflow_cdc.sources.mysql.events import covered
from airflow_cdc.sources.mysql.position import MySqlPosition, read_position
from airflow_cdc.sources.mysql.quoting import quote_ident, sql_literal
from airflow_cdc.sources.mysql.schema_steps import judge_ddl
from airflow_cdc.sources.mysql.types import time_micros
from airflow_cdc.spark_apps.adapters.mysql_jdbc import jdbc_options, rows_frame
from airflow_cdc.spark_apps.adapters.mysql_rows import MySqlRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.apply.coverage import Covered
    from airflow_cdc.core.apply.ddl import Ddl
    from airflow_cdc.core.apply.schema_change import SchemaChange
    from airflow_cdc.core.position import JsonObject, Watermark
    from airflow_cdc.sources.mysql.client import MySqlSource
    from airflow_cdc.spark_apps.ports import Defaults

KEYS_PER_QUERY = 200
VISIBLE_SECONDS = 60.0


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


class MySqlReader(MySqlRows, MySqlLog):
    """A MySQL server for Spark, as ports.RowReader."""

    key_hash = KeyHash.CRC32

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
    return value.cast("string") if isinstance(column.type, Date | LocalDateTime | Instant) else value


def _equals(table: Table, key: Sequence[Any]) -> str:
    return " AND ".join(_equal(column, value) for column, value in zip(table.key_columns, key, strict=True))


def _equal(column: Column, value: Any) -> str:
    name = quote_ident(column.name)
    left = time_micros(name) if isinstance(column.type, Time) else name
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
