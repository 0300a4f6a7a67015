"""pipelines.yaml: read, checked, and turned into pipelines. Every fault names file, pipeline, key and cure."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from airflow_cdc.core.duration import parse_duration
from airflow_cdc.core.errors import ConfigError, UsageError
from airflow_cdc.core.pipeline import Limit, Pipeline

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=100)]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
# a name with a dot in it could not be told from schema.table; one with a comma not in the connector's own lists
_PART = r"[^.,\x00-\x20](?:[^.,\x00-\x1f]*[^.,\x00-\x20])?"
DURATION = "duration: 45s, 30m, 2h, 1d or seconds"
LIMIT = "number of rows, or a share such as 1%"
TableName = Annotated[str, StringConstraints(pattern=rf"^{_PART}\.{_PART}$")]

# What pydantic's error types mean to the author of the file. The offending value is only shown where a
# fixed set of words is allowed: anything else might be a credential in the wrong place.
_TOLD: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not a key here",
    "string_type": "must be text",
    "string_too_short": "is empty",
    "string_pattern_mismatch": "is not written as it must be",
    "literal_error": "is not one of the allowed words",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "too_short": "is empty",
    "model_type": "must be a mapping of keys",
    "model_attributes_type": "must be a mapping of keys",
}
_PATTERNS: Mapping[str, str] = {
    "tables": "Write each table as schema.table, such as shop.orders.",
    "namespace": "Write a name of letters, digits and _, such as shop.",
    "catalog": "Write a name of letters, digits and _, such as lake.",
}


def _seconds(value: object) -> int:
    return _or_value_error(parse_duration, value)


def _limit(value: object) -> str:
    return str(_or_value_error(Limit.parse, value))


def _word(value: object) -> object:
    return "off" if value is False else value  # YAML reads a bare `off` as false


def _day(value: object) -> str:
    if not value or isinstance(value, dt.date):  # YAML reads a bare date as one
        return str(value or "")
    try:
        return str(dt.date.fromisoformat(str(value)))
    except ValueError:
        raise ValueError("it is not a day|Write one like 2026-01-31.") from None


def _some(value: object) -> object:
    return [value] if isinstance(value, Mapping) else value  # one table needs no list


T = TypeVar("T")


def _or_value_error(parse: Callable[[Any], T], value: object) -> T:
    try:
        return parse(value)
    except ConfigError as error:
        raise ValueError(f"{error.what}|{error.todo}") from None


Seconds = Annotated[int, BeforeValidator(_seconds), WithJsonSchema({"type": ["string", "integer"], "title": DURATION})]
Share = Annotated[str, BeforeValidator(_limit), WithJsonSchema({"type": ["string", "integer"], "title": LIMIT})]


def key(description: str, **more: Any) -> Any:
    """A key of pipelines.yaml, with what the configuration reference says of it."""
    return Field(description=description, **more)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Source(_Strict):
    kind: Literal["mysql"] = key(
        "What the source is. A MariaDB server is one of these too: it is diagnosed, not recovered."
    )
    conn_id: Text = key("Airflow connection (`cdc_mysql` or `mysql`) of the server that the connector reads.")
    tables: Annotated[list[TableName], Field(min_length=1)] = key(
        "The mirrored tables, as `schema.table`; each becomes `<namespace>.<table>` in the sink."
    )
    replicas: list[Text] = key(
        "Connections of replicas where the connector may read for a while what the source has purged (GTID only).",
        default=[],
    )


class _Connector(_Strict):
    kind: Literal["debezium"] = key("What the connector is.")
    conn_id: Text = key("Airflow connection (`kafka_connect` or `http`) of Kafka Connect's REST interface.")
    name: Text = key("The connector's name there.")


class _Transport(_Strict):
    kind: Literal["kafka"] = key("What carries the events.")
    conn_id: Text = key("Airflow connection (`cdc_kafka` or `kafka`) of the brokers.")


class _Sink(_Strict):
    kind: Literal["iceberg"] = key("What the sink tables are.")
    catalog: Name = key(
        "Name of the Iceberg catalog, which is also the id of the Airflow connection that describes it."
    )
    namespace: Name = key("Namespace of the sink tables.")
    writer: Literal["cdc_apply"] = key(
        "Who writes the sink tables: the DAG `cdc_apply__<pipeline>`.", default="cdc_apply"
    )


class _Spark(_Strict):
    conn_id: Text = key("Airflow connection (`spark`) of the Spark master.", default="spark_default")


class _Hold(_Strict):
    mode: Annotated[Literal["auto", "required", "off"], BeforeValidator(_word)] = key(
        "Whether a recovery keeps the source's log from being purged meanwhile: where it can, always, or never.",
        default="auto",
    )
    max: Seconds = key("Let go of the log after so long, however far the recovery is.", default=7200)


class _Alert(_Strict):
    repeat_interval: Seconds = key("Tell again of an outage that lasts so long.", default=14400)
    unknown_for: Seconds = key("Tell of a pipeline that could not be read for so long.", default=900)
    keep_firing_for: Seconds = key("An outage is over once nothing was wrong for so long.", default=300)


class _Policy(_Strict):
    approval: Literal["always", "when_destructive", "never"] = key(
        "When a person is asked before anything is changed.", default="when_destructive"
    )
    approval_timeout: Seconds = key("No answer within this time is a Reject.", default=7200)
    warn_before_purge: Seconds = key("Warn when the stored position may be purged in less than this.", default=21600)
    recover_automatically: bool = key("Start a recovery as soon as a lost position is seen.", default=False)
    max_deletes: Share = key("Removing more of a sink table's rows than this is destructive.", default="1%")
    max_duration: Seconds = key(
        "How long reading the source may take, where it is not known from before.", default=21600
    )
    max_lag: Seconds = key("An event that waits in its topic for so long means that the sink is behind.", default=3600)
    standstill: Seconds = key("Give up waiting for a connector that has not moved for so long.", default=600)
    publish: Literal["all", "each"] = key(
        "Publish nothing before all tables are verified, or each table as soon as it is.", default="all"
    )
    hold: _Hold = key("Keeping the source's log during a recovery.", default=_Hold())
    repair: Literal["approved", "automatic"] = key(
        "Whether a person is asked before rows that a night found wrong are rewritten.", default="approved"
    )
    schema_change: Literal["reread", "stop"] = key(
        "After DDL that events do not carry: read the table again by itself, or leave it to a person.", default="reread"
    )
    reread_limit: Annotated[int, Field(ge=0)] = key(
        "A table of more rows than this is not read again by itself.", default=10_000_000
    )
    report_rows: bool = key(
        "Keep both rows of the first keys that differ beside a report, or the keys alone.", default=True
    )
    set_converter: bool = key(
        "Let a recovery set `replace.null.with.default=false` on the connector, for good, where a column needs it.",
        default=True,
    )
    notify: list[Text] = key('Who is told: ids of HTTP connections, webhooks that take `{"text": …}`.', default=[])
    alert: _Alert = key("When people are told of an outage again, and of what cannot be read.", default=_Alert())


class _Backfill(_Strict):
    table: TableName = key("The table, one of `source.tables`.")
    by: Text = key("The column that says to which day a row belongs. Alone: a DATE, DATETIME or TIMESTAMP (UTC).")
    format: str = key("The column holds the day's name, written so (strftime), such as `%Y%m%d`.", default="")
    step: Annotated[int, Field(ge=0)] = key("A day has so many keys, counted from 0 at `origin`.", default=0)
    origin: Annotated[str, BeforeValidator(_day)] = key("The day of key 0, as 2026-01-31.", default="")


class _Pipeline(_Strict):
    source: _Source = key("The server that is mirrored.")
    connector: _Connector = key("What reads the source's log.")
    transport: _Transport = key("The topics between connector and sink.")
    sink: _Sink = key("The tables that mirror the source.")
    spark: _Spark = key("Where Spark runs.", default=_Spark())
    policy: _Policy = key("What the pipeline's owners allow.", default=_Policy())
    backfill: Annotated[list[_Backfill], BeforeValidator(_some)] = key(
        "How `cdc_backfill__<pipeline>` cuts tables into days: one such mapping, or a list of them.", default=[]
    )


def pipeline_schema() -> dict[str, Any]:
    """JSON Schema of one pipeline: every key with type, default and description."""
    return _Pipeline.model_json_schema()


def load_registry(path: str | Path, *, connection_exists: Callable[[str], bool] | None = None) -> dict[str, Pipeline]:
    """The pipelines of a registry file, by name, in the file's order.

    `connection_exists`, where given, is asked for each connection id the file names. Raises ConfigError
    for the first fault, naming file, pipeline, key, and what to write instead.
    """
    where = str(path)
    declared = _declared(_read(Path(path), where), where)
    pipelines = {name: _pipeline(name, raw, where) for name, raw in declared.items()}
    _check_combinations(pipelines, where)
    if connection_exists is not None:
        _check_connections(pipelines, where, connection_exists)
    return pipelines


def load_unchanged(path: Path) -> dict[str, Pipeline]:
    """As `load_registry`, parsed again only when the file has changed; no pipelines where there is no file."""
    if not path.exists():
        return {}
    found = path.stat()
    return dict(_loaded(str(path), found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=2)
def _loaded(path: str, _mtime: int, _size: int) -> dict[str, Pipeline]:
    return load_registry(path)


def get_pipeline(pipelines: Mapping[str, Pipeline], name: str, *, where: str = "") -> Pipeline:
    """The pipeline called `name`. Raises UsageError naming the nearest one, or all."""
    if name in pipelines:
        return pipelines[name]
    raise UsageError(f"there is no pipeline {name!r}", where=where, todo=_nearest(name, pipelines))


# the parser in C reads 200 pipelines in a fifth of the time
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UniqueKeys(_Loader):  # type: ignore[misc, valid-type]
    """YAML keeps the last of two equal keys in silence: here that would drop a pipeline."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # the parent says what is wrong with it
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        made: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return made


