"""What a Canal server's settings do to names, keys and values: which topic a table's changes go to, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from airflow_cdc.connectors.canal.events.mysql import TIME_ZONE, WAY_OUT, CanalValues
from airflow_cdc.connectors.java_properties import parse
from airflow_cdc.connectors.patterns import SlowPatternError, fits
from airflow_cdc.connectors.rules import PlainRules, heartbeat_check
from airflow_cdc.core.capture import ConfigRules
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import CdcError, ConfigError, ConnectorError, SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.core.text import number_in

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
    "canal.instance.filter.table.error": "tables whose definition cannot be read are silently left out",
}
FLAT: Final = "canal.mq.flatMessage"
SERVER_MODE: Final = "canal.serverMode"
TOPIC: Final = "canal.mq.topic"
EXCHANGE: Final = "rabbitmq.exchange"
QUEUE: Final = "rabbitmq.queue"
# as Canal calls them, in small letters → the kind of transport; it has others
MODES: Final = ("kafka", "rabbitmq")
_EVERYTHING: Final = r".*\..*"
_TSDB: Final = "canal.instance.tsdb.enable"
_HASH: Final = "canal.mq.partitionHash"
_DYNAMIC: Final = "canal.mq.dynamicTopic"
_WITHOUT_DDL: Final = "canal.instance.filter.query.ddl"
_CHARSET: Final = "canal.instance.connectionCharset"
_UTF8: Final = ("utf8", "utf-8", "utf8mb4")
_SPRING: Final = "canal.instance.global.spring.xml"
_MEMORY: Final = "memory"
# Canal's own spring files → where they keep the cursor
_KEPT_BY: Final[Mapping[str, str]] = {
    "memory-instance.xml": _MEMORY,
    "file-instance.xml": "file",
    "default-instance.xml": "zookeeper",
    "group-instance.xml": _MEMORY,
}
_FIELDS: Final = ("canal.instance.filter.field", "canal.instance.filter.black.field")
DESTINATION: Final = "canal.instance.destination"
DETECTING: Final = "canal.instance.detecting.enable"
DETECTING_SQL: Final = "canal.instance.detecting.sql"
_DETECTING_INTERVAL: Final = "canal.instance.detecting.interval.time"
_ONLY_READS: Final = ("select", "show", "explain", "desc")  # as Canal tells them
_DETECTING_SECONDS: Final = 3  # as in the file that Canal comes with


class _Fault(NamedTuple):
    """A setting with which rows can't be taken from Canal's events, with the reason; and what to set instead."""

    what: str
    do: str


@dataclass(frozen=True, slots=True)
class CanalCapture:
    """The settings of one destination, parsed (core.capture.CaptureSettings).

    `reads` and `passes_over` are the regular expressions over `schema.table`, with commas between them. `undecoded`:
    settings with which rows cannot be taken from its events, each with the reason; () if they can. `way_out`: what to set
    instead of them. `protobuf`: they are
    not flat JSON. `unnamed`: why the topic of its events can't be named; "" if it can.
    """

    truncates_way_out: ClassVar[str] = ""
    prefix: str
    topic: str
    reads: str = _EVERYTHING
    passes_over: str = ""
    healing: Sequence[str] = ()
    history_topic: str | None = None
    heartbeat_topic: str = ""
    heartbeat_ms: int = 0
    reports_ddl: bool = False
    years_adjusted: bool = False
    undecoded: Sequence[str] = ()
    way_out: str = ""
    unnamed: str = ""
    protobuf: bool = False
    values: CanalValues = field(default_factory=CanalValues)
    null_becomes_default: bool = False
    truncates_seen: bool = True
    unreadable_way_out: str = (
        "Look at a record of the topic, and at canal.mq.flatMessage; where another writer sends to the topic, give the tables"
        " a topic of their own, then recover the table."
    )
    doubt_way_out: str = WAY_OUT

    @property
    def quickened(self) -> Mapping[str, str]:
        """Its heartbeats are a table's, which a person makes."""
        return {}

    def reading_checks(self, subject: str) -> Iterator[Check]:
        """Heartbeats."""
        yield heartbeat_check(
            subject, self.heartbeat_ms, "canal.instance.detecting.enable=true, with an SQL that writes"
        )

    @property
    def observed_only(self) -> bool:
        """Whether its settings allow a diagnosis only."""
        return bool(self.undecoded)

    @property
    def rows_refused(self) -> CdcError | None:
        """Why no table's rows can be taken from its events; None if they can."""
        if not self.undecoded:
            return None
        return ConfigError("; ".join(self.undecoded), where="Canal's settings", todo=self._todo)

    @property
    def _todo(self) -> str:
        return f"{self.way_out}; then restart Canal. Until then such a pipeline is only diagnosed."

    @property
    def ddl_topic(self) -> str:
        """Statements are among the rows."""
        return self.topic

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> CanalCapture:
        """Parse the settings. What keeps rows from being taken from the events does not keep the cursor from being read."""
        unnamed, topic = _unnamed(config), topic_of(config)
        faults = (*([unnamed] if unnamed else []), *_undecoded(config))
        healing = (f"{AUTO_RESET}=true",) if is_on(config, AUTO_RESET) else ()
        regex = config.get(_REGEX) or _EVERYTHING
        return cls(
            config[DESTINATION],
            "" if unnamed else topic,
            regex,
            config.get(_BLACK, ""),
            healing,
            undecoded=tuple(one.what for one in faults),
            way_out="; ".join(one.do for one in faults),
            unnamed=unnamed.what if unnamed else "",
            protobuf=config.get(FLAT, "true").strip().lower() != "true",
            values=CanalValues(config.get(TIME_ZONE, "")),
        )

    def offset_faults(self, value: Mapping[str, object]) -> tuple[str, ...]:  # noqa: ARG002
        """None: each version takes the same."""
        return ()

    def topic_of(self, table: str) -> str:  # noqa: ARG002
        """All tables share one topic. Raises ConfigError if it can't be named."""
        if self.unnamed:
            raise ConfigError(
                self.unnamed, where=f"destination {self.prefix}", todo="Rows are taken from one topic alone."
            )
        return self.topic

    def topics_about(self, tables: Iterable[str]) -> list[str]:
        """The one topic."""
        return [self.topic_of(table) for table in list(tables)[:1]]

    def mixed(self, tables: Iterable[str]) -> Mapping[str, ConfigError]:  # noqa: ARG002
        """None: every event names its table."""
        return {}

    def key_mark(self, table: str) -> str:
        """Every event names its table."""
        return table

    def check_read(self, table: Table) -> None:
        """Raises ConfigError for a table that Canal does not read."""
        name = f"{table.schema}.{table.name}"
        if not matches(self.reads, name) or (self.passes_over and matches(self.passes_over, name)):
            raise ConfigError(
                f"Canal does not read {name}",
                where=f"{_REGEX}, {_BLACK} of destination {self.prefix}",
                todo="Correct the filter, or take the table out of the pipeline.",
            )

    def carried(self, table: Table) -> Table:
        """The table: no setting leaves a column out."""
        return table

    def check_table(self, table: Table) -> None:
        """Raises ConfigError or SchemaError for a table whose rows cannot be taken from Canal's events."""
        self.check_read(table)
        if self.undecoded:
            raise ConfigError(
                f"rows cannot be taken from Canal's events: {'; '.join(self.undecoded)}",
                where=f"destination {self.prefix}",
                todo=self._todo,
            )
        if table.keyless:
            raise SchemaError(
                "it has no key, and Canal's events do not tell a change that was sent twice from two changes",
                where=f"table {table.full_name}",
                todo="Give it a primary key, or take it out of the pipeline.",
            )
        self.values.check_table(table)


