"""Stages of Hudi tables, written by Spark."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as fn

from airflow_cdc.core.errors import SchemaError, SinkError, StaleHeadError
from airflow_cdc.decisions.apply.schema_change import (
    DEFINITION,
    SchemaChange,
    check_added,
    dump_definition,
    refused,
    stored_definition,
)
from airflow_cdc.sinks.hudi import timeline
from airflow_cdc.sinks.hudi.client import copy_table
from airflow_cdc.sinks.hudi.endpoint import COPY_ON_WRITE
from airflow_cdc.spark_apps.adapters import hudi_shared, hudi_table
from airflow_cdc.spark_apps.adapters.hudi_table import ADD, DELETED, HUDIS, KEEP_ALL, KEY, REPLACE, UPSERT, HudiTable
from airflow_cdc.spark_apps.canonical.spark import key_text
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.stamp import Stamp
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.start import Start
    from airflow_cdc.sinks.hudi.client import HudiSink, Stage
    from airflow_cdc.spark_apps.ports import Defaults

_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GONE, _AFTER = own_name("deleted"), own_name("after")
Place = tuple[str, str]


class HudiWriter:
    """Writes to the stages of a folder, as ports.StageWriter."""

    def __init__(self, sink: HudiSink) -> None:
        self._sink = sink
        # of a table that readers see: the definition that the next commit brings, and the version that we left
        self._pending: dict[Place, str] = {}
        self._committed: dict[str, int] = {}

    def stamped(self, identifier: Place, mirror: Stamp | None) -> tuple[Stamp | None, Mapping[str, str]]:
        """See ports.StageWriter."""
        del mirror  # each commit of ours has a stamp, so the newest is never archived
        carrier = timeline.stamped(self._sink.lineage(identifier))
        return (carrier.stamp, carrier.summary) if carrier else (None, {})

    def stamp(self, stage: Stage) -> Stamp | None:
        """See ports.StageWriter."""
        return self.stamped(stage.identifier, None)[0]

    def definition(self, stage: Stage, fingerprint: str | None) -> Table | None:
        """See ports.StageWriter."""
        text = self._definition(stage)
        return stored_definition({DEFINITION: text} if text else {}, fingerprint)

    def _definition(self, stage: Stage) -> str:
        if not stage.in_place:
            return self._sink.noted(stage.identifier).definition
        definition = self.stamped(stage.identifier, None)[1].get(DEFINITION, "")
        return self._pending.get(stage.identifier) or definition

    def rows(self, spark: SparkSession, stage: Stage) -> DataFrame:
        """See ports.StageWriter."""
        return _without_ours(self._frame(spark, stage, self.version(stage)))

    def _frame(self, spark: SparkSession, stage: Stage, version: int) -> DataFrame:
        """The rows at a version, with our columns; those of the table for a stage that has none yet."""
        place = stage.identifier
        if self._sink.endpoint.shared and place == (stage.namespace, stage.table) and version:
            return hudi_shared.read(spark, self._sink.folder(place), version)
        if self._sink.endpoint.shared and not self._sink.commits(place):
            version = 0  # another program's rows are not those of a stage
        if version and not self._sink.commits(place) and not stage.in_place:
            place = (stage.namespace, stage.table)
        if version:
            return hudi_table.read(spark, self._sink.folder(place), version)
        columns = self._sink.noted(stage.identifier).columns
        schema = ", ".join(f"{quote_ident(name)} {kind}" for name, kind in columns)
        return spark.createDataFrame([], f"{schema}, {KEY} string, {DELETED} boolean")

    def fit(self, spark: SparkSession, stage: Stage, start: Start, defaults: Defaults | None) -> SchemaChange:
        """See ports.StageWriter. A column that may be NULL is added; any other change is read again."""
        columns = {field.name: field.dataType.simpleString() for field in self.rows(spark, stage).schema}
        change = _fitted(columns, start, defaults)
        _check(start.table)
        self._note(stage, start.table)
        return change

    def define(self, stage: Stage, table: Table, columns: Sequence[tuple[str, str]]) -> bool:
        """See ports.StageWriter. Raises SchemaError for a table that Hudi cannot hold."""
        _check(table)
        notes = self._sink.noted(stage.identifier)
        changed = notes.columns != tuple(columns)
        if changed and self._sink.commits(stage.identifier):
            raise SinkError(
                "the stage holds rows with other columns",
                where=f"stage {stage.label} of {stage.target}",
                todo="Clear the task recover and all after it.",
            )
        self._sink.note(stage.identifier, columns=tuple(columns), definition=dump_definition(table))
        return changed

    def note_definition(self, stage: Stage, table: Table) -> None:
        """See ports.StageWriter. Raises SchemaError for a table that Hudi cannot hold."""
        _check(table)
        self._note(stage, table)

    def _note(self, stage: Stage, table: Table) -> None:
        """At once for a stage, and with the next commit for a table that readers see."""
        if stage.in_place:
            self._pending[stage.identifier] = dump_definition(table)
        else:
            columns = tuple((column.name, sink_type(column)) for column in table.mirrored)
            self._sink.note(stage.identifier, definition=dump_definition(table), columns=columns)

    def nothing(self, spark: SparkSession, stage: Stage, summary: Mapping[str, str]) -> None:
        """See ports.StageWriter."""
        self.changeable(stage)
        self._commit(stage, self._frame(spark, stage, self.version(stage)).where("false"), UPSERT, summary)

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
        if not emptied:
            self.changeable(stage)
        rows = _changed(table, net)
        if emptied:
            rows = rows.where(f"NOT {DELETED}")
        self._commit(stage, rows, REPLACE if emptied else UPSERT, summary)

    def images(
        self, stage: Stage, table: Table, net: DataFrame, summary: Mapping[str, str], *, emptied: bool = False
    ) -> None:
        """See ports.StageWriter. Always raises SchemaError: only tables without a key have images."""
        del stage, net, summary, emptied
        _check(table)

    def snapshot(self, stage: Stage, rows: DataFrame, summary: Mapping[str, str], *, first: bool) -> None:
        """See ports.StageWriter."""
        table = self.definition(stage, None)
        if table is None:
            raise SinkError("the stage has no definition", where=f"stage {stage.label} of {stage.target}")
        operation = REPLACE if first and self._sink.commits(stage.identifier) else ADD
        self._commit(stage, _rows(table, rows), operation, summary)

    def _commit(self, stage: Stage, rows: DataFrame, operation: str, summary: Mapping[str, str]) -> None:
        """One commit that carries the summary and the definition. One of another writer is an error, before and after."""
        properties = {**summary, DEFINITION: self._definition(stage)}
        base = self._committed.get(_key(stage), stage.base_head)
        if stage.in_place:
            self._check_head(stage, base)
        options = {} if stage.in_place else KEEP_ALL
        kind = self._sink.endpoint.table_type if stage.in_place else COPY_ON_WRITE
        table = HudiTable(self._sink.folder(stage.identifier), stage.table, kind)
        hudi_table.write(rows, table, operation, properties, options)
        self._count(stage, rows.sparkSession)
        if stage.in_place:
            self._sink.check_alone(stage.identifier, base, properties)
            self._committed[_key(stage)] = self.version(stage)
            self._pending.pop(stage.identifier, None)

    def _count(self, stage: Stage, spark: SparkSession) -> None:
        """Note how many rows there are now, if the files do not say it."""
        version, folder = self.version(stage), self._sink.folder(stage.identifier)
        if timeline.rows_at(folder, version) is None:
            self._sink.note_rows(stage.identifier, version, hudi_table.read(spark, folder, version).count())

    def _check_head(self, stage: Stage, base: int) -> None:
        try:
            self._sink.check_head(stage.identifier, base)
        except StaleHeadError as error:
            error.todo = "Run the job again: it begins from the table as it is now."
            raise

    def changeable(self, stage: Stage) -> None:
        """See ports.StageWriter. Copies the table's files to a stage that has none yet. Raises StaleHeadError if it moved."""
        if stage.in_place or not stage.base_head or self._sink.endpoint.shared or self._sink.commits(stage.identifier):
            return
        place = (stage.namespace, stage.table)
        copy_table(self._sink.folder(place), self._sink.folder(stage.identifier))
        self._sink.check_head(place, stage.base_head)

    def misfits(
        self, spark: SparkSession, identifier: Place, columns: Sequence[tuple[str, str]], key: Sequence[str]
    ) -> Sequence[str]:
        """See ports.SharesTables."""
        table = self._sink.shared_table(identifier)
        if table is None or not self._sink.endpoint.shared:
            return ("it is not written by the connector",)
        return hudi_shared.misfits(spark, table, columns, key, self._sink.endpoint.buckets)

    def version(self, stage: Stage) -> int:
        """See ports.StageWriter."""
        commits = self._sink.commits(stage.identifier)
        return commits[-1].version if commits else stage.base_head

    def readable_version(self, spark: SparkSession, stage: Stage) -> int:
        """See ports.StageWriter."""
        del spark
        return self.version(stage)

    def at(self, spark: SparkSession, stage: Stage, version: int) -> str:
        """See ports.StageWriter."""
        name = f"cdc_{uuid.uuid4().hex}"
        _without_ours(self._frame(spark, stage, version)).createGlobalTempView(name)
        return f"global_temp.{name}"

    def row_count(self, stage: Stage, version: int) -> int | None:
        """See ports.StageWriter. A stage whose columns are not its base's holds no rows until they are read."""
        if self._sink.commits(stage.identifier):
            rows = self._sink.rows_of(stage.identifier, version)
            return self._sink.row_count(stage.namespace, stage.table, version) if rows is None else rows
        if not version or self._sink.noted(stage.identifier).columns != self._base_columns(stage):
            return 0
        return self._sink.row_count(stage.namespace, stage.table, version)

    def _base_columns(self, stage: Stage) -> tuple[tuple[str, str], ...]:
        text = self._sink.definition_text(stage.namespace, stage.table)
        table = stored_definition({DEFINITION: text} if text else {}, None)
        return tuple((column.name, sink_type(column)) for column in table.mirrored) if table else ()


