"""The systems that a pipeline can consist of, by their names in pipelines.yaml.

A system's package holds its KIND, and is imported when the name is first looked up. Other distributions add systems by
an entry point in the group `airflow_cdc.sources`, `.connectors`, `.transports` or `.sinks` that leads to a KIND.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeVar

from airflow_cdc.core.errors import ConfigError, PositionError
from airflow_cdc.core.kind import AnyKind, ConnectorKind, ControlKind, Named, Reads, SinkKind, SourceKind, TransportKind
from airflow_cdc.core.pipeline import Corrected, Pipeline
from airflow_cdc.core.position import JsonObject, Position

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from airflow_cdc.core.capture import ConfigRules
    from airflow_cdc.core.error_texts import KnownText
    from airflow_cdc.core.problem import Problem, Rules
    from airflow_cdc.core.spark_jars import Need
    from airflow_cdc.decisions.diagnosis.pasted import Voice

K = TypeVar("K", bound=Named, covariant=True)  # noqa: PLC0105


class Kinds(Mapping[str, K]):
    """The kinds of one part of a pipeline, by name. Names are known at once; a kind is loaded when it is looked up.

    A name of this package cannot be taken by another distribution.
    """

    def __init__(self, wing: str, kind: type[K], *names: str) -> None:
        self.wing = wing
        self.type: type[K] = kind
        self.built_in = names

    def __getitem__(self, name: str) -> K:
        """The kind called `name`. Raises KeyError, and ConfigError for an entry point that leads to something else."""
        if name in self.built_in:
            return self._checked(name, import_module(f"airflow_cdc.{self.wing}.{name}").KIND)
        point = _others(self.wing)[name]
        try:
            return self._checked(name, point.load())
        except (ImportError, AttributeError) as error:
            raise self._bad(name, f"cannot be imported: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.built_in, *_others(self.wing))))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in _others(self.wing)

    def _checked(self, name: str, loaded: object) -> K:
        if not isinstance(loaded, self.type):
            raise self._bad(name, f"is no {self.type.__name__}")
        if loaded.name != name:
            raise self._bad(name, f"calls itself {loaded.name!r}")
        return loaded

    def _bad(self, name: str, fault: str) -> ConfigError:
        return ConfigError(
            f"the kind {name!r} {fault}",
            where=f"entry point group airflow_cdc.{self.wing}",
            todo="Upgrade or remove the distribution that declares it.",
        )


@cache
def _others(wing: str) -> Mapping[str, EntryPoint]:
    """The entry points of other distributions, by name. Cached, because searching all installed packages is slow."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=f"airflow_cdc.{wing}")}


SOURCES: Final = Kinds("sources", SourceKind, "mysql", "mariadb", "postgres")
CONNECTORS: Final = Kinds("connectors", ConnectorKind, "debezium", "debezium_engine", "canal", "flink")
TRANSPORTS: Final = Kinds("transports", TransportKind, "kafka", "rabbitmq", "direct")
SINKS: Final = Kinds("sinks", SinkKind, "iceberg", "opensearch", "hudi", "jdbc", "iceberg_changelog", "topics", "none")
CONTROLS: Final = Kinds("controls", ControlKind, "iceberg", "sql")


WINGS: Final[Mapping[str, Kinds[Named]]] = {
    kinds.wing: kinds for kinds in (SOURCES, CONNECTORS, TRANSPORTS, SINKS, CONTROLS)
}


def read_pipeline(value: Mapping[str, object] | str) -> Pipeline:
    """Read a pipeline from its definition as JSON or JSON text. Raises ConfigError."""
    return Pipeline.from_json(value, WINGS.__getitem__)


def kinds_of(pipeline: Pipeline) -> tuple[AnyKind, ...]:
    """The kinds of the pipeline's parts, in the order source, connector, transport, sink."""
    return (
        SOURCES[pipeline.source.kind],
        CONNECTORS[pipeline.connector.kind],
        TRANSPORTS[pipeline.transport.kind],
        SINKS[pipeline.sink.kind],
    )


def titles_of_others(pipeline: Pipeline) -> frozenset[str]:
    """What texts call the kinds of this package that the pipeline has none of."""
    known = {kinds[name].title for kinds in (SOURCES, CONNECTORS, TRANSPORTS, SINKS) for name in kinds.built_in}
    return frozenset(known - {kind.title for kind in kinds_of(pipeline)})


