"""A pasted log as entries: what programs, containers, terminals and REST answers wrap around a line is taken off.

An entry is a line with a level, and all that follows it up to the next one: a stack trace with its causes, a server's
DETAIL and HINT. A text without levels, such as a lone trace, is one entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Final


class Weight(IntEnum):
    """How much an entry says about what ended: a level, or PLAIN for text without one; ENDED comes from outside."""

    QUIET = 0
    WARN = 1
    RETRIED = 2
    ERROR = 3
    ENDED = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a log: its text, how much it weighs, when it was written, and whether it is a trace without a level."""

    text: str
    weight: Weight
    at: datetime | None = None
    bare: bool = False


_WEIGHTS: Final = {
    "TRACE": Weight.QUIET,
    "DEBUG": Weight.QUIET,
    "INFO": Weight.QUIET,
    "NOTE": Weight.QUIET,
    "NOTICE": Weight.QUIET,
    "LOG": Weight.WARN,  # a server's own log: PostgreSQL says so that it ended a connection or gave up a slot
    "SYSTEM": Weight.QUIET,
    "WARN": Weight.WARN,
    "WARNING": Weight.WARN,
    "WARNUNG": Weight.WARN,
    "ERROR": Weight.ERROR,
    "SEVERE": Weight.ERROR,
    "CRITICAL": Weight.ERROR,
    "FATAL": Weight.ERROR,
    "PANIC": Weight.ERROR,
    "FEHLER": Weight.ERROR,
    "ERREUR": Weight.ERROR,
    "ОШИБКА": Weight.ERROR,
}
_LEVEL: Final = re.compile(
    rf"(?<![\w.$/-])(?:{'|'.join(_WEIGHTS)})(?![\w$-])|\[(?i:note|warning|error|system)\]|"
    r"(?<=level=)(?:error|warning|warn|info|fatal|debug)"
)
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)|\b(\d\d:\d\d:\d\d)\b")
# a line of a trace or of a server's error, whatever words stand in it
_CONTINUES: Final = re.compile(
    r"\s+at |\s*(?:Caused by|Suppressed|Wrapped by):|\s*\.{3} \d+ (?:more|common)|"
    r"\s*(?:Detail|Hint|Where|Position|Query is|Call getNextException)\b|\s*[\w.$]+(?:Exception|Error)\b"
)
_HEADER: Final = re.compile(r"(?:[a-z][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error)\b|[A-Z]\w+(?:Exception|Error): ")
# PostgreSQL's server writes these as lines of their own, with a time
_ADDED: Final = re.compile(r"(?<![\w.])(?:DETAIL|HINT|STATEMENT|CONTEXT|QUERY|LOCATION):")
_QUOTES: Final = str.maketrans(
    dict.fromkeys("‘’‚‛′`´", "'")
    | dict.fromkeys("“”„‟″«»「」『』", '"')
    | {"\u00a0": " ", "\u202f": " ", "\u2007": " "}
)
_ENTITIES: Final = (("&quot;", '"'), ("&#39;", "'"), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_WRAPPERS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:>\s?)+(?=\S)",  # quoted in a mail or an issue
        r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] ",  # the container runtime's own files
        r"[\w.-]+[-_]?\d*\s+\| ",  # docker compose
        r"\[(?:pod|container)/[^\]]+\] ",  # kubectl logs --prefix
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w.@-]+\[\d+\]: ",  # journald, syslog
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+ > ",  # Airbyte and other runners
        r"\[\d{4}-\d\d-\d\d[^\]]*\] \{(?:subprocess|pod_manager|docker)\.py:\d+\} INFO - ",  # a task of Airflow
    )
)
_ESCAPED: Final = re.compile(r"\\+n(?:\\+t|\s*at |\s*Caused by)|\\+r\\+n")
_MESSAGES: Final = ("message", "msg", "log", "textPayload", "@message", "event")
_TRACES: Final = (
    "trace",
    "stack_trace",
    "stackTrace",
    "stacktrace",
    "exception",
    "error.stack_trace",
    "error",
    "throwable",
)
_NO_DATE: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a log's own clock
_LEVELS: Final = ("level", "severity", "levelname", "log.level", "loglevel", "lvl")
_TIMES: Final = ("@timestamp", "timestamp", "time", "ts")


def entries(text: str) -> tuple[Entry, ...]:
    """The entries of a pasted text, in its order."""
    plain = _plain(text)
    traces = tuple(_failed_tasks(plain))
    if traces:
        return traces
    blocks = [_unescaped(_of_json(_unwrapped(raw))).splitlines() for raw in plain.splitlines()]
    backwards = _newest_first(block[0] for block in blocks if block)
    if backwards and _upside_down([line for block in blocks for line in block]):
        blocks.reverse()
        backwards = False
    log = tuple(_grouped(line for block in blocks for line in block))
    return log[::-1] if backwards else log


def _newest_first(lines: Iterable[str]) -> bool:
    """Whether a log was copied from a page that shows the newest line on top, as Kibana and Datadog do.

    Without a date, two lines may be on both sides of midnight.
    """
    times = list[datetime]()
    for at in filter(None, map(_time, lines)):
        if times and at > times[-1]:
            return False  # nearly every log, at its second time
        if not times or at < times[-1]:
            times.append(at)
    return len(times) > (1 if all(at.year > _NO_DATE.year for at in times) else 2)


