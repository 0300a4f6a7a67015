"""A MySQL server for Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.leaves import KeyHash
from airflow_cdc.sources.mysql.position import MySqlPosition, covered, read_position
from airflow_cdc.sources.mysql.schema_steps import judge_ddl
from airflow_cdc.sources.row import Row
from airflow_cdc.spark_apps.adapters.mysql_few import FewRows
from airflow_cdc.spark_apps.adapters.mysql_rows import MySqlRows

if TYPE_CHECKING:
    from airflow_cdc.core.position import Covered, JsonObject, Watermark
    from airflow_cdc.decisions.apply.ddl import Ddl
    from airflow_cdc.decisions.apply.schema_change import SchemaChange
    from airflow_cdc.sources.mysql.client import BinlogSource
    from airflow_cdc.sources.mysql.facts import BinlogFacts
    from airflow_cdc.spark_apps.ports import Defaults


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

    def __init__(self, source: BinlogSource[BinlogFacts], *, exact_views: bool = False) -> None:
        super().__init__(source)
        self.exact_views = exact_views

    def with_exact_views(self) -> MySqlReader:
        """See ports.LooksExactly: each table is locked for the moment in which a view of it is opened."""
        return MySqlReader(self._source, exact_views=True)

    @contextmanager
    def few_rows(self, *, at: Watermark) -> Iterator[FewRows]:
        """See ports_few.ReadsFewRows."""
        with closing(FewRows(self._source, lambda: self._init(at))) as few:
            yield few

    def defaults(self, tables: Sequence[Table]) -> Mapping[str, Defaults]:
        """See ports.RowReader."""
        return source_defaults(self._source, tables)


def source_defaults(source: BinlogSource[BinlogFacts], tables: Sequence[Table]) -> dict[str, dict[str, str | None]]:
    """Table → column → its default at the source (None: it has none, or NULL): a literal in quotes, else an expression.

    So the text 'NULL' or 'CURRENT_TIMESTAMP' is not mistaken for the keyword. MariaDB adds the quotes itself, and writes
    NULL for a nullable column without a default.
    """
    query = (
        "SELECT COLUMN_NAME AS name, COLUMN_DEFAULT AS value, EXTRA AS extra, DATA_TYPE AS data_type"
        " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    )
    defaults: dict[str, dict[str, str | None]] = {}
    with source.session() as session:
        quoted = session.version.mariadb
        for table in tables:
            rows = session.rows(query, (table.schema, table.name), doing="read the columns' defaults")
            defaults[table.full_name] = {row.text("name"): _default(row, quoted=quoted) for row in rows}
    return defaults


def _default(row: Row, *, quoted: bool) -> str | None:
    text = row.text_or_null("value")
    if text is None or (quoted and text.upper() == "NULL"):
        return None
    clock = str(row["data_type"]).lower() in {"timestamp", "datetime"} and text.upper().startswith("CURRENT_TIMESTAMP")
    return text if quoted or clock or "DEFAULT_GENERATED" in str(row["extra"]).upper() else f"'{text}'"
