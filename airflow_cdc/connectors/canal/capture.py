"""What a Canal server's settings do to names, keys and values: which topic a table's changes go to, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_cdc.connectors.canal.properties import DESTINATION
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.table import Table

AUTO_RESET: Final = "canal.auto.reset.latest.pos.mode"
GTID: Final = "canal.instance.gtidon"
ADDRESS: Final = "canal.instance.master.address"
STANDBY: Final = "canal.instance.standby.address"
START_FILE: Final = "canal.instance.master.journal.name"
START_POSITION: Final = "canal.instance.master.position"
START_TIME: Final = "canal.instance.master.timestamp"
START_GTID: Final = "canal.instance.master.gtid"
_REGEX: Final = "canal.instance.filter.regex"
_BLACK: Final = "canal.instance.filter.black.regex"
# with the value true
_LEAVES_OUT: Final = {
    "canal.instance.filter.rows": "rows are left out",
    "canal.instance.filter.dml.insert": "inserts are left out",
    "canal.instance.filter.dml.update": "updates are left out",
    "canal.instance.filter.dml.delete": "deletes are left out",
    "canal.instance.filter.table.error": "tables whose definition cannot be read are left out in silence",
}
_EVERYTHING: Final = r".*\..*"
_FIELDS: Final = ("canal.instance.filter.field", "canal.instance.filter.black.field")


@dataclass(frozen=True, slots=True)
class CanalCapture:
    """The settings of one destination, parsed (core.capture.CaptureSettings).

    `reads` and `passes_over` are the regular expressions over `schema.table`, with commas between them.
    """

    prefix: str
    topic: str
    reads: str = _EVERYTHING
    passes_over: str = ""
    healing: Sequence[str] = ()
    history_topic: str | None = None
    heartbeat_topic: str = ""
    heartbeat_ms: int = 0
    reports_ddl: bool = True
    ddl_topic: str | None = None
    observed_only: bool = True
    years_adjusted: bool = False
    keep_alive_ms: int = 0

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> CanalCapture:
        """Parse the settings. Raises ConfigError for one that cannot be followed."""
        mode, topic = config.get("canal.serverMode", "tcp"), config.get("canal.mq.topic", "")
        if mode.lower() != "kafka":
            raise _refused("canal.serverMode", mode, "its events go to no topic", "Only kafka can be followed.")
        if dynamic := config.get("canal.mq.dynamicTopic"):
            raise _refused("canal.mq.dynamicTopic", dynamic, "it is not followed here", "Use canal.mq.topic alone.")
        if not topic:
            raise _refused("canal.mq.topic", topic, "its events go to no topic", "Set it.")
        for key, why in _LEAVES_OUT.items():
            if is_on(config, key):
                raise _refused(key, "true", why, "Remove it.")
        for key in _FIELDS:
            if config.get(key):
                raise _refused(key, config[key], "columns are left out", "Remove it.")
        healing = (f"{AUTO_RESET}=true",) if is_on(config, AUTO_RESET) else ()
        regex = config.get(_REGEX) or _EVERYTHING
        return cls(config[DESTINATION], topic, regex, config.get(_BLACK, ""), healing)

    def topic_of(self, table: str) -> str:  # noqa: ARG002
        """All tables share one topic."""
        return self.topic

    def topics_about(self, tables: Sequence[str]) -> Sequence[str]:
        """The one topic."""
        return (self.topic,) if tables else ()

    def check_table(self, table: Table) -> None:
        """Raises ConfigError for a table that Canal does not read."""
        name = f"{table.schema}.{table.name}"
        if not matches(self.reads, name) or (self.passes_over and matches(self.passes_over, name)):
            raise ConfigError(
                f"Canal does not read {name}",
                where=f"{_REGEX}, {_BLACK} of destination {self.prefix}",
                todo="Correct the filter, or take the table out of the pipeline.",
            )


def matches(filters: str, name: str) -> bool:
    """Whether one of Canal's comma-separated expressions describes the whole name; case does not matter to Canal."""
    try:
        return any(re.fullmatch(one.strip(), name, re.IGNORECASE) for one in filters.split(",") if one.strip())
    except re.error:
        return True  # of another dialect: nothing is said of it


def is_on(config: Mapping[str, str], key: str) -> bool:
    """Whether a setting is true."""
    return config.get(key, "").strip().lower() == "true"


def start_of(config: Mapping[str, str]) -> str:
    """Where Canal begins without a cursor, in words."""
    file, position = config.get(START_FILE, ""), config.get(START_POSITION, "")
    if is_on(config, GTID) and config.get(START_GTID):
        return f"after {config[START_GTID]}, of {START_GTID}"
    if file and position:
        return f"{file}:{position}, of instance.properties: what was sent after it is sent again"
    if file:
        return f"the begin of {file}, of instance.properties: the whole file is sent again"
    if config.get(START_TIME):
        return f"a position found by {START_TIME} {config[START_TIME]}"
    return "the log's end at that time: changes before it are lost"


def _refused(key: str, value: str, why: str, todo: str) -> ConfigError:
    return ConfigError(f"{key} is {value!r}: {why}", where="Canal's settings", todo=todo)
