"""What connectors, servers and clients say when something is wrong, matched against the rows that their systems own.

A text names a problem; it proves nothing about the server. The diagnosis therefore uses these rows only to tell one
connector failure from another, and `explain`, which has nothing but text, says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.secrets import mask_text
from airflow_cdc.core.text import shorten

UNNAMED: Final = "UNKNOWN"
# what several systems say in words of their own
CUT: Final = "a connection was cut: once the other side answers again, the connector can continue"
LOGIN_REFUSED: Final = "the server refuses the connector's login"


@dataclass(frozen=True, slots=True)
class KnownText:
    """A text (regular expression, case does not matter) and the problem that it names, with its meaning.

    The row of the lowest rank that fits wins, so what is more exact has a lower one. `refined` reads code and meaning out
    of the text itself.
    """

    code: str
    rank: int
    pattern: str
    meaning: str
    refined: Callable[[re.Match[str]], tuple[str, str]] | None = None

    def named_in(self, text: str) -> Explanation | None:
        """This row's explanation of the text, with the matching line, without secrets; None if the row does not match."""
        match = re.search(self.pattern, text, re.IGNORECASE | re.DOTALL)
        if match is None:
            return None
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.start())
        line = shorten(mask_text(text[start : end if end >= 0 else None].strip()), 600)
        code, meaning = self.refined(match) if self.refined else (self.code, self.meaning)
        return Explanation(code, meaning, line)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a text names: the problem, what it means, and the line that says so."""

    code: str
    meaning: str
    line: str


def match(texts: Iterable[KnownText], text: str) -> Explanation | None:
    """What the first of the rows that fits says, or None."""
    rows = sorted(texts, key=lambda row: row.rank)
    return next((named for row in rows if (named := row.named_in(text)) is not None), None)


def explain(texts: Iterable[KnownText], text: str) -> Explanation:
    """The problem that a pasted log names, from its text alone; UNKNOWN where no row fits."""
    return match(texts, text) or Explanation(UNNAMED, "no known error message found in the text", "")