def _key(stage: Stage) -> str:
    return f"{stage.target} {stage.label}"


def _without_ours(frame: DataFrame) -> DataFrame:
    return frame.drop(KEY, DELETED)


def _check(table: Table) -> None:
    """Raise SchemaError for a table that Hudi cannot hold as it is."""
    where = f"table {table.full_name}"
    if table.keyless:
        raise SchemaError(
            "a table without a primary key cannot be mirrored into Hudi: its rows are known by their keys",
            where=where,
            todo="Add a primary key, or leave the table out.",
        )
    names = [column.name for column in table.mirrored]
    bad = [name for name in names if not _AVRO_NAME.fullmatch(name) or name.lower().startswith((HUDIS, KEY))]
    if bad:
        raise SchemaError(
            f"column {', '.join(bad)} cannot be a column of a Hudi table: names there have letters, digits and"
            f" underscores, and {HUDIS}… and {KEY} are taken",
            where=where,
            todo="Rename the column, or leave the table out.",
        )


def _rows(table: Table, rows: DataFrame) -> DataFrame:
    """Rows of the table as they are written."""
    return rows.selectExpr(
        *_values(table, ""), f"{key_text(table)} AS {KEY}", f"{_nullable('false', 'boolean')} AS {DELETED}"
    )


def _changed(table: Table, net: DataFrame) -> DataFrame:
    """Net changes as they are written: a deleted row is a key that says so."""
    keyed = net.select("key.*", fn.col("deleted").alias(_GONE), fn.col("after").alias(_AFTER))
    is_gone = _nullable(quote_ident(_GONE), "boolean")
    return keyed.selectExpr(
        *_values(table, f"{quote_ident(_AFTER)}."), f"{key_text(table)} AS {KEY}", f"{is_gone} AS {DELETED}"
    )


