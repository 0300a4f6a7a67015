"""A step that publishes tables: a Spark application of the step's name, where the sink is published by a Spark job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Context

from airflow_cdc.kinds import SINKS
from airflow_cdc.operators.base import CdcOperator, find_pipeline

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import Pipeline
    from airflow_cdc.flows.run import Facts
    from airflow_cdc.operators.spark import CdcSparkOperator


class PublishingOperator(CdcOperator):
    """Runs its step here or in a Spark driver."""

    app: ClassVar[str]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._driver: CdcSparkOperator | None = None

    def publishes(self, pipeline: Pipeline) -> bool:
        """Whether this step publishes the pipeline's tables."""
        raise NotImplementedError

    def execute(self, context: Context) -> Facts:
        pipeline = find_pipeline(self.pipeline, self.registry)
        on_spark = SINKS[pipeline.sink.kind].publishes_with_spark and self.publishes(pipeline)
        return self._on_spark(context) if on_spark else super().execute(context)

    def _on_spark(self, context: Context) -> Facts:
        """The step as a Spark application."""
        from airflow_cdc.operators.spark import CdcSparkOperator

        self._driver = CdcSparkOperator(
            task_id=self.task_id,
            app=self.app,
            pipeline=self.pipeline,
            registry=self.registry,
            report_dir=self.report_dir,
        )
        return self._driver.execute(context)

    def on_kill(self) -> None:
        """End the driver, if there is one."""
        if self._driver is not None:
            self._driver.on_kill()
