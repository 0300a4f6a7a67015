"""What a Debezium connector's configuration says: what a diagnosis needs of it, and what rows need.

Names, position and history are read of every connector, however its events are written. What keeps rows from being taken
from the events is collected in `refusals` and raised where rows are read or written (INV 40). Nothing is guessed: the topic
of a table, the form of its key, and the decoding modes come from the connector's settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from airflow_cdc.connectors.debezium import KIND
from airflow_cdc.connectors.debezium.converters import Converter, Format, read_converter
from airflow_cdc.connectors.debezium.flattening import FLATTENS, Deletes, FlattenedForm, check_flattened
from airflow_cdc.connectors.debezium.forms import SIDES, converter_todo
from airflow_cdc.connectors.debezium.healing import healing_settings
from airflow_cdc.connectors.debezium.names import (
    SINK,
    Named,
    by_todays_names,
    is_false,
    split_list,
    unseen_error,
)
from airflow_cdc.connectors.debezium.null_defaults import replaces_nulls
from airflow_cdc.connectors.debezium.plugin_names import MARIADB, MYSQL, POSTGRES
from airflow_cdc.connectors.debezium.routing import (
    KeyMark,
    Route,
    Transforms,
    full_match,
    is_listed,
    read_transforms,
    refusal,
    refuse,
)
from airflow_cdc.connectors.debezium.rows import (
    COLUMN_RULES,
    check_columns,
    check_names,
    check_nulls,
    follows_names,
    read_values,
    renaming,
    row_refusals,
    without_left_out,
)
from airflow_cdc.connectors.rules import heartbeat_check, keep_alive_check, quick_heartbeats
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import CdcError, ConfigError, SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.core.text import number_in
from airflow_cdc.events.record import Ids
from airflow_cdc.events.registry import RegistryAddress
from airflow_cdc.events.value import Values

# connector.class → the kind of source that it reads
_SOURCES: Final[Mapping[str, str]] = {
    MYSQL: "mysql",
    MARIADB: "mariadb",
    POSTGRES: "postgres",
}
_WITHOUT_DDL: Final = frozenset({POSTGRES})
_PLAIN_NAMING = frozenset(
    {"io.debezium.schema.SchemaTopicNamingStrategy", "io.debezium.schema.DefaultTopicNamingStrategy"}
)
_NO_DDL = ("include.schema.changes", "false")
_PREFIX = "topic.prefix"
_KEEP_ALIVE = "connect.keep.alive.interval.ms"
_HEARTBEAT = "heartbeat.interval.ms"
_NUMBERS = (_KEEP_ALIVE, _HEARTBEAT)
# settings that decide to which topic a table's events go
_NAMES_TOPICS = r"topic\.(delimiter|naming\.strategy)|transforms(\..*)?|predicates\..*"


# in which records of the topic of schema changes are read
_DDL_FORMATS: Final = frozenset({Format.JSON, Format.UNSEEN})


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """What a Debezium connector does to names, keys and values.

    Attributes:
        prefix: topic.prefix, also the `server` of the offset's partition; "" where it can't be seen.
        event_values: how values are written in events; None where a refusal says why they can't be decoded.
        truncates_seen: op t events are produced for TRUNCATE; flattened, they look like deletes without a key.
        null_becomes_default: a NULL in a nullable column that has a default arrives as that default.
        years_adjusted: dates in the years 1 to 99 arrive as 1970 to 2069, indistinguishable from real ones.
        keep_alive_ms: after this long without an event Debezium considers its connection lost, even with a full queue.
        converters: of keys and of values.
        renamed_by: settings by which fields have other names than their columns, as `name=value`.
        heartbeat_ms: 0 when heartbeats are off: the stored offset then does not move on a quiet pipeline.
        heartbeat_topic: "" where its name can't be seen.
        schema_topic: topic of the connector's schema changes; None when it emits none.
        history_topic: topic of the connector's internal schema history; None if it is stored elsewhere.
        healing: settings with which the connector hides a gap instead of failing (INV 5), as `name=value`.
        flattened: what each of its transforms that flatten events leaves of them.
        deletes_skipped: it sends no event for a DELETE (skipped.operations).
        kind: the connector's class.
        old: its settings have the names of Debezium 1.x.
        refusals: why no table's rows can be taken from its events (INV 21); () if they can.
        unnamed: why the topics of its tables can't be named; None if they can.
    """

    truncates_way_out: ClassVar[str] = "Set skipped.operations=none on the connector."
    prefix: str
    delimiter: str
    event_values: Values | None
    routes: tuple[Route, ...] = ()
    filters: tuple[tuple[str, str], ...] = ()
    column_rules: tuple[tuple[str, str], ...] = ()
    truncates_seen: bool = False
    null_becomes_default: bool = True
    years_adjusted: bool = True
    keep_alive_ms: int = 60_000
    converters: tuple[Converter, ...] = ()
    renamed_by: tuple[str, ...] = ()
    heartbeat_ms: int = 0
    heartbeat_topic: str = ""
    schema_topic: str | None = None
    history_topic: str | None = None
    history_bootstrap: str = field(default="", repr=False)
    healing: tuple[str, ...] = ()
    flattened: tuple[FlattenedForm, ...] = ()
    deletes_skipped: bool = False
    kind: str = MYSQL
    old: bool = False
    refusals: tuple[CdcError, ...] = ()
    unnamed: CdcError | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> ConnectorSettings:
        """Read a connector's configuration as returned by GET /connectors/<name>/config. Never fails (INV 40)."""
        settings = by_todays_names(config)
        cfg = settings.known
        kind = cfg.get("connector.class", "").strip()
        transforms = read_transforms(cfg, old=settings.old)
        values, undecodable = read_values(_SOURCES.get(kind, ""), cfg)
        naming = tuple(_naming_faults(settings, transforms))
        malformed = tuple(
            refusal(key, cfg[key], "it must be a number", f"Set {key} to a number")
            for key in _NUMBERS
            if _integer(cfg, key) is None
        )
        refusals = (_kind_fault(kind), *naming, *row_refusals(settings), *transforms.refusals, undecodable, *malformed)
        prefix = cfg.get(_PREFIX, "").strip()
        return cls(
            prefix=prefix,
            delimiter=cfg.get("topic.delimiter", "."),
            event_values=values,
            routes=transforms.routes,
            filters=_present(cfg, r"(table|schema|database)\.(include|exclude)\.list"),
            column_rules=_present(cfg, COLUMN_RULES),
            truncates_seen="t" not in split_list(cfg.get("skipped.operations", "t")) and not transforms.flattened,
            null_becomes_default=replaces_nulls(config),
            years_adjusted=not is_false(cfg.get("enable.time.adjuster", "true")),
            keep_alive_ms=_integer(cfg, _KEEP_ALIVE) or 60_000,
            converters=tuple(read_converter(cfg, side) for side in SIDES),
            renamed_by=renaming(settings),
            heartbeat_ms=_integer(cfg, _HEARTBEAT) or 0,
            heartbeat_topic=f"{cfg.get('topic.heartbeat.prefix', '__debezium-heartbeat')}.{prefix}" if prefix else "",
            schema_topic=None if is_false(cfg.get("include.schema.changes", "true")) else prefix,
            history_topic=cfg.get("schema.history.internal.kafka.topic"),
            history_bootstrap=cfg.get("schema.history.internal.kafka.bootstrap.servers", ""),
            healing=healing_settings(cfg),
            flattened=transforms.flattened,
            deletes_skipped="d" in split_list(cfg.get("skipped.operations", "")),
            kind=kind,
            old=settings.old,
            refusals=tuple({str(one): one for one in refusals if one is not None}.values()),
            unnamed=naming[0] if naming else None,
        )

    @property
    def values(self) -> Values:
        """How values are written in events. Raises ConfigError or SchemaError where rows can't be taken from them."""
        self.check_rows()
        if self.event_values is None:
            raise ConfigError(
                "how the connector writes values is not known",
                where="the connector's configuration",
                todo="Diagnose the pipeline: it says which setting is at fault.",
            )
        return self.event_values

    @property
    def rows_refused(self) -> CdcError | None:
        """Why no table's rows can be taken from the connector's events; None if they can."""
        if len(self.refusals) < 2:
            return self.refusals[0] if self.refusals else None
        return ConfigError(
            "; ".join(one.what for one in self.refusals),
            where="the connector's configuration",
            todo="Change these settings, or mirror these tables without their events.",
        )

    def check_rows(self) -> None:
        """Raise ConfigError or SchemaError if no table's rows can be taken from the connector's events (INV 21)."""
        if (error := self.rows_refused) is not None:
            raise error

    def offset_faults(self, value: Mapping[str, object]) -> tuple[str, ...]:
        """See core.capture.CaptureSettings. From Debezium 2.0 on a value needs no time."""
        if not self.old or self.source != "postgres" or value.get("ts_usec") is not None:
            return ()
        what = "ts_usec is missing, and Debezium 1.x ends with a NullPointerException without it"
        return (f"{what}: add the time of the position, in microseconds since 1970",)

    def deletes_lost(self, *, surely: bool = True) -> tuple[str, ...]:
        """The settings by which no delete reaches the topics, as `name=value`; () if deletes do.

        `surely` False: those by which none does in some version of Debezium, and not in another.
        """
        lossy = [form for form in self.flattened if Deletes.LOST in form.deletes and (len(form.deletes) == 1) == surely]
        by_transform = tuple(form.setting or f"transforms.{form.name}.type={FLATTENS}" for form in lossy)
        return (*(("skipped.operations with d",) if surely and self.deletes_skipped else ()), *by_transform)

    @property
    def unseen_converters(self) -> tuple[str, ...]:
        """The sides whose converter the connector does not name: its worker's is used, which is not shown."""
        return tuple(one.side for one in self.converters if one.format is Format.UNSEEN)

    @property
    def keys_wrapped(self) -> bool | None:
        """Whether keys are sent in a schema block; None: the worker's converter decides, and it shows by each key."""
        return next((one.wrapped for one in self.converters if one.side == "key"), None)

    @property
    def headers(self) -> bool:
        """See events.registry.RecordSettings."""
        framed = any(one.framing is not None and one.framing.ids is Ids.HEADERS for one in self.converters)
        return framed or any(form.headers for form in self.flattened)

    @property
    def shows_before(self) -> bool:
        """See events.registry.RecordSettings."""
        return not self.flattened

    @property
    def needs_registry(self) -> bool:
        """See events.registry.RecordSettings."""
        return any(one.needs_registry for one in self.converters)

    @property
    def needs_avro(self) -> bool:
        """See events.registry.RecordSettings."""
        return any(one.format is Format.AVRO for one in self.converters)

    @property
    def registry(self) -> RegistryAddress | None:
        """See events.registry.RecordSettings."""
        named = (one for one in self.converters if one.needs_registry and one.registry)
        return next((RegistryAddress(one.registry, one.user, one.password) for one in named), None)

    @property
    def names_for_avro(self) -> bool:
        """Whether fields have the names that Avro allows."""
        return follows_names(self.renamed_by, self.converters)

    @property
    def observed_only(self) -> bool:
        """Whether its offset and topics are read for a diagnosis, and its events are not decoded."""
        return not self.known_kind or KIND.reads[_SOURCES[self.kind]].decoder is None

    @property
    def source(self) -> str:
        """The kind of source that it reads; "" for a connector that is not known here."""
        return _SOURCES.get(self.kind, "")

    @property
    def known_kind(self) -> bool:
        """Whether it is one of Debezium's connectors that are read here."""
        return self.kind in _SOURCES

    @property
    def reports_ddl(self) -> bool:
        """Whether such a connector reports DDL and keeps table definitions. PostgreSQL's log holds no DDL."""
        return self.kind not in _WITHOUT_DDL

    @property
    def ddl_topic(self) -> str | None:
        """The topic that reports every DDL: the schema-change topic, else the schema history. Raises ConfigError.

        None where the source's log holds no DDL, so that only a changed definition shows it.

        A router that matches the schema-change topic, as `shop(.*)` does, sends its records elsewhere; no transform
        touches the history. The history is JSON, whatever the converters write.
        """
        if not self.reports_ddl:
            return None
        routed = self.schema_topic is not None and any(route.applies(self.schema_topic) for route in self.routes)
        told = None if routed or self._value_format not in _DDL_FORMATS else self.schema_topic
        topic = told or self.history_topic
        if topic is None:
            refuse(*self._ddl_fault(routed=routed))
        return topic

    @property
    def _value_format(self) -> Format:
        return next((one.format for one in self.converters if one.side == "value"), Format.UNSEEN)

    def _ddl_fault(self, *, routed: bool) -> tuple[str, str, str, str]:
        """Setting, value, why and what to do where no topic tells of DDL."""
        why = "DDL that changes rows without events would not be seen"
        if self.schema_topic is None:
            return *_NO_DDL, why, ""
        if routed:
            do = "Let the router's regex match the tables' topics alone"
            return "a router that also routes the topic of schema changes", self.schema_topic, why, do
        keep = "Keep the schema history in Kafka (schema.history.internal.kafka.topic)"
        return "value.converter", f"of {self._value_format}, in which schema changes are not read", why, keep

    def captures(self, table: str) -> bool:
        """Whether the connector captures "schema.table" by its include and exclude lists."""
        schema = table.partition(".")[0]
        for setting, value in self.filters:
            subject = table if setting.startswith("table.") else schema
            if is_listed(value, subject) != ("include" in setting):
                return False
        return True

    def topic_of(self, table: str) -> str:
        """The topic that changes of "schema.table" end in, after all routing. Raises ConfigError if it can't be named."""
        if self.unnamed is not None:
            raise self.unnamed
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

    def flattened_form(self, table: str) -> FlattenedForm | None:
        """What a transform leaves of the events of "schema.table"; None if they are whole."""
        for form in self.flattened:
            topic = self._physical(table)
            for route in self.routes[: form.behind]:
                topic = route.renamed(topic) if route.applies(topic) else topic
            if form.only is None or full_match(form.only[0], topic) is not form.only[1]:
                return form
        return None

    def topics_about(self, tables: Iterable[str]) -> list[str]:
        """All topics with changes of these tables: their own, and the one that reports every DDL."""
        own = dict.fromkeys(map(self.topic_of, tables))
        return [*own, self.ddl_topic] if self.ddl_topic else [*own]

    def topics(self, tables: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Topic → the tables whose changes it holds. Raises ConfigError if a topic can't be named."""
        tables_by_topic: dict[str, tuple[str, ...]] = {}
        for table in tables:
            topic = self.topic_of(table)
            tables_by_topic[topic] = (*tables_by_topic.get(topic, ()), table)
        return tables_by_topic

    def mixed(self, tables: Iterable[str]) -> dict[str, ConfigError]:
        """See core.capture.CaptureSettings. Two tables are sent to one topic by a router, or because of their names.

        In a topic's name, Debezium replaces what Kafka doesn't take: `a?b` and `a/b` are both `a_b`. Then a router that
        marks keys by the topic gives both the same mark.
        """
        if self.unnamed is not None:
            return {}  # it is said already that no topic can be named
        refused: dict[str, ConfigError] = {}
        for topic, sharing in self.topics(tables).items():
            marks = [self.key_mark(table) for table in sharing]
            if len(sharing) > 1 and (None in marks or len(set(marks)) < len(marks)):
                refused |= dict.fromkeys(sharing, self._mixed(topic, sharing))
        return refused

    def _mixed(self, topic: str, tables: Sequence[str]) -> ConfigError:
        alike = len({self._physical(table) for table in tables}) < len(tables)
        way_out = (
            "Rename one of them, or capture them by connectors with topic prefixes of their own."
            if alike
            else "Set key.enforce.uniqueness=true on the router, or give each table a topic of its own."
        )
        return ConfigError(
            f"{' and '.join(tables)} share the topic {topic} and their keys do not say which table they belong to",
            where="names of topics" if alike else "connector's transforms",
            todo=way_out,
        )

    @property
    def quickened(self) -> Mapping[str, str]:
        """See core.capture."""
        return quick_heartbeats(_HEARTBEAT, self.heartbeat_ms) if self.heartbeat_topic else {}

    def reading_checks(self, subject: str) -> Iterator[Check]:
        """See core.capture."""
        yield heartbeat_check(subject, self.heartbeat_ms, f"{_HEARTBEAT}=10000")
        yield keep_alive_check(subject, self.keep_alive_ms, _KEEP_ALIVE)

    @property
    def doubt_way_out(self) -> str:
        """See ports.Routing."""
        return self.values.way_out

    @property
    def unreadable_way_out(self) -> str:
        """See ports.Routing."""
        if self.unseen_converters:
            return converter_todo(self.unseen_converters)
        return "Look at a record of the topic: other settings of the connector, or another writer, sent it. Then recover the table."

    def check_table(self, table: Table) -> None:
        """Refuse a table whose rows the connector filters, masks, truncates or gives other keys (INV 21).

        Call it before rows are read past the connector and before its events are decoded. Raises ConfigError
        when the connector does not capture the table at all, or when we do not decode its events; otherwise SchemaError
        with the column and the setting.
        """
        self.check_rows()
        if self.observed_only:
            refuse(
                "connector.class",
                self.kind,
                "such a connector is diagnosed; its events are not decoded",
                "Remove the sink",
            )
        if not self.captures(table.full_name):
            raise ConfigError(
                f"the connector does not capture {table.full_name}",
                where="table.include.list, schema.include.list or database.include.list, and their exclude lists",
                todo="Add the table to the connector's list, or remove it from pipelines.yaml.",
            )
        if "key" in self.unseen_converters and {"schema", "payload"} <= {*table.key}:
            raise SchemaError(
                "a key with columns named schema and payload looks like a key wrapped in its schema",
                where=f"table {table.full_name}",
                todo="Set key.converter and key.converter.schemas.enable on the connector itself.",
            )
        carried = self.carried(table)
        self.values.check_table(carried)
        check_columns(self.column_rules, carried)
        form = self.flattened_form(table.full_name)
        if form is not None:
            check_flattened(form, carried)
        added = () if form is None else form.added
        check_names(self.renamed_by, self.converters, carried, added)
        check_nulls(self.converters, self.values, carried, added)

    def carried(self, table: Table) -> Table:
        """The table without the columns that the connector leaves out of its events."""
        return without_left_out(self.column_rules, table)

    def _physical(self, table: str) -> str:
        schema, _, name = table.partition(".")
        return re.sub(r"[^A-Za-z0-9._\-]", "_", self.delimiter.join((self.prefix, schema, name)))


def _kind_fault(kind: str) -> CdcError | None:
    if kind in _SOURCES:
        return None
    why = "only Debezium's connectors for MySQL, MariaDB and PostgreSQL can be followed"
    return refusal("connector.class", kind or "nothing", why, "Read these tables with one of them")


def _naming_faults(settings: Named, transforms: Transforms) -> Iterator[CdcError]:
    """Why the topics of the connector's tables can't be named."""
    if sink := settings.known.get(SINK):
        yield refusal(SINK, sink, "its events go to no topic of Kafka", f"Set {SINK}=kafka")
    if _PREFIX in settings.unseen:
        yield unseen_error(_PREFIX, settings.unseen[_PREFIX])
    elif not settings.known.get(_PREFIX, "").strip():
        yield refusal(_PREFIX, "nothing", "topics and stored offsets are named by it", f"Set {_PREFIX}")
    naming = settings.known.get("topic.naming.strategy", "").strip()
    if naming and naming not in _PLAIN_NAMING:
        yield refusal("topic.naming.strategy", naming, "its topic names cannot be derived")
    if transforms.renames is not None:
        yield transforms.renames
    for name, value in settings.unseen_here.items():
        if re.fullmatch(_NAMES_TOPICS, name):
            yield unseen_error(name, value)


def _present(cfg: Mapping[str, str], pattern: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, v) for k, v in cfg.items() if re.fullmatch(pattern, k) and v.strip()))


def _integer(cfg: Mapping[str, str], key: str) -> int | None:
    """The number that a setting has, 0 where it has none; None for a text that is no number."""
    return number_in(cfg.get(key, "").strip() or "0")
