"""Whether Canal writes to its source by itself: only that moves its cursor while nobody else writes.

Canal runs `canal.instance.detecting.sql` every few seconds, to see whether its server is alive. A statement that writes
makes a transaction, which Canal reads like any other. One of other tables it passes on, and its cursor with it, when it is more than 5 s
younger than the last such one. So without such writes the cursor may rest before transactions that hold nothing for Canal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from airflow_cdc.connectors.canal.capture import CanalCapture, is_on
from airflow_cdc.connectors.plain_rules import PlainRules
from airflow_cdc.core.capture import ConfigRules
from airflow_cdc.core.text import number_in

ENABLED: Final = "canal.instance.detecting.enable"
SQL: Final = "canal.instance.detecting.sql"
_INTERVAL: Final = "canal.instance.detecting.interval.time"
_READS: Final = ("select", "show", "explain", "desc")  # as Canal tells them
_SECONDS: Final = 3  # as in the file that Canal comes with


def interval_ms(config: Mapping[str, str]) -> int:
    """How often Canal writes to its source; 0: never."""
    sql = config.get(SQL, "").strip().lower()
    if not is_on(config, ENABLED) or not sql or sql.startswith(_READS):
        return 0
    seconds = number_in(config.get(_INTERVAL, "").strip())
    return 1000 * (_SECONDS if seconds is None else seconds)


def captured(config: Mapping[str, str]) -> CanalCapture:
    """The settings of a destination, with its heartbeats. Raises ConfigError for one that cannot be followed."""
    return replace(CanalCapture.from_config(config), heartbeat_ms=interval_ms(config))


# What Canal's settings do to names, keys and values.
RULES: Final[ConfigRules] = PlainRules("Canal", captured)
