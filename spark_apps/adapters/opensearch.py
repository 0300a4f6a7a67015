"""Stages in OpenSearch, written and read by Spark's tasks through opensearch-py."""

from __future__ import annotations

import atexit
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn
from pyspark.sql.types import DataType, StructField, StructType

from airflow_cdc.core.errors import SinkError, StaleHeadError
from airflow_cdc.decisions.apply.schema_change import DEFINITION, SchemaChange, dump_definition, stored_definition
from airflow_cdc.sinks.opensearch.indexes import STAGE_NAMESPACE, Stage
from airflow_cdc.sinks.opensearch.mapping import check_keyed, properties
from airflow_cdc.sinks.opensearch.record import Columns, Record, Seen
from airflow_cdc.sinks.opensearch.versions import epoch_of, of_read
from airflow_cdc.spark_apps.adapters.opensearch_documents import KEEP_ALIVE, DocumentReader, DocumentWriter, Origin
from airflow_cdc.spark_apps.adapters.opensearch_fit import fitted
from airflow_cdc.spark_apps.adapters.opensearch_values import restored, stored, stored_type
from airflow_cdc.spark_apps.canonical.spark import key_text
from airflow_cdc.spark_apps.driver.session import parallelism
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.stamp import Stamp
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.start import Start
    from airflow_cdc.sinks.opensearch.client import SearchSink
    from airflow_cdc.spark_apps.ports import Defaults

# OpenSearch allows ids of 512 bytes
MOST_ID_BYTES = 400
MOST_SLICES = 8
_DOCUMENT_ID, _VERSION, _GONE, _AFTER = (own_name(name) for name in ("id", "version", "deleted", "after"))


@dataclass(frozen=True, slots=True)
class _Pending:
    """What the next commit to a table's own index also says: readers of the record see it with the documents."""

    columns: Columns
    properties: Mapping[str, str]


