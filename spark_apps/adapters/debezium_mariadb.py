"""Debezium's events of a MariaDB source: MySQL's, with MariaDB's GTIDs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_cdc.connectors.debezium.schema_changes import read_statements
from airflow_cdc.sources.mariadb.events import place_of
from airflow_cdc.spark_apps.adapters import debezium_mysql
from airflow_cdc.spark_apps.adapters.debezium import SOURCE, decode
from airflow_cdc.spark_apps.apply.record import SIDES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.connectors.debezium.values.plain import PlainDecoder
    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.ddl import Ddl

# domain-server-number; as sources/mariadb/events.py names origins
_GTID = "'^([0-9]+)-[0-9]+-([0-9]+)$'"
_DOMAIN = f"regexp_extract({SOURCE}.gtid, {_GTID}, 1)"
_NUMBER = f"try_cast(regexp_extract({SOURCE}.gtid, {_GTID}, 2) AS bigint)"
_MYSQL = debezium_mysql.BLOCK
BLOCK = replace(
    _MYSQL,
    placed=debezium_mysql.IN_A_FILE,
    origin=f"IF({SOURCE}.gtid IS NULL, {_MYSQL.log}, {_DOMAIN})",
    n=f"IF({SOURCE}.gtid IS NULL, {_MYSQL.log_n}, {_NUMBER})",
)


@dataclass(frozen=True, slots=True)
class Events(debezium_mysql.Events):
    """The events of a Debezium connector that reads MariaDB."""

    def decode(self, raw: DataFrame, table: Table, sides: Sequence[str] = SIDES) -> DataFrame:
        """See ports.EventDecoder."""
        return decode(raw, table, self.routing, BLOCK, sides)

    def plain(self, table: Table) -> PlainDecoder | None:  # noqa: ARG002 - as the port asks
        """See ports.DecodesFew. Never: only MySQL's events were compared, value by value, by both decoders."""
        return None

    def statements(self, records: Iterable[TopicRecord], where: str) -> Sequence[Ddl]:
        """See ports.EventDecoder."""
        return read_statements(records, where, place_of)
