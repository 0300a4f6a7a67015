"""A Debezium MySQL connector's own configuration, read for what decoding and routing need.

Nothing is guessed: the topic of a table, the form of its key, and the decoding modes come from what the
connector was told. What it does to rows that we cannot do exactly is refused by name (INV 21), because a
snapshot read past the connector must hold the very values that the connector's events would have held.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from airflow_cdc.core.errors import ConfigError, SchemaError
from airflow_cdc.core.table import TableDef
from airflow_cdc.core.types import DecodeModes

_MYSQL_CONNECTOR = "io.debezium.connector.mysql.MySqlConnector"
# its offset and its topics are read, its events are not decoded
_OBSERVED_CONNECTORS = frozenset({"io.debezium.connector.mariadb.MariaDbConnector"})
_PLAIN_NAMING = frozenset(
    {"io.debezium.schema.SchemaTopicNamingStrategy", "io.debezium.schema.DefaultTopicNamingStrategy"}
)
_JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_BY_LOGICAL_TABLE = "io.debezium.transforms.ByLogicalTableRouter"
_TO_LOGICAL_TOPIC = "io.debezium.transforms.ToLogicalTopicRouter"
_REGEX_ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
_TOPIC_PREDICATE = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"

# Transforms that touch headers or other topics only: every change event passes unchanged.
_HARMLESS_TRANSFORMS = frozenset(
    {
        "io.debezium.transforms.ExtractChangedRecordState",
        "io.debezium.transforms.SchemaChangeEventFilter",
        "org.apache.kafka.connect.transforms.DropHeaders",
        "org.apache.kafka.connect.transforms.InsertHeader",
    }
)

_TRANSFORM_REASONS = {
    "io.debezium.transforms.ExtractNewRecordState": "it strips the source position from every event",
    "io.debezium.transforms.Filter": "it leaves out events that we cannot know of",
    "io.debezium.transforms.ContentBasedRouter": "it routes by a script over the content",
    "io.debezium.transforms.partitions.PartitionRouting": "it lets changes of one key land in several partitions",
    "org.apache.kafka.connect.transforms.Filter": "it leaves out events that we cannot know of",
    "org.apache.kafka.connect.transforms.TimestampRouter": "it routes one table to a topic per day",
}


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A setting that changes or hides rows: refused whenever `applies` to its value."""

    pattern: str
    why: str
    applies: Callable[[str], bool] = bool

    def matches(self, key: str, value: str) -> bool:
        return re.fullmatch(self.pattern, key) is not None and self.applies(value.strip())


def _row_operations(value: str) -> bool:
    return bool({"c", "u", "d"} & set(_split(value)))


_REFUSED = (
    _Refusal(r"converters", "custom converters change values in ways we cannot repeat"),
    _Refusal(r"post\.processors", "post-processors change values in ways we cannot repeat"),
    _Refusal(r"snapshot\.select\.statement\.overrides", "the connector's snapshots would hold other rows than ours"),
    _Refusal(r"gtid\.source\.(includes|excludes)", "changes of some servers are left out"),
    _Refusal(r"skipped\.operations", "row changes are left out", _row_operations),
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
)


