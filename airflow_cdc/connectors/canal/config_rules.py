"""What Canal's settings do to names, keys and values (core/capture.py)."""

from __future__ import annotations

from typing import Final

from airflow_cdc.connectors.canal.heartbeat import captured
from airflow_cdc.connectors.plain_rules import PlainRules
from airflow_cdc.core.capture import ConfigRules

RULES: Final[ConfigRules] = PlainRules("Canal", captured)