def _read(path: Path, where: str) -> object:
    try:
        with path.open(encoding="utf-8") as file:
            return yaml.load(file, Loader=_UniqueKeys)  # noqa: S506 - derived from SafeLoader
    except FileNotFoundError:
        raise ConfigError(
            "the registry does not exist", where=where, todo="Write it, or point `[cdc] registry` at it."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the registry cannot be read: {type(error).__name__}", where=where) from None
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, where) from None
    except yaml.YAMLError:
        raise ConfigError("the registry is not YAML", where=where, todo="Save it as UTF-8 text.") from None


def _not_yaml(error: yaml.MarkedYAMLError, where: str) -> ConfigError:
    mark = error.problem_mark
    line = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return ConfigError(f"the registry is not YAML: {error.problem}", where=f"{where}{line}", todo="Correct that line.")


def _declared(document: object, where: str) -> dict[str, object]:
    if not isinstance(document, Mapping) or not isinstance(document.get("pipelines"), Mapping):
        raise ConfigError("there is no mapping `pipelines`", where=where, todo="Begin the file with `pipelines:`.")
    if extra := [str(key) for key in document if key != "pipelines"]:
        raise ConfigError(
            f"unknown key {extra[0]!r}", where=where, todo="Only `pipelines` may stand at the top of the file."
        )
    if not document["pipelines"]:
        raise ConfigError("`pipelines` is empty", where=where, todo="Declare at least one pipeline.")
    return {str(name): raw for name, raw in document["pipelines"].items()}


