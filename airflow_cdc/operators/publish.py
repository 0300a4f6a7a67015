"""Move main to the verified snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc import lineage
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.operators.base import find_pipeline
from airflow_cdc.operators.publishing import PublishingOperator

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import Pipeline
    from airflow_cdc.flows.run import Facts, Run


class PublishOperator(PublishingOperator):
    """Publish exactly the verified snapshots, by compare-and-set; none before all are verified (`publish: all`).

    What it returns names the published tables, which `ReportOperator` announces (`proven.proven_asset`).
    """

    app = "publish"

    def publishes(self, pipeline: Pipeline) -> bool:
        """Those that are published once proven."""
        return pipeline.corrected is Corrected.STAGED

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.publish import publish

        return publish(run)

    def get_openlineage_facets_on_complete(self, _task_instance: object) -> object:
        """For OpenLineage: readers see these tables' new rows from now on."""
        from airflow_cdc.hooks.endpoints import resolve_endpoints

        pipeline = find_pipeline(self.pipeline, self.registry)
        return lineage.facets("publish", pipeline, resolve_endpoints(pipeline))
