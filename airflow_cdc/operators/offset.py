"""Write the connector's offset as a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.operators.base import CdcOperator

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run


class ResetOffsetOperator(CdcOperator):
    """Back up → validate → write → read back → compare; any difference restores the old offset."""

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.reset_offset import reset_offset

        return reset_offset(run)