def _pipeline(name: str, raw: object, where: str) -> Pipeline:
    at = f"{where}, pipeline {name!r}"
    if not name.isascii() or not name.replace("_", "a").isalnum() or not name[0].isalpha():
        raise ConfigError(
            "a pipeline's name is not usable", where=at, todo="Begin with a letter; use letters, digits, _."
        )
    try:
        model = _Pipeline.model_validate(raw)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise _fault(faults[0], len(faults) - 1, at) from None
    pipeline = Pipeline.from_json({"name": name, **model.model_dump()})
    _check_replicas(pipeline, at)
    _check_backfill(pipeline, at)
    return pipeline


def _check_replicas(pipeline: Pipeline, at: str) -> None:
    if pipeline.source.conn_id in pipeline.source.replicas:
        raise ConfigError(
            "source.replicas names the source itself",
            where=f"{at}, key source.replicas",
            todo="Name connections of its replicas, or leave the key out.",
        )


def _check_backfill(pipeline: Pipeline, at: str) -> None:
    captured = pipeline.source.tables
    if unknown := [spec.table for spec in pipeline.backfill if spec.table not in captured]:
        raise ConfigError(
            f"backfill names {unknown[0]}, which is not among source.tables",
            where=f"{at}, key backfill",
            todo=_nearest(unknown[0], captured),
        )


