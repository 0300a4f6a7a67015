"""The properties file of Debezium's engine, as settings of its connector.

Debezium Server writes `debezium.source.` before a setting of the engine or its connector, and gives formats and
transforms names of its own. Settings of its environment (`DEBEZIUM_SOURCE_…`) are not in the file and not seen, and neither
is what a `${NAME}` in it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_cdc.connectors.debezium.names import SINK
from airflow_cdc.connectors.java_properties import lines, parse, written
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.files import replace_connectors_file

_SOURCE: Final = "debezium.source."
_SERVER: Final = "debezium."
_KAFKA: Final = "kafka"
_FORMAT: Final = "debezium.format."
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_PARTS: Final = ("key", "value")
# debezium.transforms.x.type → transforms.x.type
_OWN_NAMES: Final = ("transforms", "predicates")
# Quarkus takes the value from elsewhere, and `$${` as it is; `${NAME:default}` has the form of Connect's placeholders already
_EXPRESSION: Final = re.compile(r"(?<!\$)\$\{([^}:$]+)\}")
_ESCAPED: Final = "$${"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The settings.

    Attributes:
        engine: the first part of the key of its offsets; "" if the file does not say it.
        connector: what Kafka Connect would call the connector's configuration.
        prefix: what stands before each setting in the file.
    """

    engine: str
    connector: Mapping[str, str]
    prefix: str


def read_config(path: Path, where: str) -> EngineConfig:
    """Read the file. Raises ConnectorError."""
    text = _text(path, where)
    try:
        return parse_config(text)
    except ValueError as error:
        raise _malformed(path, where, error) from None


def parse_config(text: str) -> EngineConfig:
    """Read its text. Raises ValueError for one that Java refuses."""
    file = {name: value.strip() for name, value in parse(text).items()}
    if not any(name.startswith(_SOURCE) for name in file):
        return EngineConfig(file.get("name", ""), file, "")
    file = {name: _EXPRESSION.sub(r"${env:\1}", value).replace(_ESCAPED, "${") for name, value in file.items()}
    own = {name.removeprefix(_SOURCE): value for name, value in file.items() if name.startswith(_SOURCE)}
    of_server = {
        name.removeprefix(_SERVER): value
        for name, value in file.items()
        if name.removeprefix(_SERVER).partition(".")[0] in _OWN_NAMES
    }
    engine = file.get(SINK, "")
    elsewhere = {SINK: engine} if engine and engine != _KAFKA else {}
    return EngineConfig(engine, {**of_server, **dict(_converters(file)), **own, **elsewhere}, _SOURCE)


def change_config(path: Path, changes: Mapping[str, str | None], where: str) -> None:
    """Set these properties in the file, by their whole names (None: take away); every other line stays as it is.

    A copy of the old file stays beside it as NAME.before. Raises ConnectorError.
    """
    text = _text(path, where)
    try:
        new_text = edited(text, changes)
    except ValueError as error:
        raise _malformed(path, where, error) from None
    replace_connectors_file(path.with_name(f"{path.name}.before"), _bytes(text), like=path)
    replace_connectors_file(path, _bytes(new_text), like=path)


def edited(text: str, changes: Mapping[str, str | None]) -> str:
    """The text of a properties file with other values. Raises ValueError for one that Java refuses."""
    parts, names, last = [], set(), None
    for line in lines(text):
        if line.key is None or line.key not in changes:
            parts.append(line.raw)
            last = line
        elif line.key not in names:
            names.add(line.key)
            parts += _line(line.key, changes[line.key])
            last = None
    new = [part for name, value in changes.items() if name not in names for part in _line(name, value)]
    if new and last is not None:  # an empty line ends one that a backslash continues
        parts.append("\n\n" if last.open else "" if last.raw[-1] in "\r\n" else "\n")
    return "".join((*parts, *new))


def _line(name: str, value: str | None) -> list[str]:
    return [] if value is None else [written(name, value)]


def _malformed(path: Path, where: str, error: ValueError) -> ConnectorError:
    return ConnectorError(
        f"{path} cannot be read: {error}", where=where, todo="Correct that escape: the engine cannot read it either."
    )


def _converters(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Debezium Server's formats, as converters."""
    for part in _PARTS:
        format_name = config.get(f"{_FORMAT}{part}", "json").strip().lower()
        yield f"{part}.converter", _JSON if format_name == "json" else f"{_FORMAT}{part}={format_name}"
        for scope in (_FORMAT, f"{_FORMAT}{part}."):
            schemas = config.get(f"{scope}schemas.enable")
            if schemas is not None:
                yield f"{part}.converter.schemas.enable", schemas


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _text(path: Path, where: str) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise ConnectorError(
            f"{path} cannot be read: {error.strerror}",
            where=where,
            todo="Correct connector.config in pipelines.yaml; the file must be there on the worker.",
        ) from None
