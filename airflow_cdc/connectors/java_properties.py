"""Java's properties files, read as Java reads them."""

from __future__ import annotations

import re
from typing import Final

_SEPARATOR: Final = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """A file of Java properties."""
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text)
    kept = [line.lstrip() for line in re.split(r"\r\n|\r|\n", joined) if line.strip() and line.lstrip()[0] not in "#!"]
    pairs = [match.groups() for line in kept if (match := _SEPARATOR.fullmatch(line))]
    return {_unescaped(key): _unescaped(value).strip() for key, value in pairs}


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)

    # a character beyond 16 bits is written as two escapes
    return _ESCAPE.sub(one, text).encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
