"""Debezium's events of a PostgreSQL source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.connectors.debezium.null_defaults import nulls_at_risk
from airflow_cdc.sources.postgres.visible import ORIGIN
from airflow_cdc.spark_apps.adapters.debezium import SOURCE, SourceBlock, decode
from airflow_cdc.spark_apps.apply.record import SIDES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.connectors.debezium.config import ConnectorSettings
    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.ddl import Ddl
    from airflow_cdc.spark_apps.ports import Defaults

# A change is ordered by its transaction id, which determines whether a read view shows it. `log_n` is the end of the
# previously committed transaction: the log sends transactions in commit order, while their positions in it have no
# order. Rows of one log entry share a position; their number within the transaction tells them apart.
BLOCK = SourceBlock(
    fields="schema: string, `table`: string, txId: bigint, lsn: bigint, sequence: string",
    table=f"concat({SOURCE}.schema, '.', {SOURCE}.`table`)",
    placed=f"{SOURCE}.lsn IS NOT NULL AND {SOURCE}.txId IS NOT NULL",
    origin=f"'{ORIGIN}'",
    n=f"{SOURCE}.txId",
    pos=f"{SOURCE}.lsn",
    row="CAST(coalesce(`transaction`.total_order, 0L) AS int)",
    log="'wal'",
    log_n=f"try_cast(get_json_object({SOURCE}.sequence, '$[0]') AS bigint)",
    transaction="CAST(NULL AS string)",
    # depending on its replica identity, a table with a key may send only the key of the before image, the rest as nulls
    whole_before=False,
    beside={"transaction": "struct<total_order: bigint>"},
)


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a Debezium connector that reads PostgreSQL."""

    routing: ConnectorSettings

    def decode(self, raw: DataFrame, table: Table, sides: Sequence[str] = SIDES) -> DataFrame:
        """See ports.EventDecoder."""
        return decode(raw, table, self.routing, BLOCK, sides)

    def statements(self, records: Iterable[TopicRecord], where: str) -> Sequence[Ddl]:  # noqa: ARG002 - as the port asks
        """See ports.EventDecoder: the log holds no DDL."""
        return ()

    def nulls_at_risk(self, table: Table, defaults: Defaults) -> tuple[str, ...]:
        """See ports.EventDecoder."""
        return nulls_at_risk(table, defaults)
