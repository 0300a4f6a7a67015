"""What the suite hears in the product's texts: whom a refusal names, whether it says enough, which refusals are of one kind."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.adversary import limits

OTHERS = "To continue with the other"
_CRASH = re.compile(
    r"Py4J|Traceback|java\.lang|NullPointer|list index|KeyError|AttributeError|TypeError|INTERNAL_ERROR|\[[A-Z_]{6,}(\.[A-Z_]+)?\]"
)
_NAMES = re.compile(
    r"column|`|[a-z]+\.[a-z]+\.[a-z]+|\b(ALTER|TRUNCATE|DROP|MODIFY|CHANGE|XA|GTID\w*)\b|transaction|topic|truncated|"
    r"dead.letter|definition of |\(table |different: |missing: |ghost|of run r[0-9]|by r[0-9]",
)  # fmt: skip
_REASONLESS = "(0 missing, 0 ghosts, 0 different)"


def told_of(error: str) -> str:
    """A refusal without the way on that it shows for the tables that are not refused."""
    return error.partition(OTHERS)[0]


def mentions(text: str, name: str) -> bool:
    """Whether the name stands in the text, and not as the beginning of a longer one."""
    return re.search(rf"{re.escape(name)}(?!\w)", text) is not None


def fault_of(text: str) -> str:
    """What is wrong with a refusal: "crash" where an exception shines through, "vague" where it names nothing, or ""."""
    if _CRASH.search(text):
        return "crash"
    if f"MISMATCH {_REASONLESS}" in text:
        return "vague"
    told = text.partition(_REASONLESS)[2] or text
    return "" if _NAMES.search(told) or limits.stop(text) else "vague"


def kind_of(text: str, names: Sequence[str]) -> str:
    """A refusal's text without names, numbers and values, so that those of one kind count together."""
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", text)
    text = re.sub(r"(different|missing|ghost): .*", r"\1: …", text)
    text = re.sub(r"column .*? (\(|was|is|of|,)", r"column … \1", text)
    return re.sub(r"\s+", " ", re.sub(r"[0-9]+", "#", text))[:110]
