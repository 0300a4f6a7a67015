"""What systems print, and which row of the known texts must explain it: the checks that the tests of every table share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from airflow_cdc.core.error_texts import KnownText, match
from airflow_cdc.kinds import all_texts
from tests.paths import ROOT


@cache
def _rows() -> tuple[KnownText, ...]:
    return all_texts()


@cache
def _page() -> str:
    return (ROOT / "docs" / "connector-failed.md").read_text(encoding="utf-8")


class Said(NamedTuple):
    """A line as a system prints it, and what an operator must be told of it.

    Attributes:
        code: the problem that it names.
        means: words of its meaning by which its row is known from all others.
        line: the line.
        otherwise: the problems that the same words can mean, too.
        asks: words of the question to the server that decides between them; "" if there is none.
    """

    code: str
    means: str
    line: str
    otherwise: tuple[str, ...] = ()
    asks: str = ""


def is_explained(said: Said) -> None:
    """Of all texts of all systems, the row that leads names the problem, its doubts and the question that ends them."""
    explained = match(_rows(), said.line)
    assert explained is not None
    assert (explained.code, tuple(code for code, _ in explained.otherwise)) == (said.code, said.otherwise)
    assert said.means in explained.meaning
    assert (said.asks in explained.ask) if said.asks else not explained.ask


def are_all_met(texts: Iterable[KnownText], lines: Iterable[Said]) -> None:
    """Each row leads for one of the lines: a row that no line needs would explain nothing."""
    leading = {explained.rank for one in lines if (explained := match(_rows(), one.line))}
    assert [text.pattern for text in texts if text.rank not in leading] == []


def have_ranks_of_their_own(texts: Iterable[KnownText]) -> None:
    """Which of two rows leads is decided: no other row of any system has the rank of one of these."""
    often = Counter(row.rank for row in _rows())
    assert [text.pattern for text in texts if often[text.rank] > 1] == []


def are_on_the_page(texts: Iterable[KnownText], looked_for: Iterable[str]) -> None:
    """The words by which people look for these errors stand on the page of first aid, and no others are announced."""
    rows = [text.says for text in texts if text.says]
    assert [says for says in rows if f"| `{says}` |" not in _page()] == []
    assert [words for words in looked_for if not any(words in says for says in rows)] == []
    assert len(rows) == len(tuple(looked_for))
