"""Texts of other programs: read as JSON, and shortened for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from airflow_cdc.core.secrets import mask_text

_SHOWN = 400
_MOST_DIGITS = 25
# a terminal's escapes, all but line ends and tabs, and the marks that turn the direction of what follows
_MOVES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
# how much of a text is searched for secrets, as a multiple of what is shown: a secret becomes three characters
_SEARCHED = 16


def number_in(text: str) -> int | None:
    """The whole number of 0 or more that a text is, in ASCII digits; None for any other text.

    No system has one of more than 25 digits, and Python reads none of more than 4,300: it raises. `isdigit` alone holds for ²,
    too.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def printable(text: str) -> str:
    """A text that moves no cursor, colours nothing and turns no line around: such characters are written as JSON writes them."""
    return _MOVES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shorten(text: str, limit: int = _SHOWN) -> str:
    """The first `limit` characters at most."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shown(text: str, limit: int = _SHOWN) -> str:
    """The first `limit` characters at most, without secrets.

    The text is cut before it is searched for secrets, so that a long one costs no time. The word in which it is cut goes,
    because half of a secret is not recognised.
    """
    if len(text) > limit * _SEARCHED:
        head = text[: limit * _SEARCHED]
        text = head[: max(head.rfind(" "), head.rfind("\n"), 0)] or head[:limit].partition("://")[0]
    return shorten(mask_text(text), limit)


def first_named(rows: Iterable[tuple[Sequence[str], str]], text: str, otherwise: str) -> str:
    """Words → what to say: that of the first row of which a word stands in the text."""
    return next((said for words, said in rows if any(word in text for word in words)), otherwise)


def trace_excerpt(trace: str, limit: int = 800) -> str:
    """The first line of a stack trace and its causes, without secrets, at most `limit` characters."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    telling = lines[:1] + [line for line in lines[1:] if line.startswith("Caused by:")]
    return shown(" | ".join(dict.fromkeys(telling)), limit)


def root_cause(trace: str) -> str:
    """The last "Caused by" of a Java trace, else its first line: what a person needs to see."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["no trace"])[-1 if causes else 0]


def read_json(text: str | bytes) -> Any:
    """The value of JSON that another system, or a person, wrote. Raises ValueError, and nothing else: also for what is nested too deeply, where Python has a RecursionError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
