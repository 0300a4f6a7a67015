"""Java's properties files, read to the character as `java.util.Properties.load` reads them, and the lines they consist of.

A test compares this with a JDK: what a server does depends on how it reads its file, not on how the file looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_SPACES: Final = " \t\f"
_ENDS: Final = "\r\n"
_UNICODE: Final = re.compile(r"[0-9A-Fa-f]{4}")
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Line:
    """A logical line as it stands in the file, with the lines that continue it; without a property `key` is None.

    `open`: the file ends before the line does, so that a text written behind it would continue it.
    """

    raw: str
    key: str | None = None
    value: str = ""
    open: bool = False


def parse(text: str) -> dict[str, str]:
    """A file's properties; the last of several with one key counts. Raises ValueError for an escape that Java refuses."""
    return {line.key: line.value for line in lines(text) if line.key is not None}


def lines(text: str) -> list[Line]:
    """All logical lines of a file; together they are the file. Raises ValueError."""
    return list(_lines(text))


def _lines(text: str) -> Iterator[Line]:
    at = 0
    while at < len(text):
        begin, logical, unfinished = at, "", False
        first = _after_spaces(text, at)
        if first < len(text) and text[first] in "#!":  # a backslash does not continue a comment
            at = _after_end(text, _end(text, first))
            yield Line(text[begin:at])
            continue
        while True:
            begin_of_part = _after_spaces(text, at)
            end = _end(text, begin_of_part)
            part, at = text[begin_of_part:end], _after_end(text, end)
            unfinished = _continues(part)
            logical += part[:-1] if unfinished else part
            if not unfinished or at >= len(text) or (not logical and _begins_anew(text, at)):
                break
        ends_open = unfinished and at >= len(text)
        # a lone backslash at the end is a property of no name to Java, unless \r\n follows it
        pair = logical or (ends_open and text[at - 2 :] != "\r\n")
        yield Line(text[begin:at], *_pair(logical), open=ends_open) if pair else Line(text[begin:at])


def _begins_anew(text: str, at: int) -> bool:
    """Whether a comment follows a line of one backslash: nothing is there to be continued."""
    first = _after_spaces(text, at)
    return first < len(text) and text[first] in "#!"


def _after_spaces(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACES:
        at += 1
    return at


def _end(text: str, at: int) -> int:
    while at < len(text) and text[at] not in _ENDS:
        at += 1
    return at


def _after_end(text: str, end: int) -> int:
    return end + 2 if text[end : end + 2] == "\r\n" else min(end + 1, len(text))


def _continues(part: str) -> bool:
    """Whether the part ends with an odd number of backslashes."""
    return (len(part) - len(part.rstrip("\\"))) % 2 == 1


def _pair(logical: str) -> tuple[str, str]:
    at, escaped = 0, False
    while at < len(logical) and (escaped or logical[at] not in f"=:{_SPACES}"):
        escaped = logical[at] == "\\" and not escaped
        at += 1
    value = _after_spaces(logical, at)
    if value < len(logical) and logical[value] in "=:":
        value = _after_spaces(logical, value + 1)
    return _unescaped(logical[:at]), _unescaped(logical[value:])


def _unescaped(text: str) -> str:
    parts, at = [], 0
    while (slash := text.find("\\", at)) >= 0:
        code = text[slash + 1 : slash + 2]
        parts.append(text[at:slash])
        at = slash + 2
        if code == "u":
            if not _UNICODE.fullmatch(digits := text[at : at + 4]):
                raise ValueError(f"\\u{digits} is no character: Java refuses the file")
            code, at = chr(int(digits, 16)), at + 4
        else:
            code = _ESCAPED.get(code, code)
        parts.append(code)
    # a character beyond 16 bits is written as two escapes
    whole = "".join((*parts, text[at:]))
    return whole.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def written(key: str, value: str) -> str:
    """A line that sets the property, in ASCII, as readers of both Latin-1 and UTF-8 understand it."""
    name = re.sub(r"([ =:#!])", r"\\\1", _escaped(key))
    text = _escaped(value)
    return f"{name}={chr(92) if text[:1] == ' ' else ''}{text}\n"


def _escaped(text: str) -> str:
    plain = text.replace("\\", "\\\\")
    for code, char in _ESCAPED.items():
        plain = plain.replace(char, f"\\{code}")
    return "".join(char if char.isascii() else "".join(f"\\u{unit:04x}" for unit in _units(char)) for char in plain)


def _units(char: str) -> Iterator[int]:
    raw = char.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2))
