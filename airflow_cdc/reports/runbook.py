"""The documentation's runbook for each problem, for readers who have only the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from markdown_it import MarkdownIt
from markupsafe import Markup

# one heading per code; a section ends where the next heading begins
_AS_FOR = re.compile(r"\*\*Do\*\* as for (\w+)")
_ABOUT = re.compile(r"\**([A-Z][\w ]+)\**(?: \([^)]*\))?:")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
# a list or a table belongs to what is said before it
_PARAGRAPH = re.compile(r"\n\n(?![-*|] )")
_MARKUP = re.compile(r"\*\*|`")
_SENTENCE = re.compile(r"(?<=[.?!]) (?=[A-Z])")
_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)


def runbook_html(code: str, other_systems: Iterable[str] = ()) -> Markup:
    """The runbook of a problem code as HTML; empty for a code that has none.

    `other_systems`: names of systems that the reader does not have. Paragraphs that begin with one of them are left out, unless
    the section has no other. Links lead to other pages of the documentation, which are not served here, so only their text is kept.
    """
    paragraphs = [one for one in _PARAGRAPH.split(_sections().get(code, "")) if one.strip()]
    kept = [one for one in paragraphs if not _is_about(one, tuple(other_systems))] or paragraphs
    return Markup(_markdown().render("\n\n".join(kept)))  # noqa: S704 - the package's own text, HTML switched off


def _is_about(paragraph: str, systems: tuple[str, ...]) -> bool:
    """Whether a paragraph begins with one of the names, or with several of them alone, before its colon."""
    named = _ABOUT.match(paragraph.lstrip())
    return named is not None and all(one.startswith(systems) for one in named[1].split(" and "))


def first_aid(code: str) -> str:
    """The first two sentences of what the runbook says to do about a problem, as plain text; "" if there is no such code."""
    section = " ".join(_sections().get(code, "").split())
    if (other := _AS_FOR.search(section)) is not None:
        return first_aid(other[1])
    _, marked, todo = section.partition("**Do")
    if not marked:
        return ""
    todo = _MARKUP.sub("", _LINK.sub(r"\1", todo.split("**Loses**")[0].split(" | ")[0])).lstrip(":* ")
    return " ".join(_SENTENCE.split(todo.strip())[:2])


def runbook_codes() -> tuple[str, ...]:
    """The problem codes that the runbook has a section for, in its order."""
    return tuple(_sections())


@cache
def _sections() -> Mapping[str, str]:
    text = (files("airflow_cdc") / "templates" / "problems.md").read_text(encoding="utf-8")
    return dict(_SECTION.findall(text))


@cache
def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    for rule in ("link_open", "link_close"):
        parser.add_render_rule(rule, _nothing)
    return parser


def _nothing(*_: object) -> str:
    return ""
