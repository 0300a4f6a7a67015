"""A MySQL database that a real Flink job copies into Hudi tables, in a process whose pyspark is Hudi's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_cdc.sinks.hudi.client import HudiSink
from airflow_cdc.sinks.hudi.endpoint import COPY_ON_WRITE, HudiEndpoint
from airflow_cdc.sinks.hudi.kind import HudiSettings
from tests.integration.flink.recovered import Followed

BUCKETS = 3


@dataclass(slots=True)
class FlinkIntoHudi(Followed):
    """The job makes the tables. `more`: further options of theirs."""

    table_type: Any = COPY_ON_WRITE
    more: Mapping[str, str] | None = None

    @property
    def path(self) -> Path:
        """The folder of the tables."""
        return self.folder / "tables"

    def sink_parts(self) -> tuple[Any, Any]:
        """See Followed."""
        self.path.mkdir(exist_ok=True)
        settings = HudiSettings("hudi", self.database, str(self.path), self.table_type, BUCKETS, writer="connector")
        return settings, HudiSink(settings.at(HudiEndpoint()))

    def make_tables(self) -> list[str]:
        """See Followed."""
        return []

    def sink_options(self, table: str) -> dict[str, str]:
        """See Followed."""
        return {
            "connector": "hudi",
            "path": (self.path / self.database / table).as_uri(),
            "table.type": self.table_type.upper().replace("-", "_"),
            "index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": str(BUCKETS),
            # more often than by default, so that log files are merged while the rows are read
            "compaction.delta_commits": "4",
            # with a commit a second, the 30 that Flink keeps by default are gone before a comparison is done
            "clean.retain_commits": "600",
            "archive.min_commits": "610",
            "archive.max_commits": "620",
            **(self.more or {}),
        }

    def go_on(self) -> None:
        """See Followed. A gateway gives the operators of each job that it starts other ids, so it has to be a new one."""
        self.flink = self.flink.new_gateway()
        self.connector.resume(self.database)

    def sink_rows(self, table: str, version: int | None = None) -> Sequence[Mapping[str, Any]]:
        """What a reader of the folder finds, in a session of its own."""
        reader = self.spark.newSession().read.format("hudi")
        if version is not None:
            reader = reader.option("as.of.instant", f"{version:017d}")
        return [row.asDict(recursive=True) for row in reader.load(str(self.path / self.database / table)).collect()]
