"""The systems of a run's pipeline as Spark uses them, looked up by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, cast

from airflow_cdc.core.capture import CaptureSettings
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.kind import Lazy
from airflow_cdc.decisions.apply.ddl import Ddl
from airflow_cdc.events.registry import RecordSettings
from airflow_cdc.flows.capture import settings as connector_settings
from airflow_cdc.flows.run import Run
from airflow_cdc.flows.schemas import registry_of
from airflow_cdc.kinds import SINKS, SOURCES, TRANSPORTS, reads_of
from airflow_cdc.spark_apps.driver.throttle import Gate, throttled
from airflow_cdc.spark_apps.ports import (
    Bounds,
    DeadLetters,
    EventDecoder,
    FoldsLog,
    LooksExactly,
    ReadDdl,
    ReadFew,
    ReadsFew,
    ReadsHeaders,
    RowReader,
    StageWriter,
    TableKeeper,
    TopicReader,
)

# Reads are held back for this share of policy.max_duration: at its end the task's own limit ends Spark without a reason.
HELD_BACK = 0.9
# How many ranges of a schema-change topic a batch keeps.
KEPT_RANGES = 8


@dataclass(frozen=True, slots=True)
class Systems:
    """What an application works with: the source's rows, the connector's events, the topics they are in, the stages."""

    reader: RowReader
    events: EventDecoder
    topics: TopicReader
    writer: StageWriter
    letters: DeadLetters

    @property
    def few(self) -> ReadFew | None:
        """Reads few records in memory; None where the transport can't."""
        return self.topics.few if isinstance(self.topics, ReadsFew) else None


def open_systems(run: Run) -> Systems:
    """The systems of the run's pipeline.

    Raises ConfigError where there is no adapter for a kind, or the connector's settings are not supported; UsageError where
    there are no events.
    """
    pipeline, clients = run.pipeline, run.clients
    pipeline.check_applied("this task")
    capture = connector_settings(run)
    sink = SINKS[pipeline.sink.kind]
    letters = _load(sink.letters, f"keeps dead letters in {sink.name}", run)
    return Systems(
        row_reader(run, capture=capture),
        _events(run, capture),
        _topics(run, capture),
        stage_writer(run),
        letters(clients.sink, pipeline.name),
    )


@dataclass(frozen=True, slots=True)
class TopicSystems:
    """What an application works with where others write the tables: the source's rows, the events, the topics."""

    reader: RowReader
    events: EventDecoder
    topics: TopicReader

    @property
    def few(self) -> ReadFew | None:
        """As Systems.few."""
        return self.topics.few if isinstance(self.topics, ReadsFew) else None


def open_topics(run: Run) -> TopicSystems:
    """The systems of a pipeline whose tables others write from the topics. Raises ConfigError as open_systems does."""
    capture = connector_settings(run)
    return TopicSystems(row_reader(run, capture=capture), _events(run, capture), _topics(run, capture))


def _events(run: Run, capture: CaptureSettings) -> EventDecoder:
    what = f"reads events of {run.pipeline.connector.kind} about such a source"
    decoder = _load(reads_of(run.pipeline).decoder, what, run)
    registry = registry_of(run, capture)
    made: EventDecoder = decoder(capture) if registry is None else decoder(capture, registry.texts)
    return made


def _topics(run: Run, capture: CaptureSettings) -> TopicReader:
    """Raises ConfigError for a transport whose records are read without the headers that the connector's need."""
    kind = TRANSPORTS[run.pipeline.transport.kind]
    reader: TopicReader = _load(kind.reader, f"reads events in {kind.name}", run)(run.clients.transport)
    if not isinstance(capture, RecordSettings) or not capture.headers:
        return reader
    if not isinstance(reader, ReadsHeaders):
        raise ConfigError(
            f"the connector writes parts of its records into headers, and records in {kind.title} are read without them",
            where=run.where,
            todo="Let it write them into the records: apicurio.registry.headers.enabled=false, add.fields for add.headers.",
        )
    return reader.with_headers()


def row_reader(run: Run, each: int | None = None, capture: CaptureSettings | None = None) -> RowReader:
    """The reader of the source's rows, as policy.throttle allows. Raises ConfigError if there is none for this source.

    `each`: on how many connections a table is read at a time, if several tables are; by default on all that are allowed.
    `capture`: for comparisons: where the connector's events do not show the rows before changes, its views are exact.
    """
    kind, source, policy = run.pipeline.source.kind, run.clients.source, run.pipeline.policy
    reader: RowReader = _load(SOURCES[kind].reader, f"reads rows of a {kind} source", run)(source)
    if capture is not None and _hides_before(capture) and isinstance(reader, LooksExactly):
        reader = reader.with_exact_views()
    gate = Gate(source.load, policy.throttle, HELD_BACK * policy.max_duration, run.where)
    return throttled(reader, gate, each or policy.throttle.connections or None)


def copy_reader(run: Run) -> RowReader:
    """The reader of tables that a sink connector fills. Raises ConfigError if there is none for their database."""
    kind = SOURCES[run.pipeline.sink.read_as]
    reader: RowReader = _load(kind.copies, f"reads copies in {kind.title}", run)(cast("Any", run.clients.sink).database)
    return reader


def log_reader(run: Run) -> FoldsLog:
    """The reader of logs that a sink connector appends to. Raises ConfigError if there is none for this kind of sink."""
    sink = SINKS[run.pipeline.sink.kind]
    folds = _load(sink.folds, f"reads logs in {sink.name}", run)
    reader: FoldsLog = folds(run.clients.sink, _events(run, connector_settings(run)))
    return reader


def _hides_before(capture: CaptureSettings) -> bool:
    return isinstance(capture, RecordSettings) and not capture.shows_before


def stage_writer(run: Run) -> StageWriter:
    """The writer of the sink's stages. Raises ConfigError if there is none for this kind of sink."""
    sink = SINKS[run.pipeline.sink.kind]
    writer: StageWriter = _load(sink.stages, f"writes stages in {sink.name}", run)(run.clients.sink)
    return writer


def table_keeper(run: Run) -> TableKeeper:
    """The maintainer of the sink's tables. Raises ConfigError if there is none for this kind of sink."""
    sink = SINKS[run.pipeline.sink.kind]
    keeper: TableKeeper = _load(sink.keeper, f"tidies up tables in {sink.name}", run)(run.clients.sink)
    return keeper


def ddl_reader(run: Run, events: EventDecoder) -> ReadDdl:
    """The reader of the statements in a schema-change topic.

    The tables of a batch are applied side by side, most of them from the same place: what one of them has read is kept
    for the others.
    """
    reading = Lock()

    @lru_cache(maxsize=KEPT_RANGES)
    def kept(topic: str, bounds: frozenset[tuple[int, tuple[int, int]]]) -> Sequence[Ddl]:
        transport = run.clients.transport
        return events.statements(transport.records(topic, dict(bounds)), f"{transport.where}, topic {topic}")

    def read(topic: str, bounds: Bounds) -> Sequence[Ddl]:
        with reading:
            return kept(topic, frozenset(bounds.items()))

    return read


def _load(lazy: Lazy[Callable[..., object]] | None, what: str, run: Run) -> Callable[..., Any]:
    if lazy is None:
        raise ConfigError(f"nothing {what} with Spark", where=run.where, todo="Such a pipeline is only diagnosed.")
    factory: Callable[..., Any] = lazy.load()
    return factory
