"""A JDBC sink connector's settings: where each table's copy is, and what can't be put right through the topics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_cdc.core.feeder import FeederFacts
from airflow_cdc.core.problem import AnyCase, Rules
from airflow_cdc.decisions.diagnosis.feeder_rows import settings_rules
from airflow_cdc.sinks.fed import fault_of_class, faults_of_reading, faults_of_tolerance, names

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table

_SOURCE: Final = re.compile(r"\$\{source\.(\w+)\}")
_SCHEMA: Final = re.compile(r"[?&]currentSchema=([^&,]+)")
_DATABASE: Final = re.compile(r"^jdbc:[a-z]+://[^/]*/([^?;]+)")
# Connect takes a class by its name alone, too
_UNWRAP: Final = frozenset({"ExtractNewRecordState", "io.debezium.transforms.ExtractNewRecordState"})
# transforms that change neither a record's topic nor its values
_HARMLESS: Final = _UNWRAP | {"HoistHeader", "org.apache.kafka.connect.transforms.HoistHeader"}
_CLASS: Final = "io.debezium.connector.jdbc.JdbcSinkConnector"
_NAMING: Final = ("collection.naming.strategy", "column.naming.strategy", "table.naming.strategy")
_DEFAULT_NAMING: Final = (
    "DefaultCollectionNamingStrategy",
    "DefaultColumnNamingStrategy",
    "DefaultTableNamingStrategy",
)


class Place(NamedTuple):
    """Where a table's copy is: the schema of PostgreSQL or the database of MySQL, and the table's name there."""

    schema: str
    name: str

    @property
    def full_name(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """The settings of a sink connector, as Connect shows them. Debezium's defaults stand for what they leave out.

    Attributes:
        database: postgres, mysql or mariadb.
        namespace: the schema or database of tables where the format names none; "": as `connection.url` says.
        source_database: the one that the source's schemas are in; "": a schema there is a database, as of MySQL.
    """

    settings: Mapping[str, str]
    database: str
    namespace: str = ""
    source_database: str = ""

    def place(self, table: str, topic: str) -> Place:
        """Where the sink connector writes the rows of "schema.table", whose events are in `topic`."""
        schema, _, name = table.partition(".")
        fields = {"table": name, "schema": schema, "db": self.source_database or schema}
        text = self._value("collection.name.format", "${topic}", old="table.name.format")
        text = text.replace("${topic}", topic.replace(".", "_"))
        text = _SOURCE.sub(lambda match: fields.get(match[1], match[0]), text)
        first, dot, rest = text.partition(".")
        place = Place(first, rest) if dot else Place(self._namespace, text)
        return Place(*map(self._written, place))

    @property
    def quotes(self) -> bool:
        """Whether names are written in quotes."""
        return self._flag("quote.identifiers", default=False)

    def column(self, name: str) -> str:
        """The copy's name of a column."""
        return self._written(name)

    def _written(self, name: str) -> str:
        """A name as the database knows it: PostgreSQL makes one that is not quoted lower case."""
        return name if self.quotes or self.database != "postgres" else name.lower()

    @property
    def _namespace(self) -> str:
        if self.namespace:
            return self.namespace
        url = self.settings.get("connection.url", "")
        if self.database == "postgres":
            match = _SCHEMA.search(url)
            return match[1] if match else "public"
        match = _DATABASE.search(url)
        return match[1] if match else ""

    # ---- what can't be put right

    def faults(self) -> Iterator[tuple[str, str]]:
        """(setting, what it means) of all settings with which a wrong row can't be put right through the topics."""
        if other := fault_of_class(self.settings, _CLASS, "Debezium's JDBC sink connector"):
            yield other
            return
        for name, default, right, means in _MUST:
            if (value := self._value(name, default).lower()) not in right:
                yield name, f"{value}: {means}"
        yield from self._transforms()
        for name in _NAMING:
            value = self.settings.get(name, "")
            if value and not value.endswith(_DEFAULT_NAMING):
                yield name, f"{value}: nobody knows what it calls the tables or columns"
        yield from faults_of_tolerance(self.settings)

    def table_faults(self, table: Table, topic: str) -> Iterator[tuple[str, str]]:
        """The same, about one table and its topic."""
        yield from faults_of_reading(self.settings, table, topic)
        if table.keyless:
            yield "primary.key.mode", f"{table.full_name} has no key, so its rows can be neither updated nor deleted"
            return
        fields = names(self.settings.get("primary.key.fields", ""))
        if fields and set(fields) != set(table.key):
            key = ", ".join(table.key)
            yield "primary.key.fields", f"{', '.join(fields)}: the key of {table.full_name} is {key}"

    def _transforms(self) -> Iterator[tuple[str, str]]:
        for name in names(self.settings.get("transforms", "")):
            kind = self.settings.get(f"transforms.{name}.type", "").strip()
            if kind not in _HARMLESS:
                yield f"transforms.{name}.type", f"{kind}: nobody knows what it makes of a record"
            handling = self.settings.get(f"transforms.{name}.delete.tombstone.handling.mode", "tombstone")
            if kind in _UNWRAP and handling == "drop":
                yield f"transforms.{name}.delete.tombstone.handling.mode", "drop: no delete reaches the database"

    def _flag(self, name: str, *, default: bool) -> bool:
        return self._value(name, str(default)).strip().lower() == "true"

    def _value(self, name: str, default: str, old: str = "") -> str:
        return self.settings.get(name) or self.settings.get(old) or default


# setting, Debezium's default, the values that are right, what others mean
_MUST: Final[Sequence[tuple[str, str, frozenset[str], str]]] = (
    ("delete.enabled", "false", frozenset({"true"}), "rows deleted at the source stay in the database"),
    ("insert.mode", "insert", frozenset({"upsert"}), "a row that is there already, or is missing, fails or is skipped"),
    ("primary.key.mode", "none", frozenset({"record_key"}), "rows are not found by the key of the source's table"),
)


def _config(facts: FeederFacts, case: AnyCase) -> SinkConfig:
    sink = case.seen.pipeline.sink
    return SinkConfig(facts.settings, sink.read_as, sink.namespace)


RULES: Final[Rules] = settings_rules(_config, "the sink connector cannot apply corrections")
