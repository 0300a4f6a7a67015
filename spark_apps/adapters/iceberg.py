"""Stages of Iceberg tables, written by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.functions import lit

from airflow_cdc.decisions.apply.schema_change import SchemaChange, stored_definition
from airflow_cdc.sinks.iceberg.snapshots import row_count, snapshot_at, stamp_and_summary, summary_of
from airflow_cdc.sinks.iceberg.stage import of_stage
from airflow_cdc.spark_apps.adapters import iceberg_fit, iceberg_merge, iceberg_schema
from airflow_cdc.spark_apps.adapters.iceberg_small import IcebergSmallCommit
from airflow_cdc.spark_apps.driver.sql import quote_ident

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.ports import Stage
    from airflow_cdc.core.stamp import Stamp
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.start import Start
    from airflow_cdc.sinks.iceberg.client import Lake
    from airflow_cdc.spark_apps.ports import Defaults


class IcebergWriter:
    """Writes to the stages of a lake, as ports.StageWriter."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def _name(self, stage: Stage) -> str:
        return ".".join(quote_ident(part) for part in (self._lake.name, *stage.identifier))

    def stamped(self, identifier: tuple[str, str], mirror: Stamp | None) -> tuple[Stamp | None, Mapping[str, str]]:
        """See ports.StageWriter."""
        return stamp_and_summary(self._lake.table(*identifier).metadata, mirror)

    def open_table(self, identifier: tuple[str, str]) -> IcebergSmallCommit:
        """See ports_few.CommitsFew."""
        return IcebergSmallCommit(self._lake, identifier, self._lake.table(*identifier))

    def stamp(self, stage: Stage) -> Stamp | None:
        """See ports.StageWriter."""
        return self._lake.stamp(*stage.identifier)

    def definition(self, stage: Stage, fingerprint: str | None) -> Table | None:
        """See ports.StageWriter."""
        return stored_definition(self._lake.table(*stage.identifier).properties, fingerprint)

    def rows(self, spark: SparkSession, stage: Stage) -> DataFrame:
        """See ports.StageWriter."""
        return spark.table(self._name(stage))

    def fit(self, spark: SparkSession, stage: Stage, start: Start, defaults: Defaults | None) -> SchemaChange:
        """See ports.StageWriter."""
        change = iceberg_fit.fit_stage(self._lake, stage, start, defaults)
        iceberg_merge.fill(spark, self._name(stage), start.table, change)
        return change

    def define(self, stage: Stage, table: Table, columns: Sequence[tuple[str, str]]) -> bool:
        """See ports.StageWriter."""
        copy = self._lake.table(*stage.identifier)
        changed = iceberg_schema.fit_read(self._lake, copy, stage, columns)
        iceberg_schema.set_definition(self._lake, stage, table, copy)
        return changed

    def note_definition(self, stage: Stage, table: Table) -> None:
        """See ports.StageWriter."""
        iceberg_schema.set_definition(self._lake, stage, table)

    def nothing(self, spark: SparkSession, stage: Stage, summary: Mapping[str, str]) -> None:
        """See ports.StageWriter. Takes 20 ms without a Spark job, most of a second with one."""
        marked = of_stage(stage.base_head, summary)
        if not self._lake.commit_nothing(*stage.identifier, marked):
            iceberg_merge.append_nothing(spark, self._name(stage), marked)

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
        marked = of_stage(stage.base_head, summary)
        iceberg_merge.write_by_key(self._name(stage), table, net, marked, emptied=emptied, small=small)

    def images(
        self, stage: Stage, table: Table, net: DataFrame, summary: Mapping[str, str], *, emptied: bool = False
    ) -> None:
        """See ports.StageWriter."""
        iceberg_merge.write_images(self._name(stage), table, net, of_stage(stage.base_head, summary), emptied=emptied)

    def snapshot(self, stage: Stage, rows: DataFrame, summary: Mapping[str, str], *, first: bool) -> None:
        """See ports.StageWriter."""
        writer = rows.writeTo(self._name(stage))
        for key, value in of_stage(stage.base_head, summary).items():
            writer = writer.option(f"snapshot-property.{key}", value)
        if first:
            writer.overwrite(lit(True))
        else:
            writer.append()

    def misfits(
        self, spark: SparkSession, identifier: tuple[str, str], columns: Sequence[tuple[str, str]], key: Sequence[str]
    ) -> Sequence[str]:
        """See ports.SharesTables."""
        del spark, key
        return iceberg_schema.misfits(self._lake.table(*identifier).schema(), columns)

    def changeable(self, stage: Stage) -> None:
        """See ports.StageWriter."""
        iceberg_fit.delete_by_position(self._lake, stage)

    def readable_version(self, spark: SparkSession, stage: Stage) -> int:
        """See ports.StageWriter. A snapshot is read with the columns that the table had when the snapshot was made."""
        metadata = self._lake.table(*stage.identifier).metadata
        head = metadata.snapshot_by_id(self.version(stage))
        if head is not None and head.schema_id != metadata.current_schema_id:
            self.nothing(spark, stage, {})
        return self.version(stage)

    def at(self, spark: SparkSession, stage: Stage, version: int) -> str:
        """See ports.StageWriter."""
        del spark  # every session has the catalog
        return f"{self._name(stage)} VERSION AS OF {version}"

    def version(self, stage: Stage) -> int:
        """See ports.StageWriter."""
        return self._lake.head(*stage.identifier) or stage.base_head

    def few(self, stage: Stage, version: int, *, most_rows: int, most_bytes: int) -> pa.Table | None:
        """See ports_few.HoldsFew."""
        copy = self._lake.table(*stage.identifier)
        rows = row_count(copy.metadata, version)
        size = summary_of(snapshot_at(copy.metadata, version)).get("total-files-size")
        if rows is None or size is None or rows > most_rows or int(size) > most_bytes:
            return None
        return copy.scan(snapshot_id=version).to_arrow()

    def row_count(self, stage: Stage, version: int) -> int | None:
        """See ports.StageWriter."""
        return row_count(self._lake.table(*stage.identifier).metadata, version)
