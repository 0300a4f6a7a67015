"""Tables of a test on Hudi: a key, a value, and the position by which Hudi orders two versions of a row."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stack.hudi import HudiSpark

COLUMNS = "id BIGINT, a STRING, pos BIGINT"
FIELDS = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.precombine.field": "pos"}
# options that begin so go into the commit
STAMPED = {"hoodie.datasource.write.commitmeta.key.prefix": "cdc."}
KEYS = {"primaryKey": "id", "preCombineField": "pos"}


@dataclass(frozen=True, slots=True)
class HudiTable:
    """One table of a session's catalog."""

    spark: HudiSpark
    name: str
    path: Path

    def rows(self) -> dict[int, tuple[str, int]]:
        """Id → (a, pos), from a read that knows nothing of earlier ones; each id is there once."""
        rows = self.spark.sql(f"SELECT id, a, pos FROM {self.view('snapshot')}")
        assert len({row[0] for row in rows}) == len(rows), rows
        return {row[0]: (row[1], row[2]) for row in rows}

    def write(self, query: str, operation: str, more: Mapping[str, str] | None = None) -> None:
        """Write a query's rows by the data source."""
        options = {"hoodie.table.name": self.name, "hoodie.datasource.write.operation": operation, **FIELDS}
        self.spark.write(query, self.path, {**options, **(more or {})})

    def stamped(self, query: str, operation: str, stamp: str, more: Mapping[str, str] | None = None) -> None:
        """The same, with a stamp in the commit's own metadata."""
        self.write(query, operation, {**STAMPED, "cdc.stamp": stamp, **(more or {})})

    def stamps(self) -> list[str]:
        """The stamp of the newest commit that has one, as far as the active timeline goes; none, or one."""
        rows = self.spark.sql(f"CALL show_commit_extra_metadata(table => '{self.name}', metadata_key => 'cdc.stamp')")
        return [str(row[-1]) for row in rows]

    def view(self, query_type: str) -> str:
        """A view that lists the table's files anew; `query_type`: snapshot, read_optimized."""
        view = f"v_{uuid.uuid4().hex[:8]}"
        self.spark.sql(
            f"CREATE TEMPORARY VIEW {view} USING hudi OPTIONS "
            f"(path '{self.path}', 'hoodie.datasource.query.type' '{query_type}')"
        )
        return view

    def timeline(self) -> list[tuple[str, str]]:
        """(instant, action) of the completed instants of the active timeline, oldest first."""
        names = [path.name for path in (self.path / ".hoodie" / "timeline").iterdir() if "_" in path.name]
        return sorted((name.partition("_")[0], name.partition(".")[2]) for name in names if not name.startswith("."))


def create(
    spark: HudiSpark,
    folder: Path,
    kind: str,
    columns: str = COLUMNS,
    properties: Mapping[str, str] | None = None,
) -> HudiTable:
    """An empty table; `kind`: cow (copy on write) or mor (merge on read)."""
    name = f"t_{kind}_{uuid.uuid4().hex[:8]}"
    given = {"type": kind, **KEYS, **(properties or {})}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    spark.sql(f"CREATE TABLE {name} ({columns}) USING hudi LOCATION '{folder / name}' TBLPROPERTIES ({listed})")
    return HudiTable(spark, name, folder / name)
