"""Watches one pipeline from the triggerer, and fires when there is something to report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from airflow_cdc.alerting.outage import UNKNOWN, OutageLog
from airflow_cdc.config.registry import get_pipeline, load_unchanged
from airflow_cdc.core.codec import plain
from airflow_cdc.flows.run import Run, make_run
from airflow_cdc.flows.watch import limited, look
from airflow_cdc.hooks.endpoints import aresolve_endpoints
from airflow_cdc.triggers.base import Answer, ProbeTrigger, State


class PipelineTrigger(ProbeTrigger[Run]):
    """Fires when an outage of `pipeline` must be reported, reported again, or is over.

    `registry` is the path of pipelines.yaml and `report_dir` the folder where the page reads observations, both
    resolved by the task. `outages` (JSON) are the open outages that the watch knows; they come back in the event, in
    case the control table cannot be read.
    """

    fields = ("pipeline", "registry", "report_dir", "outages")

    def __init__(
        self,
        *,
        pipeline: str,
        registry: str,
        report_dir: str,
        poke_interval: float,
        timeout: float,
        outages: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout)
        self.pipeline = pipeline
        self.registry = registry
        self.report_dir = report_dir
        self.outages = dict(outages) if outages else None

    async def prepare(self) -> Run:
        declared = await asyncio.to_thread(load_unchanged, Path(self.registry))  # 200 triggers start at once
        pipeline = get_pipeline(declared, self.pipeline, where=self.registry)
        endpoints = await aresolve_endpoints(pipeline)
        return limited(make_run(pipeline, endpoints, f"watch of {self.pipeline}", self.report_dir))

    def probe(self, prepared: Run) -> Answer:
        carried = OutageLog.from_json(self.outages)
        current = look(prepared, carried)
        code, reason = current.diagnosis.code, f"{current.diagnosis.code}: {current.diagnosis.description}"
        if current.due:  # the task checks again, and reports from the state before this check
            return Answer(State.PROBLEM if current.firing else State.RECOVERED, reason)
        self.outages = plain(current.progress.log)
        return Answer(State.UNKNOWN if code == UNKNOWN else State.WAITING, reason)