class OpenSearchWriter:
    """Writes to the stages of a cluster, as ports.StageWriter."""

    def __init__(self, sink: SearchSink) -> None:
        self._sink = sink
        self._pending: dict[str, _Pending] = {}
        self._committed: dict[str, int] = {}
        self._views: list[str] = []
        atexit.register(self._close_views)

    def _close_views(self) -> None:
        if self._views:
            self._sink.close_views(self._views)

    def _record(self, stage: Stage) -> Record:
        return self._sink.records.see(stage.index).record

    def stamped(self, identifier: tuple[str, str], mirror: Stamp | None) -> tuple[Stamp | None, Mapping[str, str]]:
        """See ports.StageWriter."""
        del mirror  # a record keeps its newest stamped commit
        namespace, name = identifier
        seen = self._sink.records.see(name) if namespace == STAGE_NAMESPACE else self._sink.target(*identifier)
        commit = seen.record.stamped
        return (commit.stamp, commit.summary) if commit else (None, {})

    def stamp(self, stage: Stage) -> Stamp | None:
        """See ports.StageWriter."""
        commit = self._record(stage).stamped
        return commit.stamp if commit else None

    def definition(self, stage: Stage, fingerprint: str | None) -> Table | None:
        """See ports.StageWriter."""
        return stored_definition(self._record(stage).properties, fingerprint)

    def rows(self, spark: SparkSession, stage: Stage) -> DataFrame:
        """See ports.StageWriter."""
        return self._frame(spark, self._record(stage))

    def _frame(self, spark: SparkSession, record: Record, view: str = "") -> DataFrame:
        """The rows of a view; without one, as they are when they are read."""
        slices = min(MOST_SLICES, parallelism(spark))
        kinds = [(name, DataType.fromDDL(kind)) for name, kind in record.columns]
        fields = tuple((name, stored_type(kind)) for name, kind in kinds)
        reader = DocumentReader(self._sink.endpoint, record.readable, view, fields, slices)
        schema = StructType([StructField(f"c{at}", kind) for at, (_, kind) in enumerate(fields)])
        frame = spark.range(0, slices, 1, slices).mapInArrow(reader, schema)
        values = (f"{restored(kind, f'c{at}')} AS {quote_ident(name)}" for at, (name, kind) in enumerate(kinds))
        return frame.selectExpr(*values)

    def fit(self, spark: SparkSession, stage: Stage, start: Start, defaults: Defaults | None) -> SchemaChange:
        """See ports.StageWriter."""
        del spark
        self.changeable(stage)
        record = self._record(stage)
        change = fitted(dict(record.columns), start, defaults)
        columns = tuple((column.name, sink_type(column)) for column in start.table.mirrored)
        definition = dump_definition(start.table)
        if (columns, definition) != (record.columns, record.properties.get(DEFINITION)):
            self._sink.put_mapping(stage.index, properties(start.table))
            self._note(stage, columns, {DEFINITION: definition})
        return change

    def define(self, stage: Stage, table: Table, columns: Sequence[tuple[str, str]]) -> bool:
        """See ports.StageWriter. Raises SchemaError for a table that an index cannot hold."""
        check_keyed(table)
        fields = properties(table)
        record = self._record(stage)
        if not record.empty and record.columns != tuple(columns):
            raise SinkError(
                "the stage holds documents with other columns",
                where=f"index {stage.index}",
                todo="Clear the task recover and all after it.",
            )
        self._sink.put_mapping(stage.index, fields)
        self._note(stage, tuple(columns), {DEFINITION: dump_definition(table)})
        return record.columns != tuple(columns)

    def note_definition(self, stage: Stage, table: Table) -> None:
        """See ports.StageWriter. Raises SchemaError for a table without a key."""
        check_keyed(table)
        self._note(stage, self._record(stage).columns, {DEFINITION: dump_definition(table)})

    def _note(self, stage: Stage, columns: Columns, notes: Mapping[str, str]) -> None:
        """Write it down at once for a stage, and with the next commit for a table that readers see."""
        if stage.in_place:
            self._pending[_key(stage)] = _Pending(columns, notes)
            return
        self._sink.records.change(
            stage.index, lambda record: replace(record, columns=columns, properties={**record.properties, **notes})
        )

    def nothing(self, spark: SparkSession, stage: Stage, summary: Mapping[str, str]) -> None:
        """See ports.StageWriter."""
        del spark
        self.changeable(stage)
        self._commit(stage, self._seen(stage), summary)

    def changes(
        self,
        stage: Stage,
        table: Table,
        net: DataFrame,
        summary: Mapping[str, str],
        *,
        emptied: bool = False,
        small: bool = True,
    ) -> None:
        """See ports.StageWriter."""
        del small
        self.changeable(stage)
        seen = self._seen(stage)
        documents = _changed(table, net, summary)
        origin = Origin.EVENT if "cdc" in net.columns else Origin.AGAIN
        if emptied:
            self._write(seen.record, self._others(seen.record, table, documents), table, Origin.AGAIN, summary)
        self._write(seen.record, documents, table, origin, summary)
        self._commit(stage, seen, summary)

    def _others(self, record: Record, table: Table, documents: DataFrame) -> DataFrame:
        """The rows that are not among these documents, as deleted ones."""
        rows = self._frame(documents.sparkSession, record)
        ids = documents.where(f"NOT {quote_ident(_GONE)}").select(quote_ident(_DOCUMENT_ID))
        return _documents(table, rows, "NULL", "true").join(ids, _DOCUMENT_ID, "left_anti")

    def images(
        self, stage: Stage, table: Table, net: DataFrame, summary: Mapping[str, str], *, emptied: bool = False
    ) -> None:
        """See ports.StageWriter. Always raises SchemaError: only tables without a key have images."""
        del stage, net, summary, emptied
        check_keyed(table)

    def snapshot(self, stage: Stage, rows: DataFrame, summary: Mapping[str, str], *, first: bool) -> None:
        """See ports.StageWriter."""
        record = self._record(stage)
        table = stored_definition(record.properties, None)
        if table is None:
            raise SinkError("the stage has no definition", where=f"index {stage.index}")
        if first and not record.empty:
            self._sink.clear(stage.index)
            self._sink.put_mapping(stage.index, properties(table))
        seen = self._seen(stage)
        self._write(seen.record, _documents(table, rows, "NULL", "false"), table, Origin.READ, summary)
        self._commit(stage, seen, summary)

    def _write(
        self, record: Record, documents: DataFrame, table: Table, origin: Origin, summary: Mapping[str, str]
    ) -> None:
        fields = tuple(column.name for column in table.mirrored)
        first = of_read(epoch_of(summary))
        documents.foreachPartition(DocumentWriter(self._sink.endpoint, record.index, fields, origin, first))

    def _seen(self, stage: Stage) -> Seen:
        """The record as it is before a write. Raises StaleHeadError if the table has been committed to by another."""
        seen = self._sink.records.see(stage.index)
        version = self._committed.get(_key(stage), stage.base_head)
        if stage.in_place and seen.record.version != version:
            raise StaleHeadError(
                f"the table is at version {seen.record.version}, not at {version}: another writer committed to it",
                where=f"alias {stage.target}",
                todo="Run the job again: it begins from the table as it is now.",
            )
        return seen

    def _commit(self, stage: Stage, seen: Seen, summary: Mapping[str, str]) -> None:
        pending = self._pending.pop(_key(stage), None)
        record = seen.record
        if pending is not None:
            notes = {**record.properties, **pending.properties}
            record = replace(record, columns=pending.columns, properties=notes)
        self._committed[_key(stage)] = self._sink.commit(stage, seen, record, summary)

    def changeable(self, stage: Stage) -> None:
        """See ports.StageWriter. Copies the table's documents to a stage that has none yet."""
        record = self._record(stage)
        if record.empty and record.base_index:
            self._sink.copy(record.base_index, record.index)
            self._sink.records.change(stage.index, lambda now: replace(now, copied=True))

    def version(self, stage: Stage) -> int:
        """See ports.StageWriter."""
        return self._record(stage).version

    def readable_version(self, spark: SparkSession, stage: Stage) -> int:
        """See ports.StageWriter."""
        del spark
        return self.version(stage)

    def at(self, spark: SparkSession, stage: Stage, version: int) -> str:
        """See ports.StageWriter. Only the current version can be opened; what is opened stays as it is."""
        record = self._record(stage)
        if record.version != version:
            raise SinkError(
                f"an index can be read as it is, at version {record.version}, but not at {version}",
                where=f"index {stage.index}",
                todo="Run the job again.",
            )
        view = self._sink.open_view(record.readable, KEEP_ALIVE)
        self._views.append(view)
        name = f"cdc_{uuid.uuid4().hex}"
        self._frame(spark, record, view).createGlobalTempView(name)
        return f"global_temp.{name}"

    def row_count(self, stage: Stage, version: int) -> int | None:
        """See ports.StageWriter. A stage whose columns are not its base's holds no rows until they are read."""
        record = self._record(stage)
        if record.empty and record.columns != record.base_columns:
            return 0
        commit = record.commit(version)
        return commit.rows if commit else None