def _upside_down(lines: Sequence[str]) -> bool:
    """Whether each line is an entry of its own there, so that a trace stands above its exception."""
    at = [line.lstrip().startswith("at ") for line in lines]
    # "... 3 more" stands behind its frames, as no head does
    heads = [
        not is_at and not line.lstrip().startswith("...") and _CONTINUES.match(line) is not None
        for is_at, line in zip(at, lines, strict=True)
    ]
    above = sum(frame and head for frame, head in zip(at, heads[1:], strict=False))
    below = sum(frame and head for frame, head in zip(at[1:], heads, strict=False))
    return above > below


def _plain(text: str) -> str:
    text = _COLOUR.sub("", text).translate(_QUOTES)
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return text


def _failed_tasks(text: str) -> Iterator[Entry]:
    """The traces in a REST answer about a connector, or about all of them."""
    for start in (position for position in (text.find("{"), text.find("[")) if position >= 0):
        if '"trace"' not in text:
            return
        try:
            document, _ = json.JSONDecoder(strict=False).raw_decode(text[start:])
        except (ValueError, RecursionError):
            continue
        traces = [Entry(trace, Weight.ENDED) for trace in _values(document, "trace")]
        if traces:
            yield from traces
            return


def _values(document: object, wanted: str) -> Iterator[str]:
    if isinstance(document, dict):
        for name, value in document.items():
            if name == wanted and isinstance(value, str):
                yield value
            else:
                yield from _values(value, wanted)
    elif isinstance(document, list):
        for value in document:
            yield from _values(value, wanted)


def _unwrapped(line: str) -> str:
    for wrapper in _WRAPPERS:
        if (match := wrapper.match(line)) is not None:
            line = line[match.end() :]
    return line


def _of_json(line: str) -> str:
    """A line that is a JSON object, as a line with time, level, message and trace."""
    if not line.lstrip().startswith("{"):
        return line
    try:
        document = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return line
    if not isinstance(document, dict):
        return line
    message = _first(document, _MESSAGES)
    trace = _first(document, _TRACES) or "\nCaused by: ".join(_causes(document.get("thrown")))
    if not message and not trace:
        return line
    level = _first(document, _LEVELS).upper()
    head = " ".join(part for part in (_first(document, _TIMES), level if level in _WEIGHTS else "") if part)
    return "\n".join(part.rstrip("\n") for part in (f"{head} {message}".lstrip(), trace) if part)


def _first(document: dict[str, object], names: Iterable[str]) -> str:
    for name in names:
        value = document.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, dict):  # {"exception": {"stackTrace": …}}, {"log": {"level": …}}
            below = _first(value, (*_TRACES, *_MESSAGES))
            if below:
                return below
    return ""


def _causes(exception: object) -> Iterator[str]:
    """The exception that Log4j wrote as an object, `{"name": …, "message": …, "cause": {…}}`, and those that caused it."""
    if not isinstance(exception, dict):
        return
    if isinstance(trace := exception.get("extendedStackTrace"), str):
        yield trace
        return
    yield f"{exception.get('name')}: {exception.get('message')}"
    yield from _causes(exception.get("cause"))


def _unescaped(line: str) -> str:
    """A trace that stands on one line, as in a JSON or YAML string: its line ends and tabs as they were."""
    line = re.sub(r'\\+"', '"', line)
    if _ESCAPED.search(line) is None:
        return line
    line = re.sub(r"\\+r(?=\\+n)", "", line)
    line = re.sub(r"\\+n", "\n", line)
    line = re.sub(r"\\+t", "\t", line)
    return re.sub(r"\\+u0027", "'", line)


def _grouped(lines: Iterable[str]) -> Iterator[Entry]:
    group: list[str] = []
    weight, at, levelled, bare = Weight.ERROR, None, False, False
    for line in lines:
        level = _level(line)
        follows = level is None and _HEADER.match(line) and levelled and weight is Weight.QUIET
        if (level is not None or follows) and group:
            yield Entry("\n".join(group), weight, at, bare)
            group = []
        if level is not None:
            weight, at, levelled, bare = _WEIGHTS[level], _time(line) or at, True, False
        elif follows:
            weight, bare = Weight.ERROR, True
        group.append(line)
    if group:
        yield Entry("\n".join(group), weight, at, bare)


def _level(line: str) -> str | None:
    """The level of a line that begins an entry; None for a line that belongs to the entry before it."""
    if _CONTINUES.match(line) or _ADDED.search(line[:200]):
        return None
    match = _LEVEL.search(line[:200])
    if match is None:
        return None
    before = line[: match.start()]
    begins = not before.strip() or before.lstrip().startswith("[") or _TIME.search(before)
    return match[0].strip("[]").upper() if begins else None


def _time(line: str) -> datetime | None:
    match = _TIME.search(line[:120])
    if match is None:
        return None
    day = match[1] or f"{_NO_DATE:%Y-%m-%d}"
    try:
        return datetime.fromisoformat(f"{day}T{match[2] or match[3]}")
    except ValueError:
        return None
