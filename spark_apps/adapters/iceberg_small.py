"""An Iceberg table that is changed by one small commit, without Spark and without a stage; see ports_few.SmallCommit."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import DataFileContent

from airflow_cdc.decisions.apply.schema_change import DEFINITION, dump_definition, stored_definition
from airflow_cdc.sinks.iceberg import row_delta, small_files
from airflow_cdc.sinks.iceberg.row_positions import takes
from airflow_cdc.sinks.iceberg.snapshots import (
    empty_snapshot,
    head_of,
    row_count,
    stamp_and_summary,
    takes_empty_commit,
)
from airflow_cdc.spark_apps.adapters.iceberg_schema import fitted_fields
from airflow_cdc.spark_apps.tidied import Tidied
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table as LakeTable

    from airflow_cdc.core.stamp import Stamp
    from airflow_cdc.core.table import Table
    from airflow_cdc.sinks.iceberg.client import Lake

log = logging.getLogger("airflow_cdc.apply")

# From here on a commit writes megabytes of versions and takes a tenth of a second, from 20,000 more than one.
MANY_VERSIONS: Final = 5_000
_MANY = (
    "%s has %d versions, all of which each commit writes again: run cdc_maintain more often, or with a shorter"
    " policy.maintenance.expire_after"
)


@dataclass(frozen=True, slots=True)
class IcebergSmallCommit:
    """The table as `read`; see ports_few.SmallCommit."""

    lake: Lake
    identifier: tuple[str, str]
    read: LakeTable

    def stamped(self, mirror: Stamp | None) -> tuple[Stamp | None, Mapping[str, str]]:
        """See ports_few.SmallCommit."""
        return stamp_and_summary(self.read.metadata, mirror)

    def definition(self, fingerprint: str | None) -> Table | None:
        """See ports_few.SmallCommit."""
        return stored_definition(self.read.properties, fingerprint)

    @property
    def version(self) -> int | None:
        """See ports_few.SmallCommit."""
        return head_of(self.read.metadata)

    @property
    def rows(self) -> int | None:
        """See ports_few.SmallCommit."""
        return row_count(self.read.metadata, head_of(self.read.metadata))

    def takes(self, table: Table) -> bool:
        """See ports_few.SmallCommit."""
        return takes(self.read) and self._fits(table)

    def _fits(self, table: Table) -> bool:
        """Whether the table has exactly the definition's columns."""
        schema, columns = self.read.schema(), [(column.name, sink_type(column)) for column in table.mirrored]
        return fitted_fields(schema, columns, itertools.count(1)) == schema.fields

    def write(
        self,
        table: Table,
        keys: pa.Table,
        rows: pa.Table,
        summary: Mapping[str, str],
        *,
        copies: Sequence[int] | None = None,
    ) -> int | None:
        """See ports_few.SmallCommit."""
        delta = row_delta.RowDelta(keys, rows, summary, {DEFINITION: dump_definition(table)}, copies)
        after = delta.write(self.lake.catalog, self.identifier, self.read)
        return None if after is None else head_of(after.metadata)

    def merge_files(self, at_least: int) -> Tidied:
        """See ports_few.SmallCommit."""
        change = small_files.merge(self.lake.catalog, self.identifier, self.read, at_least)
        if change is None:
            return Tidied()
        if (versions := len(self.read.metadata.snapshots)) > MANY_VERSIONS:
            log.warning(_MANY, ".".join(self.identifier), versions)
        removed, added = (Counter(file.content for file in files) for files in (change.removed, change.added))
        deletes = removed[DataFileContent.POSITION_DELETES]
        return Tidied(removed[DataFileContent.DATA], added[DataFileContent.DATA], deletes_rewritten=deletes)

    def nothing(self, table: Table, summary: Mapping[str, str]) -> int | None:
        """See ports_few.SmallCommit."""
        if not self._fits(table) or not takes_empty_commit(self.read):
            return None
        snapshot = empty_snapshot(self.read, summary)
        row_delta.committed(
            self.lake.catalog, self.identifier, self.read, snapshot, {DEFINITION: dump_definition(table)}
        )
        return snapshot.snapshot_id
