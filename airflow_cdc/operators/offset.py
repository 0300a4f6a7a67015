"""Write the connector's offset as a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.operators.publishing import PublishingOperator

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import Pipeline
    from airflow_cdc.flows.run import Facts, Run


class ResetOffsetOperator(PublishingOperator):
    """Back up → validate → write → read back → compare; any difference restores the old offset.

    Tables that the connector writes itself are published before the offset is written.
    """

    app = "reset_offset"

    def publishes(self, pipeline: Pipeline) -> bool:
        """Those that the connector writes itself."""
        return pipeline.corrected is Corrected.BEFORE_START

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.reset_offset import reset_offset

        return reset_offset(run)