def _values(table: Table, prefix: str) -> list[str]:
    return [
        f"{_nullable(f'{prefix}{quote_ident(column.name)}', sink_type(column))} AS {quote_ident(column.name)}"
        for column in table.mirrored
    ]


def _nullable(value: str, kind: str) -> str:
    """The value, which may be NULL: a column that may not in one commit and may in another is refused by Hudi."""
    return f"IF(true, CAST({value} AS {kind}), NULL)"


def _fitted(columns: Mapping[str, str], start: Start, defaults: Defaults | None) -> SchemaChange:
    """The change from these columns (name → Spark SQL type) to those of the start's table, if Hudi can follow it."""
    table, change = start.table, start.change or SchemaChange()
    types = {column.name: sink_type(column) for column in table.mirrored}
    for name in columns.keys() - types.keys():
        raise refused(table, f"column {name} was dropped or renamed, and rows keep what they hold in it")
    if change.filled:
        raise refused(table, f"column {', '.join(change.filled)} was added with a value in old rows")
    added = tuple(name for name in types if name not in columns)
    if start.change is not None and (missing := set(added) - set(change.added)):
        raise refused(table, f"the table has no column {', '.join(sorted(missing))}, and no DDL added it")
    for name in added if start.change is None else ():
        check_added(table, table.column(name), defaults)
    for name in columns:
        if columns[name] != types[name]:
            raise refused(table, f"column {name} is {types[name]} now, and was {columns[name]}")
    return SchemaChange(added, never_null=change.never_null)
