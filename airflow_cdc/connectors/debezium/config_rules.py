"""What Debezium's configuration does to names, keys and values (core/capture.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.events.frames import frame_of
from airflow_cdc.connectors.debezium.events.postgres import PostgresValues
from airflow_cdc.connectors.debezium.history import compare_history, fold_history, newest_snapshot_ms, read_at
from airflow_cdc.connectors.debezium.null_defaults import NullFault, null_fault, replaces_nulls
from airflow_cdc.connectors.debezium.uncarried import dated_columns, doubted_columns, looks
from airflow_cdc.connectors.debezium.written import written
from airflow_cdc.core.capture import CaptureSettings, ConfigRules, Defaults, Look, Newest, Topics
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.position import JsonObject, Position
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import NewestRecord
from airflow_cdc.events.record import RawRecord, SchemaId


@dataclass(frozen=True, slots=True)
class HistoryDefinitions:
    """The schema history, oldest record first."""

    records: Sequence[JsonObject]

    @property
    def newest_ms(self) -> int:
        """See core.capture.TableDefinitions."""
        return newest_snapshot_ms(self.records) or 0

    @property
    def size(self) -> int:
        """See core.capture.TableDefinitions."""
        return len(self.records)

    def differences(
        self, tables: Mapping[str, Table], *, at: Position | None = None, server: str = ""
    ) -> dict[str, tuple[str, ...]]:
        """See core.capture.TableDefinitions."""
        read = self.records if at is None else read_at(self.records, at)
        newest = fold_history(read, server)
        compared = {name: tuple(compare_history(table, newest.get(name))) for name, table in tables.items()}
        return {name: texts for name, texts in compared.items() if texts}


class DebeziumConfigRules:
    """See core.capture.ConfigRules."""

    def capture(self, config: Mapping[str, str]) -> ConnectorSettings:
        """The configuration, parsed."""
        return ConnectorSettings.from_config(config)

    def may_replace_nulls(self, config: Mapping[str, str]) -> bool:
        """Whether the converter may write a default where the row holds NULL."""
        return replaces_nulls(config)

    def null_fault(
        self, config: Mapping[str, str], definitions: Mapping[str, Table], defaults: Mapping[str, Defaults]
    ) -> NullFault | None:
        """What the converter does to these tables' NULLs."""
        return null_fault(config, definitions, defaults)

    def written(
        self,
        config: Mapping[str, str],
        subject: str,
        tables: Sequence[str],
        newest: Callable[[Sequence[str]], Newest],
    ) -> Sequence[Check]:
        """How the connector's records are written, by its topics' newest ones."""
        return written(self.capture(config), subject, tables, newest)

    def schemas_of(self, config: Mapping[str, str], table: str, record: NewestRecord) -> Sequence[SchemaId]:
        """See flows.schemas.NamesSchemas."""
        raw = RawRecord(0, 0, record.key, record.value, record.carried)
        return frame_of(self.capture(config), table).schemas_of(raw)

    def looks(self, table: Table, capture: CaptureSettings) -> Iterator[Look]:
        """Queries for values that Debezium's events don't carry."""
        own = capture.event_values if isinstance(capture, ConnectorSettings) else None
        precise = isinstance(own, PostgresValues) and own.decimal == "precise"
        return looks(table, years_adjusted=capture.years_adjusted, bytes_of_decimals=precise)

    def dated_columns(self, table: Table) -> Sequence[str]:
        """Columns of dates with a year."""
        return dated_columns(table)

    def doubted_columns(self, table: Table) -> Sequence[str]:
        """Columns with characters that cannot be read correctly from events."""
        return doubted_columns(table)

    def definitions(self, capture: CaptureSettings, topics: Topics) -> HistoryDefinitions:
        """The current schema history. Raises ConnectorError if it is not stored in Kafka."""
        topic = capture.history_topic
        if topic is None:
            raise ConnectorError(
                "the connector keeps its schema history outside Kafka, where it can't be compared or rebuilt",
                where=f"topic.prefix {capture.prefix}",
                todo="Set schema.history.internal.kafka.topic.",
            )
        return HistoryDefinitions(topics.history_records(topic) if topics.topic_states([topic]) else [])


RULES: ConfigRules = DebeziumConfigRules()
