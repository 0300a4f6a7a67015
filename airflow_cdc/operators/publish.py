"""Move main to the verified snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_cdc import lineage
from airflow_cdc.operators.base import find_pipeline
from airflow_cdc.operators.proven import announce, with_outlet
from airflow_cdc.operators.publishing import PublishingOperator

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import Pipeline
    from airflow_cdc.flows.run import Facts, Run


class PublishOperator(PublishingOperator):
    """Publish exactly the verified snapshots, by compare-and-set; none before all are verified (`publish: all`).

    Each published table is an asset event (`proven.proven_asset`).
    """

    app = "publish"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**with_outlet(kwargs))

    def publishes(self, pipeline: Pipeline) -> bool:
        """All but those that the connector writes itself."""
        return not pipeline.written_by_connector

    def execute(self, context: Context) -> Any:
        facts = super().execute(context)
        announce(context, self.pipeline, facts.get("published") or (), by="recovery")
        return facts

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.publish import publish

        return publish(run)

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Any:
        """For OpenLineage: readers see these tables' new rows from now on."""
        from airflow_cdc.hooks.endpoints import resolve_endpoints

        pipeline = find_pipeline(self.pipeline, self.registry)
        return lineage.facets("publish", pipeline, resolve_endpoints(pipeline))
