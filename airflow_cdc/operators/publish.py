"""Move main to the verified snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_cdc import lineage
from airflow_cdc.kinds import SINKS
from airflow_cdc.operators.base import CdcOperator, find_pipeline
from airflow_cdc.operators.proven import announce, with_outlet

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run
    from airflow_cdc.operators.spark import CdcSparkOperator


class PublishOperator(CdcOperator):
    """Publish exactly the verified snapshots, by compare-and-set; none before all are verified (`publish: all`).

    Each published table is an asset event (`proven.proven_asset`).
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**with_outlet(kwargs))
        self._driver: CdcSparkOperator | None = None

    def execute(self, context: Context) -> Any:
        pipeline = find_pipeline(self.pipeline, self.registry)
        on_spark = SINKS[pipeline.sink.kind].publishes_with_spark
        facts = self._on_spark(context) if on_spark else super().execute(context)
        announce(context, self.pipeline, facts.get("published") or (), by="recovery")
        return facts

    def _on_spark(self, context: Context) -> Facts:
        """The step as a Spark application, for a sink that publishes by a Spark job."""
        from airflow_cdc.operators.spark import CdcSparkOperator

        self._driver = CdcSparkOperator(
            task_id=self.task_id,
            app="publish",
            pipeline=self.pipeline,
            registry=self.registry,
            report_dir=self.report_dir,
        )
        return self._driver.execute(context)

    def on_kill(self) -> None:
        """End the driver, if there is one."""
        if self._driver is not None:
            self._driver.on_kill()

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.publish import publish

        return publish(run)

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Any:
        """For OpenLineage: readers see these tables' new rows from now on."""
        from airflow_cdc.hooks.endpoints import resolve_endpoints

        pipeline = find_pipeline(self.pipeline, self.registry)
        return lineage.facets("publish", pipeline, resolve_endpoints(pipeline))
