"""pipelines.yaml: read, checked, and turned into pipelines. Every error names file, pipeline, key and remedy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from airflow_cdc.core.errors import ConfigError, UsageError
from airflow_cdc.core.pipeline import Corrected, Pipeline, Writer
from airflow_cdc.core.settings import Reader, connections, either, nearest
from airflow_cdc.kinds import CONNECTORS, SINKS, SOURCES, TRANSPORTS, WINGS, readable_by


def load_registry(path: str | Path, *, connection_exists: Callable[[str], bool] | None = None) -> dict[str, Pipeline]:
    """The pipelines of a registry file, by name, in the file's order.

    `connection_exists`, if given, is called with each connection id in the file. Raises ConfigError
    for the first error, naming file, pipeline, key, and what to write instead.
    """
    where = str(path)
    pipelines = parse_registry(_read(Path(path), where), where)
    if connection_exists is not None:
        _check_connections(pipelines, where, connection_exists)
    return pipelines


def parse_registry(text: str, where: str) -> dict[str, Pipeline]:
    """The pipelines of a registry's text; see `load_registry`."""
    declared = read_each(text, where)
    for error in declared.errors.values():
        raise error
    return dict(declared)


class Declared(dict[str, Pipeline]):
    """The pipelines of a registry that are declared well, by name, and the `errors` of the others, by theirs.

    One wrong key in one pipeline must not stop the watch and the applies of two hundred others.
    """

    def __init__(
        self, pipelines: Mapping[str, Pipeline], errors: Mapping[str, ConfigError] = MappingProxyType({})
    ) -> None:
        super().__init__(pipelines)
        self.errors = dict(errors)


def read_each(text: str, where: str) -> Declared:
    """Each pipeline of a registry's text, or its error. Raises ConfigError for a text in which none can be found."""
    pipelines, errors = dict[str, Pipeline](), dict[str, ConfigError]()
    for name, raw in _declared(_document(text, where), where).items():
        try:
            pipelines[name] = _pipeline(name, raw, where, text)
        except ConfigError as error:
            errors[name] = error
    clashes = dict(_clashes(pipelines, where))
    good = {name: pipeline for name, pipeline in pipelines.items() if name not in clashes}
    return Declared(good, errors | clashes)


def load_unchanged(path: Path) -> Declared:
    """Each pipeline or its error, parsed again only when the file has changed; no pipelines if there is no file.

    Raises ConfigError for a file in which none can be found.
    """
    if not path.exists():
        return Declared({})
    stat = path.stat()
    return _loaded(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=2)
def _loaded(path: str, _mtime: int, _size: int) -> Declared:
    return read_each(_read(Path(path), path), path)


def find_declared(path: Path, name: str) -> Pipeline:
    """The pipeline of that name, whatever is wrong with others. Raises ConfigError or UsageError."""
    return get_pipeline(read_each(_read(path, str(path)), str(path)), name, where=str(path))


def get_pipeline(pipelines: Mapping[str, Pipeline], name: str, *, where: str = "") -> Pipeline:
    """The pipeline called `name`. Raises its own ConfigError, or UsageError naming the most similar one, or all."""
    if name in pipelines:
        return pipelines[name]
    if isinstance(pipelines, Declared) and name in pipelines.errors:
        raise pipelines.errors[name]
    raise UsageError(f"there is no pipeline {name!r}", where=where, todo=nearest(name, pipelines))


