"""Record the fence and take the watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.operators.base import CdcOperator

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run


class CaptureWatermarkOperator(CdcOperator):
    """With the connector stopped: the topics' ends, then the source position W behind a visibility barrier."""

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.watermark import fence_and_watermark

        return fence_and_watermark(run)