def readable_by(connector: str) -> Mapping[str, Reads]:
    """The kinds of source that a kind of connector reads, by name: those it knows, and those that declare it."""
    others = {name: SOURCES[name].read_by for name in SOURCES if name not in SOURCES.built_in}
    own = {name: by[connector] for name, by in others.items() if connector in by}
    return {**own, **CONNECTORS[connector].reads}


def reads_of(pipeline: Pipeline) -> Reads:
    """The connector's entry for the pipeline's kind of source. Raises KeyError for a pair that the registry refuses."""
    known = CONNECTORS[pipeline.connector.kind].reads.get(pipeline.source.kind)
    return known or SOURCES[pipeline.source.kind].read_by[pipeline.connector.kind]


def no_recovery(pipeline: Pipeline) -> str:
    """Why a pipeline of these kinds can only be diagnosed, not recovered: the parts they lack; "" if it can."""
    source, connector = SOURCES[pipeline.source.kind], CONNECTORS[pipeline.connector.kind]
    if source.reader is None:
        return source.why_unread or f"nothing reads the rows of a {source.title} source: it is diagnosed, not recovered"
    if reads_of(pipeline).decoder is None and pipeline.corrected is not Corrected.BEFORE_START:
        return f"events of {connector.title} about {source.title} are not decoded: it is diagnosed, not recovered"
    if pipeline.corrected is Corrected.THROUGH_TOPICS and not reads_of(pipeline).writes:
        return (
            f"{SINKS[pipeline.sink.kind].title} can only be put right through the topics, and events of {connector.title}"
            f" about {source.title} are not written: it is diagnosed and compared"
        )
    return ""


def config_rules_of(pipeline: Pipeline) -> ConfigRules:
    """The connector's rules for names, keys and values, from the pipeline's kinds."""
    return CONNECTORS[pipeline.connector.kind].config_rules.load()


def jars_for(pipelines: Iterable[Pipeline]) -> tuple[Need, ...]:
    """The jars that Spark needs for these pipelines' kinds in addition to its own, each once."""
    needs: dict[Need, None] = {}
    for pipeline in pipelines:
        sources = filter(None, (pipeline.source.kind, pipeline.sink.read_as))
        lazy = (
            SINKS[pipeline.sink.kind].jars,
            *(SOURCES[name].jars for name in sources),
            TRANSPORTS[pipeline.transport.kind].jars,
        )
        for jars in filter(None, lazy):
            needs |= dict.fromkeys(jars.load())
    return tuple(needs)


def rules_for(pipeline: Pipeline) -> Rules:
    """The rules for this pipeline's diagnosis and plan: the rows that name no system, and those of its parts."""
    from airflow_cdc.core.problem import assemble
    from airflow_cdc.decisions.diagnosis.problems import RULES

    rules = assemble((RULES, *(kind.rules.load() for kind in kinds_of(pipeline) if kind.rules is not None)))
    return replace(rules, no_recovery=no_recovery(pipeline))


def problems_for(pipeline: Pipeline) -> tuple[Problem, ...]:
    """The rows of the diagnosis for this pipeline, in the order of judgement."""
    return rules_for(pipeline).problems


def all_texts() -> tuple[KnownText, ...]:
    """The known error texts of every known system, for a text of unknown origin."""
    kinds = (kind for wing in (SOURCES, CONNECTORS, TRANSPORTS, SINKS) for kind in wing.values())
    rules = (kind.rules.load() for kind in kinds if kind.rules is not None)
    return tuple(dict.fromkeys(text for known in rules for text in known.texts))


def voices() -> tuple[Voice, ...]:
    """How the logs of every known connector read, for a text of unknown origin."""
    lazy = dict.fromkeys(kind.voice for kind in CONNECTORS.values() if kind.voice is not None)
    return tuple(voice.load() for voice in lazy)


def read_position(value: JsonObject) -> Position:
    """A position from JSON, by its kind. Raises PositionError, also for an unknown kind."""
    name = str(value.get("kind"))
    reader = SOURCES[name].read_position if name in SOURCES else None
    if reader is None:
        raise PositionError(
            f"position of {name!r}, a kind of source that is not installed here, or keeps no positions",
            todo="Install the distribution of that kind, as it was when this was stored.",
        )
    return reader.load()(value)