# the C parser reads 200 pipelines in a fifth of the time
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UniqueKeys(_Loader):  # type: ignore[misc, valid-type]
    """Rejects duplicate keys: YAML silently keeps the last of them, which here would drop a pipeline."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError) as error:  # 2026-02-30; 5,000 digits; !!int x
            said = f"{str(node.value)[:60]!r} is no value of its type: {error}"
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        keys: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # the base class reports the error
            if key in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} appears twice", key_node.start_mark
                )
            keys.add(key)
        mapping: dict[Hashable, object] = super().construct_mapping(node, deep)
        return mapping


def _read(path: Path, where: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            "the registry does not exist", where=where, todo="Create it, or set `[cdc] registry` to its path."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the registry cannot be read: {type(error).__name__}",
            where=where,
            todo="Save it as UTF-8 text that Airflow's user may read.",
        ) from None


def _document(text: str, where: str) -> object:
    try:
        return yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - derived from SafeLoader
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, where) from None
    except RecursionError:
        raise ConfigError(
            "the registry is nested too deeply", where=where, todo="Write it like the template."
        ) from None
    except yaml.YAMLError:
        raise ConfigError("the registry is not YAML", where=where, todo="Save it as UTF-8 text.") from None


def _not_yaml(error: yaml.MarkedYAMLError, where: str) -> ConfigError:
    mark = error.problem_mark
    line = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return ConfigError(f"the registry is not YAML: {error.problem}", where=f"{where}{line}", todo="Correct that line.")


def _declared(document: object, where: str) -> dict[str, object]:
    if not isinstance(document, Mapping) or not isinstance(document.get("pipelines"), Mapping):
        raise ConfigError("it has no mapping `pipelines`", where=where, todo="Begin the file with `pipelines:`.")
    if extra := [str(key) for key in document if key != "pipelines"]:
        raise ConfigError(
            f"unknown key {extra[0]!r}", where=where, todo="The only allowed top-level key is `pipelines`."
        )
    if not document["pipelines"]:
        raise ConfigError("`pipelines` is empty", where=where, todo="Declare at least one pipeline.")
    return {str(name): raw for name, raw in document["pipelines"].items()}


def _lines(text: str, pipeline: str) -> Mapping[tuple[str, ...], int]:
    """The line of each key of a pipeline, by its path, for an error about it."""
    lines: dict[tuple[str, ...], int] = {}

    def walk(node: yaml.Node | None, path: tuple[str, ...]) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                lines[*path, str(key.value)] = key.start_mark.line + 1
                walk(value, (*path, str(key.value)))

    walk(yaml.compose(text, Loader=_Loader), ())
    return {path[2:]: line for path, line in lines.items() if path[:2] == ("pipelines", pipeline)}


def _pipeline(name: str, raw: object, where: str, text: str) -> Pipeline:
    at = f"{where}, pipeline {name!r}"
    if not name.isascii() or not name.replace("_", "a").isalnum() or not name[0].isalpha():
        raise ConfigError(
            "the pipeline's name is invalid",
            where=at,
            todo="It must begin with a letter and may contain letters, digits and _.",
        )
    reader = Reader(WINGS.__getitem__)
    pipeline = reader.settings(Pipeline, raw, name=name)
    if pipeline is None:
        raise _fault(reader, at, _lines(text, name))
    _check_parts(pipeline, at)
    _check_control(pipeline, at)
    _check_backfill(pipeline, at)
    if pipeline.spark.mode == "connect":
        _check_remote(pipeline, at)
    return pipeline


def _fault(reader: Reader, at: str, lines: Mapping[tuple[str, ...], int]) -> ConfigError:
    first, *others = reader.faults
    key = first.key or "the pipeline"
    more = f" (and {len(others)} more)" if others else ""
    path = tuple(first.key.partition("[")[0].split(".")) if first.key else ()
    line = next((lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in lines), None)
    place = f"{at}, key {key}" + (f", line {line}" if line else "")
    return ConfigError(f"{key} {first.what}{more}", where=place, todo=first.todo)


def _check_parts(pipeline: Pipeline, at: str) -> None:
    """Check that the connector reads this kind of source and writes to this kind of transport."""
    source, connector, transport = pipeline.source.kind, pipeline.connector.kind, pipeline.transport.kind
    kind = CONNECTORS[connector]
    if source not in kind.reads and connector not in SOURCES[source].read_by:
        others = [name for name in CONNECTORS if source in readable_by(name)]
        unread = f"{kind.title} does not read {SOURCES[source].title}"
        raise _no_pair("source.kind", unread, at, readable_by(connector), others)
    if transport not in kind.through:
        others = [name for name, other in CONNECTORS.items() if transport in other.through]
        written = f"{kind.title} does not write to {TRANSPORTS[transport].title}"
        raise _no_pair("transport.kind", written, at, kind.through, others)

    fed_by = SINKS[pipeline.sink.kind].fed_by
    if pipeline.sink.feeder and connector not in fed_by:
        fault = (
            f"{SINKS[pipeline.sink.kind].title} needs a sink connector beside the connector, and {kind.title} has none"
        )
        raise _no_pair("connector.kind", fault, at, fed_by, [])

    events = TRANSPORTS[transport].reader is not None
    if not events and pipeline.has_sink and pipeline.corrected is not Corrected.BEFORE_START:
        raise ConfigError(
            f"with transport.kind {transport} there are no events to apply to a sink",
            where=f"{at}, key sink",
            todo="If the connector writes these tables, say so: `writer: connector`. Else leave `sink` out: such a pipeline is"
            " diagnosed, watched, held and has its position moved.",
        )
    if events and pipeline.corrected is Corrected.BEFORE_START:
        raise ConfigError(
            f"the connector writes to transport.kind {transport}, not to the sink",
            where=f"{at}, key sink.writer",
            todo=f"Leave `writer` out: {Writer.CDC_APPLY} writes the tables.",
        )


def _check_control(pipeline: Pipeline, at: str) -> None:
    """Check that there is a store for the lease, the open recovery and the ledger."""
    kind = SINKS[pipeline.sink.kind]
    if pipeline.control is None and kind.control is None:
        raise ConfigError(
            "control is missing: "
            + ("a pipeline without a sink" if not pipeline.has_sink else f"a sink in {kind.title}")
            + " keeps its own state elsewhere",
            where=f"{at}, key control",
            todo="Add `control: {kind: sql, conn_id: …}`: a database for it.",
        )


def _no_pair(key: str, what: str, at: str, fitting: Iterable[str], connectors: Sequence[str]) -> ConfigError:
    instead = f", or connector.kind {either(connectors)}" if connectors else ""
    return ConfigError(what, where=f"{at}, key {key}", todo=f"Write {either(fitting)}{instead}.")


def _check_backfill(pipeline: Pipeline, at: str) -> None:
    captured = pipeline.source.tables
    if unknown := [spec.table for spec in pipeline.backfill if spec.table not in captured]:
        raise ConfigError(
            f"backfill names {unknown[0]}, which is not among source.tables",
            where=f"{at}, key backfill",
            todo=nearest(unknown[0], captured),
        )


def _check_remote(pipeline: Pipeline, at: str) -> None:
    """Check that nothing needs a Spark of its own, which a Spark Connect server is not."""
    sink, spark = SINKS[pipeline.sink.kind], pipeline.spark
    needs = {
        "spark.python": spark.python and "spark.python starts a Spark of its own",
        "sink.kind": sink.spark and f"{sink.title} is written by Spark {sink.spark} in another environment",
        "apply.mode": pipeline.apply.continuous and "a continuous apply keeps a Spark of its own",
    }
    for key, fault in needs.items():
        if fault:
            what = f"{fault}, which does not go with spark.mode: connect (experimental)"
            raise ConfigError(what, where=f"{at}, key {key}", todo="Leave spark.mode out, or change that key.")


def _clashes(pipelines: Mapping[str, Pipeline], where: str) -> Iterator[tuple[str, ConfigError]]:
    """Two sources for one sink table and two pipelines for one connector, which would undo each other's work: the later one's error."""
    owners: dict[tuple[str, ...], str] = {}
    for name, pipeline in pipelines.items():
        claims = [("source.tables", "sink table", place, table) for table, place in _sink_tables(pipeline)]
        connector = (pipeline.connector.conn_id, pipeline.connector.name)
        for key, thing, claim, value in [*claims, ("connector.name", "connector", connector, pipeline.connector.name)]:
            lowered = tuple(part.lower() for part in (thing, *claim))
            if lowered in owners:
                yield (
                    name,
                    ConfigError(
                        f"{value!r} leads to the {thing} {'.'.join(claim)}, which pipeline {owners[lowered]!r} already has",
                        where=f"{where}, pipeline {name!r}, key {key}",
                        todo="Remove it here, or give one of the tables another target.",
                    ),
                )
                break
            owners[lowered] = name


def _sink_tables(pipeline: Pipeline) -> list[tuple[str, tuple[str, ...]]]:
    """Each table with its place in the sink; none without a sink, or where that is only the topics of its own connector."""
    if not pipeline.has_sink or pipeline.sink.writer == Writer.CONSUMERS:
        return []
    return [(table, (pipeline.sink.where, pipeline.sink_table(table))) for table in pipeline.source.tables]


def _check_connections(pipelines: Mapping[str, Pipeline], where: str, exists: Callable[[str], bool]) -> None:
    for name, pipeline in pipelines.items():
        for key, conn_id in connections(pipeline).items():
            if not exists(conn_id):
                raise ConfigError(
                    f"there is no Airflow connection {conn_id!r}",
                    where=f"{where}, pipeline {name!r}, key {key}",
                    todo=f"Add it with `airflow connections add {conn_id}`, or use another one.",
                )
