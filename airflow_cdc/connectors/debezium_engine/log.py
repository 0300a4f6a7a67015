"""Why Debezium's engine has ended, as its log says. It says it nowhere else: the process is simply gone."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.secrets import mask_text

_TAIL_BYTES: Final = 512 * 1024
_TRACE_LINES: Final = 40
_BEGUN: Final = "Engine state has changed from 'CREATING'"
_FAILED: Final = re.compile(r"Engine has failed with|Connector completed: success = 'false'")
# what a new entry begins with: a time, or a JSON object
_ENTRY: Final = re.compile(r"\{|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d")


def failure_in(path: str, where: str, *, since: int = 0) -> str:
    """The error with which the newest start in the log ended, without secrets; "" if it ended without one, or has no log.

    `since`: only what follows this many bytes, unless the log was begun anew. Raises ConnectorError.
    """
    if not path:
        return ""
    try:
        with Path(path).open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            log.seek(max(0, size - _TAIL_BYTES, since if since <= size else 0))
            return failure_of(log.read().decode(errors="replace").splitlines())
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConnectorError(
            f"the log {path} cannot be read: {error.strerror}",
            where=where,
            todo="Correct connector.log in pipelines.yaml, or let the worker's user read it.",
        ) from None


def size_of(path: str) -> int:
    """The log's length in bytes; 0 if there is none."""
    try:
        return Path(path).stat().st_size if path else 0
    except OSError:
        return 0


def failure_of(lines: Sequence[str]) -> str:
    """The first error after the newest start, with the lines of its trace."""
    start = next((number for number in range(len(lines) - 1, -1, -1) if _BEGUN in lines[number]), 0)
    for number in range(start, len(lines)):
        if (match := _FAILED.search(lines[number])) is not None:
            return _trace(lines[number][match.start() :], lines[number + 1 : number + _TRACE_LINES])
    return ""


def _trace(head: str, below: Sequence[str]) -> str:
    end = next((number for number, line in enumerate(below) if _ENTRY.match(line)), len(below))
    return mask_text("\n".join((head, *below[:end])).strip())
