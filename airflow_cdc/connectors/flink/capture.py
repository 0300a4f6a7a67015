"""What the options of a job's sources do to names, keys and values: which tables they read, and what they leave out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from airflow_cdc.connectors.patterns import SlowPatternError, fits
from airflow_cdc.connectors.rules import PlainRules, heartbeat_check, keep_alive_check
from airflow_cdc.core.capture import ConfigRules
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.table import Table
from airflow_cdc.core.text import number_in

HEARTBEAT: Final = "heartbeat.interval"
KEEP_ALIVE: Final = "debezium.connect.keep.alive.interval.ms"
NAME: Final = "pipeline.name"
BETWEEN: Final = "plan.between"
_OPTION: Final = re.compile(r"source\.(\d+)\.(.+)")
_DURATION: Final = re.compile(r"([0-9]{1,15})\s*(ms|s|sec|min|m|h)")
_UNITS: Final = {"ms": 1, "s": 1000, "sec": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000}
_HEARTBEAT_MS: Final = 30_000
_KEEP_ALIVE_MS: Final = 60_000
# options with which events are left out, and what they do
_REFUSED: Final[Mapping[str, str]] = {
    "scan.read-changelog-as-append-only.enabled": "updates and deletes arrive as inserts",
}
# with another value than "fail" events are skipped
_FAILS: Final = "fail"
_LOSES: Final = (
    "debezium.event.processing.failure.handling.mode",
    "debezium.inconsistent.schema.handling.mode",
    "debezium.event.deserialization.failure.handling.mode",
)
_DEBEZIUM_FILTERS: Final = re.compile(r"debezium\.(column|message\.key|skipped\.operations|binary\.handling)")


@dataclass(frozen=True, slots=True)
class FlinkCapture:
    """The sources of one job, parsed (core.capture.CaptureSettings).

    `reads`: the names that each source reads, as (database, table), each a regular expression; (): not known. `between`:
    what the job does to rows between its sources and the tables that it writes. `rows_refused`: the options with which its
    events are not whole, which says nothing about its position (INV 40).
    """

    truncates_way_out: ClassVar[str] = ""
    prefix: str
    reads: tuple[tuple[str, str], ...] = ()
    heartbeat_ms: int = _HEARTBEAT_MS
    keep_alive_ms: int = _KEEP_ALIVE_MS
    healing: Sequence[str] = ()
    history_topic: str | None = None
    heartbeat_topic: str = ""
    reports_ddl: bool = False
    truncates_seen: bool = False
    ddl_topic: str | None = None
    observed_only: bool = True
    years_adjusted: bool = False
    between: str = ""
    rows_refused: ConfigError | None = None

    @property
    def quickened(self) -> Mapping[str, str]:
        """A job's sources have heartbeats by default, and its settings are the job's own."""
        return {}

    def reading_checks(self, subject: str) -> Iterator[Check]:
        """Heartbeats, and a keep-alive that is not too short."""
        yield heartbeat_check(subject, self.heartbeat_ms, f"{HEARTBEAT}=30s")
        yield keep_alive_check(subject, self.keep_alive_ms, KEEP_ALIVE)

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> FlinkCapture:
        """Parse the settings that `flat` made. Never fails (INV 40)."""
        sources = _sources(config)
        if not sources:
            return cls(config[NAME])
        healing = [f"{key}={one[key]}" for one in sources for key in _LOSES if one.get(key, _FAILS) != _FAILS]
        return cls(
            config[NAME],
            tuple((one.get("database-name", ""), one.get("table-name", "")) for one in sources),
            max(_milliseconds(one.get(HEARTBEAT, "")) for one in sources),
            min(_keep_alive(one.get(KEEP_ALIVE, "")) for one in sources),
            tuple(dict.fromkeys(healing)),
            between=config.get(BETWEEN, ""),
            rows_refused=_refused(sources),
        )

    def offset_faults(self, value: Mapping[str, object]) -> tuple[str, ...]:  # noqa: ARG002
        """None: each version takes the same."""
        return ()

    def topic_of(self, table: str) -> str:  # noqa: ARG002
        """None: nothing is between the job and its sink."""
        return ""

    def topics_about(self, tables: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """None: see topic_of."""
        return ()

    def mixed(self, tables: Sequence[str]) -> Mapping[str, ConfigError]:  # noqa: ARG002
        """None: see topic_of."""
        return {}

    def carried(self, table: Table) -> Table:
        """The table: no setting leaves a column out."""
        return table

    def check_table(self, table: Table) -> None:
        """Raises ConfigError for a table that no source reads, or whose rows the sources change or leave out."""
        self.check_read(table)
        if self.rows_refused is not None:
            raise self.rows_refused

    def check_read(self, table: Table) -> None:
        """Raises ConfigError for a table that no source reads."""
        if self.reads and not any(_matches(one, table) for one in self.reads):
            raise ConfigError(
                f"no source of the job reads {table.schema}.{table.name}",
                where=f"database-name, table-name in the plan of job {self.prefix}",
                todo="Correct the job's statement, or take the table out of the pipeline.",
            )


def _matches(reads: tuple[str, str], table: Table) -> bool:
    """A source reads the tables whose names match as a whole."""
    try:
        return all(fits(re.compile(one), name) for one, name in zip(reads, (table.schema, table.name), strict=True))
    except (re.error, RecursionError, SlowPatternError):
        return True  # of another dialect, or of one that takes for ever here: nothing is said of it


def _refused(sources: Sequence[Mapping[str, str]]) -> ConfigError | None:
    """All options with which events are not whole, as one error."""
    wrong = dict.fromkeys(f"{key} is {options[key]!r}: {why}" for options in sources for key, why in _faults(options))
    if not wrong:
        return None
    return ConfigError("; ".join(wrong), where="the options of the job's source", todo="Remove what this names.")


def _faults(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, why in _REFUSED.items():
        if options.get(key, "false").lower() != "false":
            yield key, why
    for key in options:
        if _DEBEZIUM_FILTERS.match(key):
            yield key, "columns, keys or operations are changed or left out"


def flat(name: str, sources: Sequence[Mapping[str, str]], between: Sequence[str] = ()) -> dict[str, str]:
    """The options of a job's sources as one mapping, `source.1.hostname`, with the job's name. They hold passwords.

    `between`: see FlinkCapture.
    """
    options = {f"source.{n}.{key}": value for n, one in enumerate(sources, 1) for key, value in one.items()}
    return {NAME: name, **({BETWEEN: ", ".join(between)} if between else {}), **options}


def _sources(config: Mapping[str, str]) -> tuple[dict[str, str], ...]:
    """The inverse of `flat`."""
    sources: dict[str, dict[str, str]] = {}
    for name, value in config.items():
        if match := _OPTION.fullmatch(name):
            sources.setdefault(match[1], {})[match[2]] = value
    return tuple(sources.values())


def _keep_alive(text: str) -> int:
    """Debezium's own interval for what is no number: with that the job does not start."""
    number = number_in(text.strip())
    return _KEEP_ALIVE_MS if number is None else number


def _milliseconds(text: str) -> int:
    """A duration as Flink writes it: 30s, 500 ms, 1 min."""
    match = _DURATION.fullmatch(text.strip().lower())
    return int(match[1]) * _UNITS[match[2]] if match else _HEARTBEAT_MS


# What the options of a job's sources do to names, keys and values. Its events are not decoded yet.
RULES: Final[ConfigRules] = PlainRules("Flink CDC", FlinkCapture.from_config)
