"""The problems of a sink that a JDBC sink connector fills."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.feeder import FeederFacts
from airflow_cdc.core.problem import AnyCase, Rules
from airflow_cdc.decisions.diagnosis.feeder_rows import settings_rules
from airflow_cdc.sinks.jdbc.config import SinkConfig


def _config(facts: FeederFacts, case: AnyCase) -> SinkConfig:
    sink = case.seen.pipeline.sink
    return SinkConfig(facts.settings, sink.read_as, sink.namespace)


RULES: Final[Rules] = settings_rules(_config, "the sink connector cannot apply corrections")
