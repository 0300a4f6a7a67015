"""Watches one pipeline from the triggerer, and fires once per outage."""

from __future__ import annotations

import asyncio
from pathlib import Path

from airflow_cdc.flows.run import Run, make_run
from airflow_cdc.flows.watch import UNKNOWN, look
from airflow_cdc.hooks.endpoints import aresolve_endpoints
from airflow_cdc.registry import get_pipeline, load_registry
from airflow_cdc.triggers.base import Answer, ProbeTrigger, State


class PipelineTrigger(ProbeTrigger):
    """Fires when something is wrong with `pipeline` that nobody was told of yet, or when an outage is over.

    `registry` is the path of pipelines.yaml and `report_dir` where the page reads what was seen, resolved by the task.
    """

    fields = ("pipeline", "registry", "report_dir")

    def __init__(self, *, pipeline: str, registry: str, report_dir: str, poke_interval: float, timeout: float) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout)
        self.pipeline = pipeline
        self.registry = registry
        self.report_dir = report_dir

    async def prepare(self) -> Run:
        declared = await asyncio.to_thread(load_registry, Path(self.registry))
        pipeline = get_pipeline(declared, self.pipeline, where=self.registry)
        return make_run(pipeline, await aresolve_endpoints(pipeline), f"watch of {self.pipeline}", self.report_dir)

    def probe(self, prepared: Run) -> Answer:
        seen = look(prepared)
        code, told = seen.diagnosis.code, seen.diagnosis.description
        if code == UNKNOWN:
            return Answer(State.UNKNOWN, told)
        if seen.new:
            return Answer(State.PROBLEM, f"{code}: {told}")
        return Answer(State.RECOVERED if seen.over else State.WAITING, f"{code}: {told}")