@dataclass(frozen=True, slots=True)
class KeyMark:
    """A field that a router adds to the message key, and its value for one table."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class _Route:
    """One routing transform: topics that `pattern` matches wholly are renamed, and their keys marked."""

    name: str
    pattern: str
    replacement: str
    only: tuple[str, bool] | None = None  # (topic pattern, negated) of its predicate
    mark_field: str = ""
    mark_pattern: str = ""
    mark_replacement: str = ""

    def applies(self, topic: str) -> bool:
        if self.only is not None and (_full(self.only[0], topic) is None) != self.only[1]:
            return False
        return _full(self.pattern, topic) is not None

    def renamed(self, topic: str) -> str:
        return _replace_first(self.pattern, self.replacement, topic) or topic

    def mark(self, topic: str) -> KeyMark | None:
        if not self.mark_field:
            return None
        value = topic
        if self.mark_pattern and _full(self.mark_pattern, topic):
            value = _replace_first(self.mark_pattern, self.mark_replacement, topic)
        return KeyMark(self.mark_field, value)


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """What a Debezium MySQL connector does to names, keys and values.

    Attributes:
        prefix: topic.prefix, also the `server` of the offset's partition.
        modes: how values are written in events.
        truncates_seen: op t events are produced for TRUNCATE.
        null_becomes_default: a NULL in a nullable column that has a default arrives as that default.
        years_adjusted: dates in the years 1 to 99 arrive in 1970 to 2069, and cannot be told from real ones.
        heartbeat_ms: 0 when heartbeats are off: then the stored offset stands still on a quiet pipeline.
        schema_topic: topic of the connector's schema changes; None when it emits none.
        history_topic: topic of the connector's internal schema history; None if it is kept elsewhere.
        healing: settings with which the connector hides a gap instead of failing (INV 5), as `name=value`.
        kind: its class.
    """

    prefix: str
    delimiter: str
    modes: DecodeModes
    routes: tuple[_Route, ...] = ()
    filters: tuple[tuple[str, str], ...] = ()
    column_rules: tuple[tuple[str, str], ...] = ()
    truncates_seen: bool = False
    null_becomes_default: bool = True
    years_adjusted: bool = True
    heartbeat_ms: int = 0
    heartbeat_topic: str = ""
    schema_topic: str | None = None
    history_topic: str | None = None
    history_bootstrap: str = field(default="", repr=False)
    healing: tuple[str, ...] = ()
    kind: str = _MYSQL_CONNECTOR

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> ConnectorSettings:
        """Read a connector's configuration as GET /connectors/<name>/config gives it.

        Raises ConfigError for a connector, converter, transform or setting that cannot be followed exactly,
        SchemaError (from DecodeModes) for a value mode nobody knows.
        """
        cfg = {key: str(value) for key, value in config.items() if value is not None}
        _check_kind(cfg)
        _check_converters(cfg)
        _check_refused(cfg)
        prefix = cfg["topic.prefix"].strip()
        return cls(
            prefix=prefix,
            delimiter=cfg.get("topic.delimiter", "."),
            modes=DecodeModes.from_config(cfg),
            routes=_routes(cfg),
            filters=_present(cfg, r"(table|database)\.(include|exclude)\.list"),
            column_rules=_present(
                cfg, rf"{_COLUMN_EXCLUDED}|{_COLUMN_INCLUDED}|{_COLUMN_CHANGED}|message\.key\.columns"
            ),
            truncates_seen="t" not in _split(cfg.get("skipped.operations", "t")),
            null_becomes_default=not _false(cfg.get("value.converter.replace.null.with.default", "true")),
            years_adjusted=not _false(cfg.get("enable.time.adjuster", "true")),
            heartbeat_ms=_integer(cfg, "heartbeat.interval.ms", 0),
            heartbeat_topic=f"{cfg.get('topic.heartbeat.prefix', '__debezium-heartbeat')}.{prefix}",
            schema_topic=None if _false(cfg.get("include.schema.changes", "true")) else prefix,
            history_topic=cfg.get("schema.history.internal.kafka.topic"),
            history_bootstrap=cfg.get("schema.history.internal.kafka.bootstrap.servers", ""),
            healing=healing_settings(cfg),
            kind=cfg["connector.class"],
        )

    @property
    def ddl_topic(self) -> str:
        """The topic that tells of every DDL: that of schema changes, else the schema history. Raises ConfigError."""
        topic = self.schema_topic or self.history_topic
        if topic is None:
            _refuse("include.schema.changes", "false", "DDL that changes rows without events would not be seen")
        return topic

    def captures(self, table: str) -> bool:
        """Whether the connector captures "schema.table" by its include and exclude lists."""
        schema = table.partition(".")[0]
        for setting, value in self.filters:
            subject = table if setting.startswith("table.") else schema
            listed = any(_full(pattern, subject, ignore_case=True) for pattern in _split(value))
            if listed != ("include" in setting):
                return False
        return True

    def topic_of(self, table: str) -> str:
        """The topic that changes of "schema.table" end in, after all routing."""
        topic = self._physical(table)
        for route in self.routes:
            topic = route.renamed(topic) if route.applies(topic) else topic
        return topic

    def key_mark(self, table: str) -> KeyMark | None:
        """The field by which a router tells this table's keys from those of others in the same topic."""
        topic, mark = self._physical(table), None
        for route in self.routes:
            if route.applies(topic):
                topic, mark = route.renamed(topic), route.mark(topic) or mark
        return mark

    def topics_about(self, tables: Iterable[str]) -> list[str]:
        """All topics that say what became of these tables: their own, and the one that tells of every DDL."""
        return [*dict.fromkeys(map(self.topic_of, tables)), self.ddl_topic]

    def topics(self, tables: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Topic → the tables whose changes it holds. Raises ConfigError if these cannot be told apart."""
        found: dict[str, tuple[str, ...]] = {}
        for table in tables:
            topic = self.topic_of(table)
            found[topic] = (*found.get(topic, ()), table)
        for topic, sharing in found.items():
            if len(sharing) > 1 and any(self.key_mark(table) is None for table in sharing):
                raise ConfigError(
                    f"{' and '.join(sharing)} share the topic {topic} and their keys do not say which table they belong to",
                    where="connector's transforms",
                    todo="Set key.enforce.uniqueness=true on the router, or give each table a topic of its own.",
                )
        return found

    def check_table(self, table: TableDef) -> None:
        """Refuse a table whose rows the connector filters, masks, cuts or keys in its own way (INV 21).

        Call it before rows are read past the connector and before its events are decoded. Raises ConfigError
        when the connector does not capture the table at all, or is one whose events are not decoded; SchemaError
        naming column and setting otherwise.
        """
        if self.kind in _OBSERVED_CONNECTORS:
            _refuse("connector.class", self.kind, "such a connector is diagnosed; its events are not decoded")
        if not self.captures(table.full_name):
            raise ConfigError(
                f"the connector does not capture {table.full_name}",
                where="table.include.list, database.include.list and their exclude lists",
                todo="Add the table to the connector's list, or take it out of pipelines.yaml.",
            )
        for setting, value in self.column_rules:
            for column in table.mirrored:
                if _column_rule_hits(setting, value, table, column.name):
                    _refuse_column(setting, table, column.name)

    def _physical(self, table: str) -> str:
        schema, _, name = table.partition(".")
        return re.sub(r"[^A-Za-z0-9._\-]", "_", self.delimiter.join((self.prefix, schema, name)))


def _check_kind(cfg: Mapping[str, str]) -> None:
    kind = cfg.get("connector.class", "")
    if kind not in {_MYSQL_CONNECTOR, *_OBSERVED_CONNECTORS}:
        _refuse("connector.class", kind or "nothing", "only the Debezium MySQL connector can be followed")
    if not cfg.get("topic.prefix", "").strip():
        _refuse("topic.prefix", "nothing", "topics and stored offsets are named by it")
    naming = cfg.get("topic.naming.strategy", "").strip()
    if naming and naming not in _PLAIN_NAMING:
        _refuse("topic.naming.strategy", naming, "its topic names cannot be derived")


def _check_converters(cfg: Mapping[str, str]) -> None:
    """A converter that the connector does not name is the worker's; JSON is then recognised in the events."""
    for side in ("key", "value"):
        converter = cfg.get(f"{side}.converter", "").strip()
        if converter and converter != _JSON_CONVERTER:
            _refuse(f"{side}.converter", converter, "only JSON can be decoded")


def _check_refused(cfg: Mapping[str, str]) -> None:
    for key, value in cfg.items():
        for refusal in _REFUSED:
            if refusal.matches(key, value):
                _refuse(key, value, refusal.why)


def _routes(cfg: Mapping[str, str]) -> tuple[_Route, ...]:
    """The routing transforms in order. Any transform that is neither a router nor harmless is refused."""
    routes = []
    for name in _split(cfg.get("transforms", "")):
        kind = cfg.get(f"transforms.{name}.type", "").strip()
        if kind in _ROUTERS:
            routes.append(_ROUTERS[kind](cfg, name))
        elif kind not in _HARMLESS_TRANSFORMS:
            short = kind.partition("$")[0]
            why = _TRANSFORM_REASONS.get(short, "what it does to events cannot be followed")
            _refuse(f"transforms.{name}.type", kind or "nothing", why)
    return tuple(routes)


def _regex_router(cfg: Mapping[str, str], name: str) -> _Route:
    option = _options(cfg, name)
    return _route(name, option("regex"), option("replacement"), _predicate(cfg, name))


def _by_logical_table(cfg: Mapping[str, str], name: str) -> _Route:
    return _logical(cfg, name, "__dbz__physicalTableIdentifier")


def _to_logical_topic(cfg: Mapping[str, str], name: str) -> _Route:
    return _logical(cfg, name, "__dbz__sourceIdentifier")


def _logical(cfg: Mapping[str, str], name: str, default_field: str) -> _Route:
    option = _options(cfg, name)
    unique = not _false(option("key.enforce.uniqueness") or "true")
    return _route(
        name,
        option("topic.regex"),
        option("topic.replacement"),
        _predicate(cfg, name),
        mark=(
            option("key.field.name") or default_field if unique else "",
            option("key.field.regex"),
            option("key.field.replacement"),
        ),
    )


_ROUTERS: dict[str, Callable[[Mapping[str, str], str], _Route]] = {
    _REGEX_ROUTER: _regex_router,
    _BY_LOGICAL_TABLE: _by_logical_table,
    _TO_LOGICAL_TOPIC: _to_logical_topic,
}


def _route(
    name: str, pattern: str, replacement: str, only: tuple[str, bool] | None, mark: tuple[str, str, str] = ("", "", "")
) -> _Route:
    if not pattern or not replacement:
        _refuse(f"transforms.{name}", "no regex or no replacement", "where it routes to cannot be derived")
    return _Route(name, _python_regex(pattern), replacement, only, mark[0], _python_regex(mark[1]), mark[2])


def _options(cfg: Mapping[str, str], name: str) -> Callable[[str], str]:
    return lambda option: cfg.get(f"transforms.{name}.{option}", "").strip()


def _predicate(cfg: Mapping[str, str], name: str) -> tuple[str, bool] | None:
    predicate = cfg.get(f"transforms.{name}.predicate", "").strip()
    if not predicate:
        return None
    kind = cfg.get(f"predicates.{predicate}.type", "")
    if kind != _TOPIC_PREDICATE:
        _refuse(f"predicates.{predicate}.type", kind or "nothing", f"which events {name} routes cannot be derived")
    negated = cfg.get(f"transforms.{name}.negate", "false").strip().lower() == "true"
    return _python_regex(cfg.get(f"predicates.{predicate}.pattern", "")), negated


def _column_rule_hits(setting: str, value: str, table: TableDef, column: str) -> bool:
    full = f"{table.full_name}.{column}"
    if setting == "message.key.columns":
        return any(
            _full(rule.partition(":")[0], table.full_name, ignore_case=True)
            for rule in value.split(";")
            if rule.strip()
        )
    listed = any(_full(pattern, full, ignore_case=True) for pattern in _split(value))
    return not listed if re.fullmatch(_COLUMN_INCLUDED, setting) else listed


def _refuse_column(setting: str, table: TableDef, column: str) -> NoReturn:
    what = (
        "keys the table's messages in its own way" if setting == "message.key.columns" else f"hides or changes {column}"
    )
    raise SchemaError(
        f"the connector's {setting} {what}, so its rows cannot be reproduced exactly",
        where=f"table {table.full_name}",
        todo="Remove the setting for this table, or take the table out of the pipeline.",
    )


def healing_settings(cfg: Mapping[str, str]) -> tuple[str, ...]:
    """Settings with which a connector hides a gap instead of failing (INV 5), as `name=value`."""
    hits = (
        f"{k}={v}"
        for k, v in cfg.items()
        for pattern, bad in _HEALS_ITSELF
        if re.fullmatch(pattern, k) and bad(v.strip())
    )
    return tuple(sorted(hits))


def _present(cfg: Mapping[str, str], pattern: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, v) for k, v in cfg.items() if re.fullmatch(pattern, k) and v.strip()))