def _undecoded(config: Mapping[str, str]) -> Iterator[_Fault]:
    """Settings with which no rows can be taken from Canal's events."""
    for key, why in _LEAVES_OUT.items():
        if is_on(config, key):
            yield _Fault(f"{key}=true: {why}", f"Remove {key}")
    for key in _FIELDS:
        if config.get(key):
            yield _Fault(f"{key} is {config[key]}: columns are left out", f"Remove {key}")
    if not is_on(config, GTID):
        yield _Fault(f"{GTID} is not true, and without it the events are not placed in the log", f"Set {GTID}=true")
    if config.get(_TSDB, "true").strip().lower() != "false":
        what = (
            f"{_TSDB} is not false: after a gap Canal would decode rows by definitions of its own store, which has no DDL of"
            " the gap"
        )
        yield _Fault(what, f"Set {_TSDB}=false")
    if config.get(_HASH):
        yield _Fault(f"{_HASH} is set: with several partitions the order of changes is lost", f"Remove {_HASH}")
    if is_on(config, _WITHOUT_DDL):
        yield _Fault(f"{_WITHOUT_DDL}=true leaves out DDL, and with it TRUNCATE", f"Remove {_WITHOUT_DDL}")
    if config.get(_CHARSET, "UTF-8").strip().lower() not in _UTF8:
        yield _Fault(f"{_CHARSET} is not UTF-8", f"Set {_CHARSET}=UTF-8")


