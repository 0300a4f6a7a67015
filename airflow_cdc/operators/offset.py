"""Write the connector's offset as a transaction."""

from __future__ import annotations

from airflow_cdc.flows.offset import reset_offset
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.operators.base import CdcOperator


class ResetOffsetOperator(CdcOperator):
    """Back up → validate → write → read back → compare; the old offset is put back on any difference."""

    def step(self, run: Run) -> Facts:
        return reset_offset(run)
