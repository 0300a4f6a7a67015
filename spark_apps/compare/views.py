"""The sink's side of a comparison, pinned to one snapshot. The source's side is ports.SourceView."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.canonical import outside_hash
from airflow_cdc.decisions.compare.leaves import Leaf, LeafScheme, read_leaves
from airflow_cdc.decisions.compare.part import WHOLE, Part
from airflow_cdc.decisions.compare.verdict import Rows
from airflow_cdc.spark_apps.canonical.spark import key_text, row_hash
from airflow_cdc.spark_apps.compare import digest, few
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident
from airflow_cdc.spark_apps.ports_few import HoldsFew

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.ports import Stage
    from airflow_cdc.spark_apps.ports import StageWriter

_KEY = own_name("key_text")


@dataclass(frozen=True, slots=True)
class SinkView:
    """A stage pinned to one version: reads ignore whatever is committed later (INV 4).

    `small`: reads its rows into memory if they are few.
    """

    spark: SparkSession
    relation: str
    version: int
    small: few.Counting | None = None

    def in_memory_up_to(self, rows: int) -> SinkView:
        """The same view, whose rows are read into memory if they are no more than that."""
        return replace(self, small=None if self.small is None else replace(self.small, most_rows=rows))

    def in_session(self, spark: SparkSession) -> SinkView:
        """The same view in another session of the application."""
        return replace(self, spark=spark)

    def frame(self) -> DataFrame:
        """All rows."""
        return self.spark.sql(f"SELECT * FROM {self.relation}")

    def rows_of_keys(self, keys: Sequence[str]) -> DataFrame:  # noqa: ARG002 - reading all costs no more here
        """The rows under these key texts, and perhaps others."""
        return self.frame()

    def leaves(self, table: Table, scheme: LeafScheme, part: Part = WHOLE) -> dict[int, Leaf]:
        """The digest of every leaf, in one scan."""
        if part.whole and self.small and (digests := few.leaves(table, scheme, self.small)) is not None:
            return digests
        sql = digest.digest_sql(table, scheme, self.relation, part)
        return read_leaves(tuple(row) for row in self.spark.sql(sql).collect())

    def count(self) -> int:
        """How many rows there are."""
        return int(self.frame().count())

    def hashes(
        self, table: Table, scheme: LeafScheme, leaves: Sequence[int], part: Part = WHOLE
    ) -> list[tuple[str, str]]:
        """(key text, hash) of every row in these leaves."""
        found = self.spark.sql(digest.rows_sql(table, scheme, leaves, self.relation, part)).collect()
        return [(str(row[0]), str(row[1])) for row in found]

    def images_frame(self, table: Table, part: Part = WHOLE) -> DataFrame:
        """(key_text, h, x0, x1 …) of all rows; x are the columns outside the hash, canonical as they are stored."""
        return self._rows(table, part).selectExpr(*_image(table))

    def _rows(self, table: Table, part: Part) -> DataFrame:
        """The part's rows as they are stored."""
        condition = digest.ROWS.part_where(table, part)
        return self.frame().where(condition) if condition else self.frame()

    def images(self, table: Table, keys: Iterable[str], part: Part = WHOLE) -> Rows:
        """The rows under these key texts."""
        texts, rows_by_key = sorted(set(keys)), defaultdict(list)
        if not texts:
            return {}
        if part.whole and self.small and (rows_of := few.sink_images(table, set(texts), self.small)) is not None:
            return rows_of
        frame_of_keys = self.spark.createDataFrame([(key,) for key in texts], f"{quote_ident(_KEY)} string")
        keyed = self._rows(table, part).withColumn(_KEY, fn.expr(key_text(table)))
        # joined before the rows are hashed, which costs more than all else and is for these alone
        rows = keyed.join(fn.broadcast(frame_of_keys), _KEY, "left_semi").selectExpr(*_image(table))
        for key, *image in rows.collect():
            rows_by_key[key].append(tuple(image))
        return dict(rows_by_key)


def _image(table: Table) -> list[str]:
    """What images_frame has of a row."""
    others = (f"{quote_ident(name)} AS x{at}" for at, name in enumerate(outside_hash(table)))
    return [f"{key_text(table)} AS key_text", f"{row_hash(table)} AS h", *others]


def pinned(spark: SparkSession, writer: StageWriter, stage: Stage, version: int) -> SinkView:
    """The stage at this version, of which nothing is read yet."""
    small = None
    if isinstance(writer, HoldsFew):
        small = few.Counting(lambda most: writer.few(stage, version, most_rows=most, most_bytes=few.FEW_BYTES))
    return SinkView(spark, writer.at(spark, stage, version), version, small)
