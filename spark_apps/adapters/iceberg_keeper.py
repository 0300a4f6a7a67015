"""Maintain Iceberg tables with Iceberg's own procedures: compact small files and deletes, expire old snapshots.

Nothing here changes a row, and no lease is needed (INV 20). A compaction is a commit of type `replace`, which
publishing distinguishes from a data change; if another writer was first, Iceberg refuses it and the next night tries
again. Expiry respects references in the table's metadata: a stage's base is pinned by a tag, and a stage's files belong
to no snapshot of the table. Orphan files are never removed, because a stage's own files look like orphans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_cdc.core.stamp import Stamp
from airflow_cdc.sinks.iceberg.snapshots import head_of, lineage, summary_of
from airflow_cdc.spark_apps.driver.sql import quote_ident
from airflow_cdc.spark_apps.tidied import Tidied

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import Row, SparkSession

    from airflow_cdc.core.pipeline import MaintenancePolicy
    from airflow_cdc.sinks.iceberg.client import Lake
    from airflow_cdc.spark_apps.ports import Unread


class IcebergKeeper:
    """Maintains tables of a lake, as ports.TableKeeper."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def tidy(
        self,
        spark: SparkSession,
        identifier: tuple[str, str],
        policy: MaintenancePolicy,
        now: datetime,
        unread: Callable[[], Unread | None],
    ) -> Tidied:
        """See ports.TableKeeper."""
        del unread  # its rows carry no versions: a late event is known by the stamp alone
        if not self._lake.facts(*identifier).exists:
            return Tidied()
        call = _Call(spark, self._lake.name, identifier)
        compacted = _compact(call, policy.small_files) if policy.compact else Tidied()
        return compacted + self._expire(call, identifier, now.timestamp() - policy.expire_after)

    def _expire(self, call: _Call, identifier: tuple[str, str], before: float) -> Tidied:
        metadata = self._lake.table(*identifier).metadata
        old = [one for one in metadata.snapshots if one.timestamp_ms / 1000 < before]
        if not old:
            return Tidied()
        moment = datetime.fromtimestamp(before, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        counts = call("expire_snapshots", older_than=f"TIMESTAMP '{moment}'", retain_last=str(to_keep(metadata)))
        left = len(self._lake.table(*identifier).metadata.snapshots)
        return Tidied(expired=max(0, len(metadata.snapshots) - left), deleted_files=sum(value or 0 for value in counts))


def to_keep(metadata: TableMetadata) -> int:
    """How many of main's newest snapshots are kept whatever their age: enough to reach back to the newest stamp."""
    chain = lineage(metadata, head_of(metadata))
    stamped = (
        at for at, one in enumerate(chain, 1) if Stamp.from_summary(summary_of(one), one.snapshot_id) is not None
    )
    return next(stamped, 1)


def _compact(call: _Call, small_files: int) -> Tidied:
    """Rewrite small files and files with many deleted rows, then the remaining delete files."""
    options = {
        "min-input-files": str(small_files),
        "delete-file-threshold": str(small_files),
        "remove-dangling-deletes": "true",
        # a group of files that another writer changed first is skipped; the others count
        "partial-progress.enabled": "true",
    }
    counts = call("rewrite_data_files", options=_map(options))
    deletes = call("rewrite_position_delete_files", options=_map({"min-input-files": str(small_files)}))
    return Tidied(
        rewritten=counts["rewritten_data_files_count"],
        written=counts["added_data_files_count"],
        failed=counts["failed_data_files_count"],
        deletes_rewritten=deletes["rewritten_delete_files_count"],
    )


class _Call:
    """Calls Iceberg's procedures for one table."""

    def __init__(self, spark: SparkSession, catalog: str, identifier: tuple[str, str]) -> None:
        self._spark, self._catalog = spark, quote_ident(catalog)
        self._table = ".".join(quote_ident(part) for part in identifier)

    def __call__(self, procedure: str, **arguments: str) -> Row:
        texts = "".join(f", {name} => {value}" for name, value in arguments.items())
        sql = f"CALL {self._catalog}.system.{procedure}(table => '{self._table}'{texts})"
        return self._spark.sql(sql).collect()[0]


def _map(options: Mapping[str, str]) -> str:
    words = ", ".join(f"'{text}'" for pair in options.items() for text in pair)
    return f"map({words})"
