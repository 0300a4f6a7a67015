"""What sinks have in common that a sink connector of Kafka Connect fills from the topics, whoever made it."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.diagnosis.feeder_rows import Judged


def names(text: str) -> tuple[str, ...]:
    """The names of a list in a setting."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def matches(pattern: str, text: str) -> bool:
    """Whether one of Java's patterns describes the whole text; what Python can't read may."""
    try:
        return re.fullmatch(pattern, text) is not None
    except re.error:
        return True


def reads(settings: Mapping[str, str], topic: str) -> bool:
    """Whether a sink connector of these settings consumes a topic."""
    pattern = settings.get("topics.regex", "")
    return topic in names(settings.get("topics", "")) or (bool(pattern) and matches(pattern, topic))


def fault_of_class(settings: Mapping[str, str], of: str, name: str) -> tuple[str, str] | None:
    """(setting, what it means) where the connector is not of the class `of`: nothing can be said of its other settings.

    Connect takes a class by its name alone, too, and without "Connector".
    """
    kind, simple = settings.get("connector.class", "").strip(), of.rpartition(".")[2]
    if kind in {of, simple, simple.removesuffix("Connector")}:
        return None
    return "connector.class", f"{kind or 'nothing'}: only {name} can be followed"


def faults_of_reading(settings: Mapping[str, str], table: Table, topic: str) -> Iterator[tuple[str, str]]:
    """(setting, what it means) where the sink connector does not consume the topic of a table."""
    if not reads(settings, topic):
        yield "topics", f"{topic} of {table.full_name} is not among them"


def faults_of_tolerance(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(setting, what it means) where records that cannot be written leave no trace."""
    skips = settings.get("errors.tolerance", "none").strip().lower() == "all"
    if skips and not settings.get("errors.deadletterqueue.topic.name"):
        yield (
            "errors.tolerance",
            "all, without a dead-letter queue: records that it cannot write are skipped silently",
        )


class FedSink(Protocol):
    """The parts of core.ports.Sink that are the same for all such sinks: we read their tables and never write to them."""

    @property
    def staging(self) -> None:
        """None: only the sink connector writes the tables."""
        return

    @property
    def letters(self) -> None:
        """None: what cannot be written is the sink connector's own affair."""
        return

    @abstractmethod
    def config(self) -> Judged:
        """The sink connector's settings. Raises ConnectorError."""
        ...

    def faults(self, definitions: Mapping[str, Table], topics: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """(setting, what it means) of what keeps wrong rows from being put right. `topics`: table → its topic."""
        config = self.config()
        yield from config.faults()
        for name, table in definitions.items():
            yield from config.table_faults(table, topics[name])
