"""Inputs that once broke a parser, kept in tests/fuzz/found.jsonl and read by every run before any other."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

FOUND: Final = Path(__file__).with_name("found.jsonl")


def kept(path: Path = FOUND) -> Iterator[tuple[str, Any]]:
    """Each parser's name with one input."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            yield entry["parser"], _read(entry["input"])


def keep(parser: str, given: Any, path: Path = FOUND) -> bool:
    """Add an input unless it is there; False for one of another kind than text, bytes, JSON and pairs of these."""
    try:
        line = json.dumps({"parser": parser, "input": _plain(given)})
        same = repr(_read(json.loads(line)["input"])) == repr(given)
    except (TypeError, ValueError):
        return False
    known = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if same and line not in known:
        path.write_text("".join(f"{one}\n" for one in (*known, line)), encoding="utf-8")
    return same


def _plain(given: Any) -> dict[str, Any]:
    if isinstance(given, bytes):
        return {"bytes": base64.b64encode(given).decode()}
    if isinstance(given, tuple):
        return {"parts": [_plain(one) for one in given]}
    return {"value": given}


def _read(entry: dict[str, Any]) -> Any:
    if "bytes" in entry:
        return base64.b64decode(entry["bytes"])
    if "parts" in entry:
        return tuple(map(_read, entry["parts"]))
    return entry["value"]
