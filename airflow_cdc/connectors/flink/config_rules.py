"""What the options of a Flink job's sources do to names, keys and values. Its events are not decoded yet."""

from __future__ import annotations

from typing import Final

from airflow_cdc.connectors.flink.capture import FlinkCapture
from airflow_cdc.connectors.plain_rules import PlainRules
from airflow_cdc.core.capture import ConfigRules

RULES: Final[ConfigRules] = PlainRules("Flink CDC", FlinkCapture.from_config)
