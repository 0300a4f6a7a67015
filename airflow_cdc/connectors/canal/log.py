"""What Canal's log says of the destination: whether it reads, and why it does not. Canal says it nowhere else.

A server whose position was purged stays up, answers its clients with nothing and tries again every 10 to 18 seconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.secrets import mask_text

_TAIL_BYTES: Final = 512 * 1024
_TRACE_LINES: Final = 40
_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_BEGUN: Final = "start CannalInstance for"  # Canal's own spelling
_ENDED: Final = "stop CannalInstance for"
_READS: Final = "find start position successfully"
_FAILS: Final = re.compile(r"EventParser\] ERROR ")


@dataclass(frozen=True, slots=True)
class LogState:
    """`reads`: the newest thing logged is that it found its start; `failure`: else the error it met, without secrets."""

    reads: bool = False
    failure: str = ""


def read_log(path: str, where: str) -> LogState:
    """The state at the log's end; of a log that is not there yet, nothing. Raises ConnectorError."""
    try:
        with Path(path).open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
            return state_of(log.read().decode(errors="replace").splitlines())
    except FileNotFoundError:
        return LogState()
    except OSError as error:
        raise ConnectorError(
            f"Canal's log {path} cannot be read: {error.strerror}",
            where=where,
            todo="Correct connector.log in pipelines.yaml, or let the worker's user read it.",
        ) from None


def state_of(lines: Sequence[str]) -> LogState:
    """The state by the newest line that says something of it: an error counts until a later start was found."""
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if _BEGUN in line or _ENDED in line:
            return LogState()
        if _READS in line:
            return LogState(reads=True)
        if _FAILS.search(line):
            return LogState(failure=_trace(lines, _first_error(lines, number)))
    return LogState()


def _first_error(lines: Sequence[str], newest: int) -> int:
    """The first error of the newest try: those after it are about it."""
    first = newest
    for number in range(newest, -1, -1):
        if _READS in lines[number] or _BEGUN in lines[number]:
            break
        if _FAILS.search(lines[number]):
            first = number
    return first


def _trace(lines: Sequence[str], first: int) -> str:
    """An error and, on the same line, what it is about; then the lines below it, up to the next one with a time."""
    below = []
    for line in lines[first + 1 : first + _TRACE_LINES]:
        if _LINE.match(line):
            break
        below.append(line)
    head = lines[first].partition(" - ")[2].strip()
    return mask_text("\n".join((": ".join((head, *below[:1])), *below[1:])).strip())