def _fault(fault: ErrorDetails, others: int, at: str) -> ConfigError:
    keys = [str(part) for part in fault["loc"] if not isinstance(part, int)]
    key = ".".join(keys) or "the pipeline"
    what, todo = _told(fault, keys)
    more = f" (and {others} more)" if others else ""
    return ConfigError(f"{key} {what}{more}", where=f"{at}, key {key}", todo=todo)


def _told(fault: ErrorDetails, keys: list[str]) -> tuple[str, str]:
    kind, leaf = fault["type"], keys[-1] if keys else ""
    if kind == "value_error":
        what, _, todo = str(fault["ctx"]["error"]).partition("|")
        return f"cannot be read: {what}", todo
    if kind == "extra_forbidden":
        return _TOLD[kind], _nearest(leaf, _keys_at(keys[:-1]))
    if kind == "literal_error":
        return f"{_TOLD[kind]}: {str(fault['input'])[:40]!r}", f"Write {fault['ctx']['expected']}."
    if kind == "missing":
        return _TOLD[kind], f"Add `{leaf}:` to {'.'.join(keys[:-1]) or 'the pipeline'}."
    return _TOLD.get(kind, fault["msg"].lower()), _PATTERNS.get(leaf, f"Correct `{leaf}`." if leaf else "")


def _keys_at(path: list[str]) -> Iterable[str]:
    model: type[BaseModel] = _Pipeline
    for part in path:
        annotation = model.model_fields[part].annotation
        inner = next(iter(get_args(annotation)), annotation)  # of a list: what stands in it
        if not isinstance(inner, type) or not issubclass(inner, BaseModel):
            return ()
        model = inner
    return model.model_fields


def _nearest(word: str, known: Iterable[str]) -> str:
    words = list(known)
    close = difflib.get_close_matches(word, words, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Write one of: {', '.join(words) or 'none'}."


def _check_combinations(pipelines: Mapping[str, Pipeline], where: str) -> None:
    """Two sources for one sink table, or two pipelines for one connector, would undo each other's work."""
    owners: dict[tuple[str, ...], str] = {}
    for name, pipeline in pipelines.items():
        claims = [
            (
                "source.tables",
                "sink table",
                (pipeline.sink.catalog, pipeline.sink.namespace, pipeline.sink_table(table)),
                table,
            )
            for table in pipeline.source.tables
        ]
        connector = (pipeline.connector.conn_id, pipeline.connector.name)
        for key, thing, claim, said in [*claims, ("connector.name", "connector", connector, pipeline.connector.name)]:
            lowered = tuple(part.lower() for part in (thing, *claim))
            if lowered in owners:
                raise ConfigError(
                    f"{said!r} leads to the {thing} {'.'.join(claim)}, which pipeline {owners[lowered]!r} already has",
                    where=f"{where}, pipeline {name!r}, key {key}",
                    todo="Remove it here, or give one of them another target.",
                )
            owners[lowered] = name


def _check_connections(pipelines: Mapping[str, Pipeline], where: str, exists: Callable[[str], bool]) -> None:
    for name, pipeline in pipelines.items():
        named = {
            "source.conn_id": pipeline.source.conn_id,
            **{f"source.replicas.{n}": conn_id for n, conn_id in enumerate(pipeline.source.replicas)},
            "connector.conn_id": pipeline.connector.conn_id,
            "transport.conn_id": pipeline.transport.conn_id,
            "sink.catalog": pipeline.sink.catalog,
            "spark.conn_id": pipeline.spark.conn_id,
        }
        for key, conn_id in named.items():
            if not exists(conn_id):
                raise ConfigError(
                    f"there is no Airflow connection {conn_id!r}",
                    where=f"{where}, pipeline {name!r}, key {key}",
                    todo=f"Add it with `airflow connections add {conn_id}`, or name another one.",
                )
