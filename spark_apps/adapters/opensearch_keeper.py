"""Remove the documents of rows that were deleted long ago. Nothing else needs to be kept small: OpenSearch merges by itself.

Such a document keeps a late event from bringing its row back. It goes when it is old, and when every event that is not applied
yet has a higher version than its removal. An event that was applied is not read again: a batch begins where the stamp ends.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_cdc.sinks.opensearch.versions import removable
from airflow_cdc.spark_apps.tidied import Tidied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.core.pipeline import MaintenancePolicy
    from airflow_cdc.sinks.opensearch.client import SearchSink
    from airflow_cdc.spark_apps.ports import Unread


class OpenSearchKeeper:
    """Maintains tables of a cluster, as ports.TableKeeper."""

    def __init__(self, sink: SearchSink) -> None:
        self._sink = sink

    def tidy(
        self,
        spark: SparkSession,
        identifier: tuple[str, str],
        policy: MaintenancePolicy,
        now: datetime,
        unread: Callable[[], Unread | None],
    ) -> Tidied:
        """See ports.TableKeeper."""
        del spark  # the cluster does it
        index = self._sink.index_behind(*identifier)
        # asked before the documents are looked at: what is applied meanwhile is not below it
        first = unread() if index else None
        if index is None or first is None:
            return Tidied()
        count, conflicts = self._sink.purge(
            index, now.timestamp() - policy.expire_after, removable(first.epoch, first.offset)
        )
        return Tidied(purged=count, failed=conflicts)
