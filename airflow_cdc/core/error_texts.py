"""Error messages of connectors, servers and clients, matched by rows that each system provides.

A message suggests a problem but proves nothing about the server. So the diagnosis uses these rows only to tell one
connector failure from another, and `airflow cdc explain`, which has only the text, says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

from airflow_cdc.core.secrets import mask_text
from airflow_cdc.core.text import shown

# problems that several systems report, each in its own words
CUT: Final = "a connection was cut: once the other side answers again, the connector can continue"
# a question for the log's end that the server does not know, or has no answer to
NO_LOG: Final = (("SOURCE_MISCONFIGURED", "the server keeps no binary log, so there is no position to read"),)
WHICH_SERVER: Final = "SELECT @@version, @@log_bin"
LOGIN_REFUSED: Final = "the server refuses the connector's login"


@dataclass(frozen=True, slots=True)
class KnownText:
    """An error message (regular expression, case-insensitive), the problem that it names, and its meaning.

    The matching row of the lowest rank wins, so more exact rows have lower ranks. A blank in a pattern matches any
    white space, as terminals wrap lines. `refined` reads code and meaning from the message itself. `otherwise` and
    `ask`: what else the same words can mean (code, meaning), and the question to the server that decides (with the groups of the match).
    `clue_for`: said before a failure with one of these codes, the row names that failure more exactly. `says`: the words
    by which people look for it, as the page of first aid lists them.
    """

    code: str
    rank: int
    pattern: str
    meaning: str
    refined: Callable[[re.Match[str]], tuple[str, str]] | None = None
    otherwise: tuple[tuple[str, str], ...] = ()
    ask: str = ""
    clue_for: tuple[str, ...] = ()
    says: str = ""

    def named_in(self, text: str) -> Explanation | None:
        """This row's explanation of the text, with the matching line, secrets masked; None if it does not match."""
        match = _compiled(self.pattern).search(text)
        if match is None:
            return None
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.start())
        line = shown(text[start : end if end >= 0 else None].strip(), 600)
        code, meaning = self.refined(match) if self.refined else (self.code, self.meaning)
        return Explanation(code, meaning, line, self.otherwise, mask_text(match.expand(self.ask)), self.rank)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The problem that a text names, its meaning, the line that names it, and what else the line can mean."""

    code: str
    meaning: str
    line: str
    otherwise: tuple[tuple[str, str], ...] = ()
    ask: str = ""
    rank: int = 0


def match(texts: Iterable[KnownText], text: str) -> Explanation | None:
    """The explanation of the first row that matches, or None."""
    rows = sorted(texts, key=lambda row: row.rank)
    return next((named for row in rows if (named := row.named_in(text)) is not None), None)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r" +", r"\\s+", pattern), re.IGNORECASE | re.DOTALL)
