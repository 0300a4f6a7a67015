"""Texts of other programs, shortened for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_cdc.core.secrets import mask_text

_SHOWN = 400


def shorten(text: str, limit: int = _SHOWN) -> str:
    """The first `limit` characters at most."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def first_named(rows: Iterable[tuple[Sequence[str], str]], text: str, otherwise: str) -> str:
    """Words → what to say: that of the first row of which a word stands in the text."""
    return next((said for words, said in rows if any(word in text for word in words)), otherwise)


def trace_excerpt(trace: str, limit: int = 800) -> str:
    """The first line of a stack trace and its causes, without secrets, at most `limit` characters."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    telling = lines[:1] + [line for line in lines[1:] if line.startswith("Caused by:")]
    return shorten(mask_text(" | ".join(dict.fromkeys(telling))), limit)


def root_cause(trace: str) -> str:
    """The last "Caused by" of a Java trace, else its first line: what a person needs to see."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["no trace"])[-1 if causes else 0]
