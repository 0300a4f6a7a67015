"""Debezium's events of a MySQL source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.debezium.null_defaults import nulls_at_risk
from airflow_cdc.connectors.debezium.schema_changes import read_statements
from airflow_cdc.connectors.debezium.values.mysql import MySqlValues
from airflow_cdc.connectors.debezium.values.mysql_plain import converter
from airflow_cdc.connectors.debezium.values.plain import PlainDecoder, binlog_change, number_in
from airflow_cdc.decisions.apply.plain import NotPlainError
from airflow_cdc.spark_apps.adapters.debezium import SOURCE, SourceBlock, decode
from airflow_cdc.spark_apps.apply.record import SIDES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.connectors.debezium.config import ConnectorSettings
    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.applied import LastChange
    from airflow_cdc.decisions.apply.ddl import Ddl
    from airflow_cdc.spark_apps.ports import Defaults


# Origins are named as in sources/mysql/events.py. GTIDs stay as they are: servers write UUIDs and tags in lower case,
# and Spark's lower() first loads all of Unicode.
def _after_last(text: str, mark: str) -> str:
    return f"substring_index({text}, '{mark}', -1)"


def _before_last(text: str, mark: str) -> str:
    return f"left({text}, length({text}) - length({_after_last(text, mark)}) - 1)"


_FILE, _GTID = f"{SOURCE}.file", f"{SOURCE}.gtid"
_SERIES = f"concat_ws('/', CAST({SOURCE}.server_id AS string), {_before_last(_FILE, '.')})"
_FILE_NUMBER = f"try_cast({_after_last(_FILE, '.')} AS bigint)"
_COMMITTER = _before_last(_GTID, ":")
_NUMBER = f"try_cast({_after_last(_GTID, ':')} AS bigint)"
# Spark reads a number as a text, too: {"file": 7} is no place
IN_A_FILE = f"{_FILE_NUMBER} IS NOT NULL AND instr({_FILE}, '.') > 1"
BLOCK = SourceBlock(
    fields="db: string, `table`: string, gtid: string, server_id: bigint, file: string, pos: bigint, `row`: int",
    table=f"concat({SOURCE}.db, '.', {SOURCE}.`table`)",
    placed=f"{IN_A_FILE} AND ({_GTID} IS NULL OR ({_NUMBER} IS NOT NULL AND instr({_GTID}, ':') > 1))",
    origin=f"IF({SOURCE}.gtid IS NULL, {_SERIES}, {_COMMITTER})",
    n=f"IF({SOURCE}.gtid IS NULL, {_FILE_NUMBER}, {_NUMBER})",
    pos=f"{SOURCE}.pos",
    row=f"{SOURCE}.`row`",
    log=_SERIES,
    log_n=_FILE_NUMBER,
    transaction=f"{SOURCE}.gtid",
)


def _order(gtid: str) -> tuple[str, int]:
    committer, colon, number = gtid.rpartition(":")
    if not colon:
        raise NotPlainError
    return committer, number_in(number)


def change_of(source: Mapping[str, Any]) -> LastChange:
    """BLOCK's place of a change, for a record that is decoded in memory."""
    return binlog_change(source, _order)


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a Debezium connector that reads MySQL."""

    routing: ConnectorSettings

    def decode(self, raw: DataFrame, table: Table, sides: Sequence[str] = SIDES) -> DataFrame:
        """See ports.EventDecoder."""
        return decode(raw, table, self.routing, BLOCK, sides)

    def plain(self, table: Table) -> PlainDecoder | None:
        """See ports.DecodesFew."""
        values = self.routing.values
        if not isinstance(values, MySqlValues):
            return None
        return PlainDecoder.of(table, self.routing, change_of, partial(converter, modes=values.modes))

    def statements(self, records: Iterable[TopicRecord], where: str) -> Sequence[Ddl]:
        """See ports.EventDecoder."""
        return read_statements(records, where)

    def nulls_at_risk(self, table: Table, defaults: Defaults) -> tuple[str, ...]:
        """See ports.EventDecoder."""
        return nulls_at_risk(table, defaults)
