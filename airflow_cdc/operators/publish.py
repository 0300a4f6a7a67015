"""Move main to what was verified."""

from __future__ import annotations

from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.operators.base import CdcOperator


class PublishOperator(CdcOperator):
    """Publish exactly the verified snapshots, by compare-and-set; none before all are verified (`publish: all`)."""

    def step(self, run: Run) -> Facts:
        return publish(run)
