"""Tables of a PostgreSQL server that others fill from the topics: read as a source's, with no position to prove."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_cdc.spark_apps.adapters.postgres import PostgresReader
from airflow_cdc.spark_apps.adapters.postgres_jdbc import jdbc_options
from airflow_cdc.spark_apps.adapters.postgres_view import PostgresView, read_only

if TYPE_CHECKING:
    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.table import Table


class PostgresCopies(PostgresReader):
    """Such a server for Spark, as ports.RowReader. `at` is not looked at: copies have no watermark."""

    exact_views = False

    @contextmanager
    def view(self, table: Table, *, at: Watermark) -> Iterator[PostgresView]:  # noqa: ARG002 - see the class
        """See ports.RowReader."""
        with read_only(self._source, None) as session:
            yield PostgresView(session, table)

    def _options(self, table: Table, at: Watermark) -> dict[str, str]:  # noqa: ARG002 - see the class
        return jdbc_options(self._source, None, self._size(table).fetched_rows())
