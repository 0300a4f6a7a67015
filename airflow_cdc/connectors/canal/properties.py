"""Canal's two files of settings, read as Java reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from airflow_cdc.core.errors import ConnectorError

DESTINATION: Final = "canal.instance.destination"
_SEPARATOR: Final = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_config(conf: str, destination: str, where: str) -> dict[str, str]:
    """canal.properties and the destination's instance.properties, whose values win. Raises ConnectorError.

    A property that was given to the server's JVM with -D is not seen.
    """
    files = (Path(conf) / "canal.properties", Path(conf) / destination / "instance.properties")
    config: dict[str, str] = {}
    for file in files:
        try:
            config |= parse(file.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            raise ConnectorError(
                f"{file} cannot be read: {error.strerror}",
                where=where,
                todo="Correct connector.conf and connector.name in pipelines.yaml; the folder must be there on the worker.",
            ) from None
    return {**config, DESTINATION: destination}


def parse(text: str) -> dict[str, str]:
    """A file of Java properties."""
    lines = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text).splitlines()
    kept = [line.lstrip() for line in lines if line.strip() and line.lstrip()[0] not in "#!"]
    pairs = [match.groups() for line in kept if (match := _SEPARATOR.fullmatch(line))]
    return {_unescaped(key): _unescaped(value).strip() for key, value in pairs}


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(one, text)
