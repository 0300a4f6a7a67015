"""Tables of a MySQL or MariaDB server that others fill from the topics: read as a source's, with no position to prove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.sources.mysql.session import session_pins
from airflow_cdc.spark_apps.adapters.mysql import MySqlReader

if TYPE_CHECKING:
    from airflow_cdc.core.position import Watermark


class MySqlCopies(MySqlReader):
    """Such a server for Spark, as ports.RowReader. `at` is not looked at: copies have no watermark."""

    def _init(self, at: Watermark) -> str:  # noqa: ARG002 - see the class
        """The statement with which a connection starts: the session settings alone."""
        return f"SET {', '.join(session_pins(self._source.version()))}"
