"""Maintenance of Hudi tables: none of ours. Hudi itself cleans old files and archives old commits with each write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_cdc.spark_apps.tidied import Tidied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.core.pipeline import MaintenancePolicy
    from airflow_cdc.sinks.hudi.client import HudiSink
    from airflow_cdc.spark_apps.ports import Unread


class HudiKeeper:
    """Leaves tables as they are, as ports.TableKeeper: a commit of maintenance would be one without a stamp."""

    def __init__(self, sink: HudiSink) -> None:
        del sink

    def tidy(
        self,
        spark: SparkSession,
        identifier: tuple[str, str],
        policy: MaintenancePolicy,
        now: datetime,
        unread: Callable[[], Unread | None],
    ) -> Tidied:
        """See ports.TableKeeper."""
        del spark, identifier, policy, now, unread
        return Tidied()
