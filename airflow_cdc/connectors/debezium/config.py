"""Read from a Debezium MySQL connector's configuration what decoding and routing need.

Nothing is guessed: the topic of a table, the form of its key, and the decoding modes come from the connector's
settings. Any setting whose effect on rows we cannot reproduce exactly is refused by name (INV 21), because a snapshot
read past the connector must hold exactly the values that the connector's events would have held.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from airflow_cdc.connectors.debezium import KIND
from airflow_cdc.connectors.debezium.null_defaults import replaces_nulls
from airflow_cdc.connectors.debezium.routing import (
    KeyMark,
    Route,
    full_match,
    is_false,
    is_listed,
    read_routes,
    refuse,
    split_list,
)
from airflow_cdc.connectors.debezium.values.carriage import EventValues
from airflow_cdc.connectors.debezium.values.mysql import MySqlValues
from airflow_cdc.connectors.debezium.values.postgres import PostgresValues
from airflow_cdc.core.errors import ConfigError, SchemaError
from airflow_cdc.core.table import Table

_MYSQL_CONNECTOR = "io.debezium.connector.mysql.MySqlConnector"
_POSTGRES_CONNECTOR = "io.debezium.connector.postgresql.PostgresConnector"
# connector.class → the kind of source that it reads
_SOURCES: Final[Mapping[str, str]] = {
    _MYSQL_CONNECTOR: "mysql",
    "io.debezium.connector.mariadb.MariaDbConnector": "mariadb",
    _POSTGRES_CONNECTOR: "postgres",
}
_VALUES: Final[Mapping[str, Callable[[Mapping[str, str]], EventValues]]] = {
    "mysql": MySqlValues.from_config,
    "mariadb": MySqlValues.from_config,
    "postgres": PostgresValues.from_config,
}
_WITHOUT_DDL: Final = frozenset({_POSTGRES_CONNECTOR})
_PLAIN_NAMING = frozenset(
    {"io.debezium.schema.SchemaTopicNamingStrategy", "io.debezium.schema.DefaultTopicNamingStrategy"}
)
_JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A setting that changes or hides rows: refused whenever `applies` to its value."""

    pattern: str
    why: str
    applies: Callable[[str], bool] = bool

    def matches(self, key: str, value: str) -> bool:
        return re.fullmatch(self.pattern, key) is not None and self.applies(value.strip())


def _row_operations(value: str) -> bool:
    return bool({"c", "u", "d"} & set(split_list(value)))


def _true(value: str) -> bool:
    return value.lower() == "true"


_NO_DDL = ("include.schema.changes", "false")

_REFUSED = (
    _Refusal(r"converters", "custom converters change values in ways that cannot be reproduced"),
    _Refusal(r"post\.processors", "post-processors change values in ways that cannot be reproduced"),
    _Refusal(
        r"snapshot\.select\.statement\.overrides",
        "the connector's snapshots would hold other rows than this provider's",
    ),
    _Refusal(r"gtid\.source\.(includes|excludes)", "changes of some servers are left out"),
    _Refusal(r"skipped\.operations", "row changes are left out", _row_operations),
    _Refusal(r"schema\.history\.internal\.skip\.unparseable\.ddl", "statements are silently skipped", _true),
    _Refusal(r"schema\.history\.internal\.ddl\.filter", "matching statements are silently skipped"),
    _Refusal(r"slot\.drop\.on\.stop", "each stop drops the slot, and with it the log that was not read yet", _true),
    _Refusal(r"field\.name\.adjustment\.mode", "columns change their names", lambda v: v not in {"", "none"}),
    _Refusal(r"value\.converter\.decimal\.format", "decimals arrive as JSON numbers", lambda v: v.upper() == "NUMERIC"),
    _Refusal(r"key\.converter\.decimal\.format", "decimals arrive as JSON numbers", lambda v: v.upper() == "NUMERIC"),
    _Refusal(
        r"producer\.override\.partitioner\.(class|ignore\.keys)",
        "changes of one key may land in several partitions",
        lambda v: v.lower() not in {"", "false"},
    ),
)

