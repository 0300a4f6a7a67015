"""Error messages of connectors, servers and clients, matched by rows that each system provides.

A message suggests a problem but proves nothing about the server. So the diagnosis uses these rows only to tell one
connector failure from another, and `explain`, which has only the text, says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.secrets import mask_text
from airflow_cdc.core.text import shorten

UNNAMED: Final = "UNKNOWN"
# problems that several systems report, each in its own words
CUT: Final = "a connection was cut: once the other side answers again, the connector can continue"
LOGIN_REFUSED: Final = "the server refuses the connector's login"


@dataclass(frozen=True, slots=True)
class KnownText:
    """An error message (regular expression, case-insensitive), the problem that it names, and its meaning.

    The matching row of the lowest rank wins, so more exact rows have lower ranks. `refined` reads code and meaning from
    the message itself.
    """

    code: str
    rank: int
    pattern: str
    meaning: str
    refined: Callable[[re.Match[str]], tuple[str, str]] | None = None

    def named_in(self, text: str) -> Explanation | None:
        """This row's explanation of the text, with the matching line, secrets masked; None if it does not match."""
        match = re.search(self.pattern, text, re.IGNORECASE | re.DOTALL)
        if match is None:
            return None
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.start())
        line = shorten(mask_text(text[start : end if end >= 0 else None].strip()), 600)
        code, meaning = self.refined(match) if self.refined else (self.code, self.meaning)
        return Explanation(code, meaning, line)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The problem that a text names, its meaning, and the line that names it."""

    code: str
    meaning: str
    line: str


def match(texts: Iterable[KnownText], text: str) -> Explanation | None:
    """The explanation of the first row that matches, or None."""
    rows = sorted(texts, key=lambda row: row.rank)
    return next((named for row in rows if (named := row.named_in(text)) is not None), None)


def explain(texts: Iterable[KnownText], text: str) -> Explanation:
    """The problem that a pasted log names, by its text alone; UNKNOWN if no row matches."""
    return match(texts, text) or Explanation(UNNAMED, "no known error message found in the text", "")
