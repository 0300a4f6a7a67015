"""The settings of Iceberg's sink connector: which table a topic's changes are in, how they are written there, what can't be put right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_cdc.core.feeder import FeederFacts
from airflow_cdc.core.problem import AnyCase, Rules
from airflow_cdc.decisions.diagnosis.feeder_rows import settings_rules
from airflow_cdc.sinks.fed import fault_of_class, faults_of_reading, faults_of_tolerance, matches, names

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table

_CLASS: Final = "org.apache.iceberg.connect.IcebergSinkConnector"
# Connect takes a class by its name alone, too
_FLATTENS: Final = frozenset({"DebeziumTransform", "org.apache.iceberg.connect.transforms.DebeziumTransform"})
_INSERTS: Final = frozenset({"InsertField$Value", "org.apache.kafka.connect.transforms.InsertField$Value"})
_CONTROL: Final = "control-iceberg"
_GROUPS: Final = ("iceberg.connect.group-id", "consumer.override.group.id")
_ROUTE: Final = "iceberg.tables.route-field"
_UNORDERED: Final = "no column says which of two rows of a key is the newer: add DebeziumTransform, or InsertField$Value with offset.field"
_BRANCH: Final = re.compile(r"iceberg\.tables\.default-commit-branch|iceberg\.table\..+\.commit-branch")


class Place(NamedTuple):
    """Where a table's change log is."""

    namespace: str
    name: str

    @property
    def full_name(self) -> str:
        """`namespace.table`."""
        return f"{self.namespace}.{self.name}"


class Form(NamedTuple):
    """How a change stands in a row: the columns that say where in its topic it was ("": none says it).

    Attributes:
        flat: the row itself, with what happened in `_cdc`; else op, before, after and source, as they were sent.
        offset, partition: names of columns; of a flat row the offset is in `_cdc`, too.
    """

    flat: bool
    offset: str = ""
    partition: str = ""

    @property
    def ordered(self) -> bool:
        """Whether a row says where it was in its topic."""
        return self.flat or bool(self.offset)


@dataclass(frozen=True, slots=True)
class ChangelogConfig:
    """The settings of a sink connector called `name`, as Connect shows them. Iceberg's defaults stand for what they leave out."""

    settings: Mapping[str, str]
    name: str

    @property
    def group(self) -> str:
        """The consumer group under which it commits."""
        return f"connect-{self.name}"

    @property
    def control(self) -> str:
        """The topic in which its tasks say what they have written."""
        return self.settings.get("iceberg.control.topic") or _CONTROL

    @property
    def committed(self) -> str:
        """The key of a snapshot's summary that says up to where the control topic's files are in the table."""
        return f"kafka.connect.offsets.{self.control}.{self.group}"

    @property
    def form(self) -> Form:
        """How changes stand in rows."""
        form = Form(flat=False)
        for name in names(self.settings.get("transforms", "")):
            kind = self._of(name, "type")
            if kind in _FLATTENS:
                form = Form(flat=True)
            elif kind in _INSERTS:
                offset, partition = (self._of(name, f"{one}.field").rstrip("!?") for one in ("offset", "partition"))
                form = form._replace(offset=offset or form.offset, partition=partition or form.partition)
        return form

    def place(self, table: str, topic: str) -> Place | None:
        """Where the changes of "schema.table" are, whose events are in `topic`; None if the settings lead nowhere."""
        route = self.settings.get(_ROUTE, "").strip()
        value = self._route_value(route, table)
        if self._flag("iceberg.tables.dynamic-enabled"):
            return _placed(value.lower()) if value else None
        tables = names(self.settings.get("iceberg.tables", ""))
        if not route:
            return _placed(tables[0]) if tables and self._only(topic) else None
        matching = (
            one
            for one in tables
            if value and (regex := self.settings.get(f"iceberg.table.{one}.route-regex")) and matches(regex, value)
        )
        return next(map(_placed, matching), None)

    def _route_value(self, route: str, table: str) -> str:
        """What the field has by which a record of "schema.table" finds its table; "" for a field of unknown meaning."""
        schema, _, name = table.partition(".")
        if not self.form.flat:
            return name if route == "source.table" else ""
        if route == "_cdc.source":
            return table
        if route != "_cdc.target":
            return ""
        patterns = (self._of(one, "cdc.target.pattern") for one in names(self.settings.get("transforms", "")))
        pattern = next(filter(None, patterns), "{db}.{table}")
        return pattern.replace("{db}", schema).replace("{table}", name)

    def _only(self, topic: str) -> bool:
        return not self.settings.get("topics.regex") and names(self.settings.get("topics", "")) == (topic,)

    # ---- what can't be put right

    def faults(self) -> Iterator[tuple[str, str]]:
        """(setting, what it means) of all settings with which a wrong row can't be found or put right."""
        if other := fault_of_class(self.settings, _CLASS, "Iceberg's own sink connector"):
            yield other
            return
        yield from self._transforms()
        if not self.form.ordered:
            yield "transforms", _UNORDERED
        if not self._flag("iceberg.tables.evolve-schema-enabled"):
            yield "iceberg.tables.evolve-schema-enabled", "false: a column that the table lacks is left out silently"
        for name, value in self.settings.items():
            if value and value != "main" and _BRANCH.fullmatch(name):
                yield name, f"{value}: readers of the table do not see this branch"
        for name in _GROUPS:
            if self.settings.get(name, self.group) != self.group:
                yield (
                    name,
                    f"{self.settings[name]}: it would commit for another group than {self.group}, which Connect shows",
                )
        yield from faults_of_tolerance(self.settings)

    def table_faults(self, table: Table, topic: str) -> Iterator[tuple[str, str]]:
        """The same, about one table and its topic."""
        yield from faults_of_reading(self.settings, table, topic)
        if table.keyless:
            yield "topics", f"{table.full_name} has no key, so nobody knows which row a change is about"
        if self.place(table.full_name, topic) is None:
            route = self.settings.get(_ROUTE, "")
            means = f"{route}: it leads {table.full_name} to no table" if route else "none, and it reads several topics"
            yield (
                _ROUTE,
                f"{means} (what is followed: _cdc.source and _cdc.target, or source.table without DebeziumTransform)",
            )

    def _transforms(self) -> Iterator[tuple[str, str]]:
        for name in names(self.settings.get("transforms", "")):
            kind = self._of(name, "type")
            if kind not in _FLATTENS | _INSERTS:
                yield f"transforms.{name}.type", f"{kind}: nobody knows what it makes of a record"
            if self._of(name, "predicate"):
                yield f"transforms.{name}.predicate", "only some records are transformed"

    def _of(self, transform: str, key: str) -> str:
        return self.settings.get(f"transforms.{transform}.{key}", "").strip()

    def _flag(self, name: str) -> bool:
        return self.settings.get(name, "").strip().lower() == "true"


def _placed(name: str) -> Place:
    namespace, _, table = name.rpartition(".")
    return Place(namespace, table)


def _config(facts: FeederFacts, _: AnyCase) -> ChangelogConfig:
    return ChangelogConfig(facts.settings, facts.name)


RULES: Final[Rules] = settings_rules(_config, "the change logs cannot be followed")