def _unnamed(config: Mapping[str, str]) -> _Fault | None:
    """Why the topic of Canal's events can't be named; None if it can. A client of one's own reads in the mode `tcp`."""
    mode = config.get(SERVER_MODE, "tcp")
    if mode.lower() not in MODES:
        return _Fault(
            f"{SERVER_MODE} is {mode}: its events go to no topic of {' or '.join(MODES)}",
            f"Set {SERVER_MODE}={MODES[0]}",
        )
    if dynamic := config.get(_DYNAMIC):
        return _Fault(f"{_DYNAMIC} is {dynamic}: its topics are not derived here", f"Remove {_DYNAMIC}")
    if not topic_of(config):
        key = TOPIC if mode.lower() == "kafka" else QUEUE
        return _Fault(f"{key} is not set: its events go to no topic", f"Set {key}")
    return None


def topic_of(config: Mapping[str, str]) -> str:
    """The topic; with RabbitMQ the queue that Canal declares when it starts: its topic is the routing key there."""
    queued = config.get(SERVER_MODE, "").lower() == "rabbitmq"
    return config.get(QUEUE if queued else TOPIC, "")


def matches(filters: str, name: str) -> bool:
    """Whether one of Canal's comma-separated expressions describes the whole name; case does not matter to Canal."""
    try:
        return any(fits(re.compile(one.strip(), re.IGNORECASE), name) for one in filters.split(",") if one.strip())
    except (re.error, RecursionError, SlowPatternError):
        return True  # of another dialect, or of one that takes for ever here: nothing is said of it


def is_on(config: Mapping[str, str], key: str) -> bool:
    """Whether a setting is true."""
    return config.get(key, "").strip().lower() == "true"


def kept_elsewhere(config: Mapping[str, str], cursor: str) -> str:
    """Why Canal's cursor is not where the pipeline says (`cursor`: file or zookeeper), as a sentence; "" if it may be.

    Canal's spring file decides: the one for its memory keeps no cursor at all, and each start begins where its settings say.
    """
    written = config.get(f"canal.instance.{config[DESTINATION]}.spring.xml") or config.get(_SPRING, "")
    if (place := _KEPT_BY.get(written.strip().rpartition("/")[2], cursor)) == cursor:
        return ""
    if place == _MEMORY:
        return (
            f"Canal keeps its cursor in memory alone ({_SPRING}={written}), and begins again at each start. To have it judged and"
            " moved, let it use file-instance.xml"
        )
    return f"Canal keeps its cursor by {place} ({_SPRING}={written}). Write connector.cursor: {place} in pipelines.yaml"


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


def read_config(conf: str, destination: str, where: str) -> dict[str, str]:
    """canal.properties and the destination's instance.properties, whose values win, read as Java reads them. Raises ConnectorError.

    A property that was given to the server's JVM with -D is not seen.
    """
    files = (Path(conf) / "canal.properties", Path(conf) / destination / "instance.properties")
    config: dict[str, str] = {}
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
            config |= {name: value.strip() for name, value in parse(text).items()}
        except ValueError as error:
            raise ConnectorError(
                f"{file} cannot be read: {error}", where=where, todo="Correct that escape: Canal cannot read it either."
            ) from None
        except OSError as error:
            raise ConnectorError(
                f"{file} cannot be read: {error.strerror}",
                where=where,
                todo="Correct connector.conf and connector.name in pipelines.yaml; the folder must be there on the worker.",
            ) from None
    return {**config, DESTINATION: destination}


def interval_ms(config: Mapping[str, str]) -> int:
    """How often Canal writes to its source; 0: never. Only that moves its cursor while nobody else writes.

    Canal runs `canal.instance.detecting.sql` every few seconds, to see whether its server is alive. A statement that writes
    makes a transaction, which Canal reads like any other. One of other tables it passes on, and its cursor with it, when it
    is more than 5 s younger than the last such one. So without such writes the cursor may rest before transactions that hold
    nothing for Canal.
    """
    sql = config.get(DETECTING_SQL, "").strip().lower()
    if not is_on(config, DETECTING) or not sql or sql.startswith(_ONLY_READS):
        return 0
    seconds = number_in(config.get(_DETECTING_INTERVAL, "").strip())
    return 1000 * (_DETECTING_SECONDS if seconds is None else seconds)


def captured(config: Mapping[str, str]) -> CanalCapture:
    """The settings of a destination, with its heartbeats. Raises ConfigError for one that cannot be followed."""
    return replace(CanalCapture.from_config(config), heartbeat_ms=interval_ms(config))


# What Canal's settings do to names, keys and values.
RULES: Final[ConfigRules] = PlainRules("Canal", captured)