def _split(value: str) -> Sequence[str]:
    """A comma-separated list; a comma inside a regular expression is written with a backslash before it."""
    return [part.replace("\\,", ",").strip() for part in re.split(r"(?<!\\),", value) if part.strip()]


def _false(value: str) -> bool:
    return value.strip().lower() == "false"


def _integer(cfg: Mapping[str, str], key: str, default: int) -> int:
    text = cfg.get(key, "").strip()
    if (text and not text.isascii()) or (text and not text.isdigit()):
        _refuse(key, text, "it must be a number")
    return int(text or default)


def _full(pattern: str, text: str, *, ignore_case: bool = False) -> re.Match[str] | None:
    try:
        return re.fullmatch(_python_regex(pattern), text, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        _refuse("a regular expression", pattern, f"it cannot be followed here: {error}")


def _python_regex(pattern: str) -> str:
    """Java writes a named group as (?<name>…); the rest that these settings use is common to both."""
    return re.sub(r"\(\?<(?![=!])", "(?P<", pattern)


def _replace_first(pattern: str, replacement: str, text: str) -> str:
    return re.sub(pattern, lambda match: _expand(replacement, match), text, count=1)


def _expand(replacement: str, match: re.Match[str]) -> str:
    """Java's replacement text: $1, ${name}, and a backslash before a literal character."""

    def piece(token: re.Match[str]) -> str:
        if token["literal"]:
            return token["literal"]
        group = token["name"] or token["number"]
        # "$12" is group 12 only if the pattern has that many groups; otherwise group 1 and a "2"
        digits = len(group)
        while group.isdigit() and digits > 1 and int(group[:digits]) > (match.re.groups or 0):
            digits -= 1
        tail = group[digits:]
        head = group[:digits]
        return (match[int(head)] if head.isdigit() else match[head] or "") + tail

    try:
        return re.sub(r"\\(?P<literal>.)|\$\{(?P<name>\w+)\}|\$(?P<number>\d+)", piece, replacement)
    except (IndexError, TypeError) as error:
        _refuse("a replacement", replacement, f"it names a group that its pattern does not have: {error}")


def _refuse(setting: str, value: str, why: str) -> NoReturn:
    raise ConfigError(
        f"{setting} is {value}: {why}",
        where="the connector's configuration",
        todo="Change the setting, or keep these tables out of the pipeline.",
    )