# Settings over columns: refused for a table only if they match one of its columns ("schema.table.column").
_COLUMN_EXCLUDED = r"column\.(exclude\.list|blacklist)"
_COLUMN_INCLUDED = r"column\.(include\.list|whitelist)"
_COLUMN_CHANGED = r"column\.(mask\.(hash|with)\..*|truncate\.to\..*)"

_HEALS_ITSELF = (
    (r"errors\.tolerance", lambda v: v == "all"),
    (r"snapshot\.mode", lambda v: v in {"when_needed", "always"}),
    (r".*\.handling\.mode", lambda v: v in {"warn", "skip", "ignore"}),
    # PostgreSQL: trust_offset moves the slot past what was not read, trust_slot the offset, and no error is raised
    (r"offset\.mismatch\.strategy", lambda v: v not in {"", "no_validation"}),
    # a publication that was lost is made anew, or one that others share is narrowed, and the rows between never come
    (r"publication\.autocreate\.mode", lambda v: v != "disabled"),
)
# connector.class → settings that hide a gap unless the connector sets them otherwise
_HEALS_BY_DEFAULT: Final[Mapping[str, Mapping[str, str]]] = {
    _POSTGRES_CONNECTOR: {"publication.autocreate.mode": "all_tables"},
}


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """What a Debezium MySQL connector does to names, keys and values.

    Attributes:
        prefix: topic.prefix, also the `server` of the offset's partition.
        values: how values are written in events.
        truncates_seen: op t events are produced for TRUNCATE.
        null_becomes_default: a NULL in a nullable column that has a default arrives as that default.
        years_adjusted: dates in the years 1 to 99 arrive as 1970 to 2069, indistinguishable from real ones.
        keep_alive_ms: after this long without an event Debezium considers its connection lost, even with a full queue.
        keys_wrapped: whether keys are sent in a schema envelope; None: the worker's converter decides, and we recognise
            it by each key's shape.
        heartbeat_ms: 0 when heartbeats are off: the stored offset then does not move on a quiet pipeline.
        schema_topic: topic of the connector's schema changes; None when it emits none.
        history_topic: topic of the connector's internal schema history; None if it is stored elsewhere.
        healing: settings with which the connector hides a gap instead of failing (INV 5), as `name=value`.
        kind: the connector's class.
    """

    prefix: str
    delimiter: str
    values: EventValues
    routes: tuple[Route, ...] = ()
    filters: tuple[tuple[str, str], ...] = ()
    column_rules: tuple[tuple[str, str], ...] = ()
    truncates_seen: bool = False
    null_becomes_default: bool = True
    years_adjusted: bool = True
    keep_alive_ms: int = 60_000
    keys_wrapped: bool | None = None
    heartbeat_ms: int = 0
    heartbeat_topic: str = ""
    schema_topic: str | None = None
    history_topic: str | None = None
    history_bootstrap: str = field(default="", repr=False)
    healing: tuple[str, ...] = ()
    kind: str = _MYSQL_CONNECTOR

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> ConnectorSettings:
        """Read a connector's configuration as returned by GET /connectors/<name>/config.

        Raises ConfigError for a connector, converter, transform or setting that cannot be followed exactly,
        SchemaError (from the values of its kind of source) for an unknown value mode.
        """
        cfg = {key: str(value) for key, value in config.items() if value is not None}
        _check_kind(cfg)
        _check_converters(cfg)
        _check_refused(cfg)
        prefix = cfg["topic.prefix"].strip()
        return cls(
            prefix=prefix,
            delimiter=cfg.get("topic.delimiter", "."),
            values=_VALUES[_SOURCES[cfg["connector.class"]]](cfg),
            routes=read_routes(cfg),
            filters=_present(cfg, r"(table|schema|database)\.(include|exclude)\.list"),
            column_rules=_present(
                cfg, rf"{_COLUMN_EXCLUDED}|{_COLUMN_INCLUDED}|{_COLUMN_CHANGED}|message\.key\.columns"
            ),
            truncates_seen="t" not in split_list(cfg.get("skipped.operations", "t")),
            null_becomes_default=replaces_nulls(cfg),
            years_adjusted=not is_false(cfg.get("enable.time.adjuster", "true")),
            keep_alive_ms=_integer(cfg, "connect.keep.alive.interval.ms", 60_000),
            keys_wrapped=_keys_wrapped(cfg),
            heartbeat_ms=_integer(cfg, "heartbeat.interval.ms", 0),
            heartbeat_topic=f"{cfg.get('topic.heartbeat.prefix', '__debezium-heartbeat')}.{prefix}",
            schema_topic=None if is_false(cfg.get("include.schema.changes", "true")) else prefix,
            history_topic=cfg.get("schema.history.internal.kafka.topic"),
            history_bootstrap=cfg.get("schema.history.internal.kafka.bootstrap.servers", ""),
            healing=healing_settings(cfg),
            kind=cfg["connector.class"],
        )

    @property
    def observed_only(self) -> bool:
        """Whether its offset and topics are read for a diagnosis, and its events are not decoded."""
        return KIND.reads[_SOURCES[self.kind]].decoder is None

    @property
    def reports_ddl(self) -> bool:
        """Whether such a connector reports DDL and keeps table definitions. PostgreSQL's log holds no DDL."""
        return self.kind not in _WITHOUT_DDL

    @property
    def ddl_topic(self) -> str | None:
        """The topic that reports every DDL: the schema-change topic, else the schema history. Raises ConfigError.

        None where the source's log holds no DDL, so that only a changed definition shows it.

        A router that matches the schema-change topic, as `shop(.*)` does, sends its records elsewhere; no transform
        touches the history.
        """
        if not self.reports_ddl:
            return None
        routed = self.schema_topic is not None and any(route.applies(self.schema_topic) for route in self.routes)
        topic = self.history_topic if routed else self.schema_topic or self.history_topic
        if topic is None:
            off = (
                ("a router that also routes the topic of schema changes", self.schema_topic or "")
                if routed
                else _NO_DDL
            )
            refuse(*off, "DDL that changes rows without events would not be seen")
        return topic

    def captures(self, table: str) -> bool:
        """Whether the connector captures "schema.table" by its include and exclude lists."""
        schema = table.partition(".")[0]
        for setting, value in self.filters:
            subject = table if setting.startswith("table.") else schema
            if is_listed(value, subject) != ("include" in setting):
                return False
        return True

    def topic_of(self, table: str) -> str:
        """The topic that changes of "schema.table" end in, after all routing."""
        topic = self._physical(table)
        for route in self.routes:
            topic = route.renamed(topic) if route.applies(topic) else topic
        return topic

    def key_mark(self, table: str) -> KeyMark | None:
        """The key field by which a router distinguishes this table from others in the same topic."""
        topic, mark = self._physical(table), None
        for route in self.routes:
            if route.applies(topic):
                topic, mark = route.renamed(topic), route.mark(topic) or mark
        return mark

    def topics_about(self, tables: Iterable[str]) -> list[str]:
        """All topics with changes of these tables: their own, and the one that reports every DDL."""
        own = dict.fromkeys(map(self.topic_of, tables))
        return [*own, self.ddl_topic] if self.ddl_topic else [*own]

    def topics(self, tables: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Topic → the tables whose changes it holds. Raises ConfigError if their events cannot be distinguished."""
        tables_by_topic: dict[str, tuple[str, ...]] = {}
        for table in tables:
            topic = self.topic_of(table)
            tables_by_topic[topic] = (*tables_by_topic.get(topic, ()), table)
        for topic, sharing in tables_by_topic.items():
            if len(sharing) > 1 and any(self.key_mark(table) is None for table in sharing):
                raise ConfigError(
                    f"{' and '.join(sharing)} share the topic {topic} and their keys do not say which table they belong to",
                    where="connector's transforms",
                    todo="Set key.enforce.uniqueness=true on the router, or give each table a topic of its own.",
                )
        return tables_by_topic

    @property
    def doubt_way_out(self) -> str:
        """See ports.Routing."""
        return self.values.way_out

    def check_table(self, table: Table) -> None:
        """Refuse a table whose rows the connector filters, masks, truncates or gives other keys (INV 21).

        Call it before rows are read past the connector and before its events are decoded. Raises ConfigError
        when the connector does not capture the table at all, or when we do not decode its events; otherwise SchemaError
        with the column and the setting.
        """
        if self.observed_only:
            refuse("connector.class", self.kind, "such a connector is diagnosed; its events are not decoded")
        if not self.captures(table.full_name):
            raise ConfigError(
                f"the connector does not capture {table.full_name}",
                where="table.include.list, schema.include.list or database.include.list, and their exclude lists",
                todo="Add the table to the connector's list, or remove it from pipelines.yaml.",
            )
        if self.keys_wrapped is None and {"schema", "payload"} <= {*table.key}:
            raise SchemaError(
                "a key with columns named schema and payload looks like a key wrapped in its schema",
                where=f"table {table.full_name}",
                todo="Set key.converter and key.converter.schemas.enable on the connector itself.",
            )
        self.values.check_table(table)
        for setting, value in self.column_rules:
            for column in table.mirrored:
                if _column_rule_hits(setting, value, table, column.name):
                    _refuse_column(setting, table, column.name)

    def _physical(self, table: str) -> str:
        schema, _, name = table.partition(".")
        return re.sub(r"[^A-Za-z0-9._\-]", "_", self.delimiter.join((self.prefix, schema, name)))


def _check_kind(cfg: Mapping[str, str]) -> None:
    kind = cfg.get("connector.class", "")
    if kind not in _SOURCES:
        refuse(
            "connector.class",
            kind or "nothing",
            "only Debezium's connectors for MySQL, MariaDB and PostgreSQL can be followed",
        )
    if not cfg.get("topic.prefix", "").strip():
        refuse("topic.prefix", "nothing", "topics and stored offsets are named by it")
    naming = cfg.get("topic.naming.strategy", "").strip()
    if naming and naming not in _PLAIN_NAMING:
        refuse("topic.naming.strategy", naming, "its topic names cannot be derived")


def _check_converters(cfg: Mapping[str, str]) -> None:
    """If the connector names no converter, the worker's is used; JSON is then recognised from the events."""
    for side in ("key", "value"):
        converter = cfg.get(f"{side}.converter", "").strip()
        if converter and converter != _JSON_CONVERTER:
            refuse(f"{side}.converter", converter, "only JSON can be decoded")


def _keys_wrapped(cfg: Mapping[str, str]) -> bool | None:
    """Connect reads a converter's settings from the connector's configuration only if that also names the converter."""
    if not cfg.get("key.converter", "").strip():
        return None
    return not is_false(cfg.get("key.converter.schemas.enable", "true"))


def _check_refused(cfg: Mapping[str, str]) -> None:
    for key, value in cfg.items():
        for refusal in _REFUSED:
            if refusal.matches(key, value):
                refuse(key, value, refusal.why)


def _column_rule_hits(setting: str, value: str, table: Table, column: str) -> bool:
    full = f"{table.full_name}.{column}"
    if setting == "message.key.columns":
        return any(
            full_match(rule.partition(":")[0], table.full_name, ignore_case=True)
            for rule in value.split(";")
            if rule.strip()
        )
    listed = is_listed(value, full)
    return not listed if re.fullmatch(_COLUMN_INCLUDED, setting) else listed


def _refuse_column(setting: str, table: Table, column: str) -> NoReturn:
    what = (
        "changes the keys of the table's messages" if setting == "message.key.columns" else f"hides or changes {column}"
    )
    raise SchemaError(
        f"the connector's {setting} {what}, so its rows cannot be reproduced exactly",
        where=f"table {table.full_name}",
        todo="Remove the setting for this table, or remove the table from the pipeline.",
    )


def healing_settings(cfg: Mapping[str, str]) -> tuple[str, ...]:
    """Settings with which a connector hides a gap instead of failing (INV 5), as `name=value`."""
    effective = {**_HEALS_BY_DEFAULT.get(cfg.get("connector.class", ""), {}), **cfg}
    hits = (
        f"{k}={v}"
        for k, v in effective.items()
        for pattern, bad in _HEALS_ITSELF
        if re.fullmatch(pattern, k) and bad(v.strip())
    )
    return tuple(sorted(hits))


def _present(cfg: Mapping[str, str], pattern: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, v) for k, v in cfg.items() if re.fullmatch(pattern, k) and v.strip()))


def _integer(cfg: Mapping[str, str], key: str, default: int) -> int:
    text = cfg.get(key, "").strip()
    if (text and not text.isascii()) or (text and not text.isdigit()):
        refuse(key, text, "it must be a number")
    return int(text or default)
