"""The properties file of Debezium's engine, as settings of its connector.

Debezium Server writes `debezium.source.` before a setting of the engine or its connector, and gives formats and
transforms names of its own. Settings of its environment (`DEBEZIUM_SOURCE_…`) are not in the file and not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_cdc.connectors.java_properties import parse
from airflow_cdc.connectors.whole_file import replace_file
from airflow_cdc.core.errors import ConnectorError

_SOURCE: Final = "debezium.source."
_SERVER: Final = "debezium."
_SINK: Final = "debezium.sink.type"
_FORMAT: Final = "debezium.format."
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_PARTS: Final = ("key", "value")
# debezium.transforms.x.type → transforms.x.type
_OWN_NAMES: Final = ("transforms", "predicates")
# one line of settings, with the lines that continue it
_LOGICAL: Final = re.compile(r"(?:[^\n\\]|\\(?:\r?\n|.|$))*(?:\n|$)", re.DOTALL)


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
    return parse_config(_text(path, where))


def parse_config(text: str) -> EngineConfig:
    """Read its text."""
    written = parse(text)
    if not any(name.startswith(_SOURCE) for name in written):
        return EngineConfig(written.get("name", ""), written, "")
    own = {name.removeprefix(_SOURCE): value for name, value in written.items() if name.startswith(_SOURCE)}
    named = {
        name.removeprefix(_SERVER): value
        for name, value in written.items()
        if name.removeprefix(_SERVER).partition(".")[0] in _OWN_NAMES
    }
    return EngineConfig(written.get(_SINK, ""), {**named, **dict(_converters(written)), **own}, _SOURCE)


def change_config(path: Path, changes: Mapping[str, str | None], where: str) -> None:
    """Set these properties in the file, by their whole names (None: take away); every other line stays as it is.

    A copy of the old file stays beside it as NAME.before. Raises ConnectorError.
    """
    text = _text(path, where)
    replace_file(path.with_name(f"{path.name}.before"), _bytes(text), like=path)
    replace_file(path, _bytes(edited(text, changes)), like=path)


def edited(text: str, changes: Mapping[str, str | None]) -> str:
    """The text of a properties file with other values."""
    lines, done = [], set()
    for line in _LOGICAL.findall(text):
        name = next(iter(parse(line)), "")
        if name not in changes:
            lines.append(line)
        elif name not in done:
            done.add(name)
            lines += _line(name, changes[name])
    new = [line for name, value in changes.items() if name not in done for line in _line(name, value)]
    end = "\n" if new and lines and "".join(lines)[-1:] not in ("", "\n") else ""
    return "".join((*lines, end, *new))


def _line(name: str, value: str | None) -> list[str]:
    return [] if value is None else [f"{_escaped(name)}={_escaped(value)}\n"]


def _escaped(text: str) -> str:
    """As both Latin-1 and UTF-8 readers understand it."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return "".join(char if char.isascii() else "".join(f"\\u{unit:04x}" for unit in _units(char)) for char in plain)


def _units(char: str) -> Iterator[int]:
    raw = char.encode("utf-16-be")
    return (int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2))


def _converters(written: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Debezium Server's formats, as converters."""
    for part in _PARTS:
        chosen = written.get(f"{_FORMAT}{part}", "json").strip().lower()
        yield f"{part}.converter", _JSON if chosen == "json" else f"{_FORMAT}{part}={chosen}"
        for scope in (_FORMAT, f"{_FORMAT}{part}."):
            schemas = written.get(f"{scope}schemas.enable")
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