def _key(stage: Stage) -> str:
    return f"{stage.index} {stage.label}"


def _documents(table: Table, rows: DataFrame, version: str, deleted: str) -> DataFrame:
    """Rows of the table as DocumentWriter takes them; `version` and `deleted` are SQL over them."""
    values = _values(table, rows.schema, "")
    return rows.selectExpr(*_head(_id_of(table), version, deleted), *values)


def _changed(table: Table, net: DataFrame, summary: Mapping[str, str]) -> DataFrame:
    """Net changes as DocumentWriter takes them: an event's version is made of the epoch and its offset (INV 22)."""
    first = of_read(epoch_of(summary))
    version = f"{first}L + cdc.offset + 1" if "cdc" in net.columns else "NULL"
    after = net.schema["after"].dataType
    keyed = net.select(
        "key.*",
        fn.col("deleted").alias(_GONE),
        fn.expr(version).alias(_VERSION),
        fn.col("after").alias(_AFTER),
    )
    values = _values(table, after, f"{quote_ident(_AFTER)}.")
    return keyed.selectExpr(*_head(_id_of(table), quote_ident(_VERSION), quote_ident(_GONE)), *values)


def _head(identity: str, version: str, deleted: str) -> tuple[str, str, str]:
    pairs = ((identity, _DOCUMENT_ID), (f"CAST({version} AS bigint)", _VERSION), (deleted, _GONE))
    one, two, three = (f"{value} AS {quote_ident(name)}" for value, name in pairs)
    return one, two, three


def _values(table: Table, kinds: StructType, prefix: str) -> list[str]:
    return [
        f"{stored(kinds[column.name].dataType, f'{prefix}{quote_ident(column.name)}')} AS c{at}"
        for at, column in enumerate(table.mirrored)
    ]


def _id_of(table: Table) -> str:
    """SQL: a document's id: the key's text, which says each value's length, or its hash if it is too long for an id."""
    text = key_text(table)
    return f"IF(octet_length({text}) <= {MOST_ID_BYTES}, {text}, concat('sha256:', sha2({text}, 256)))"
