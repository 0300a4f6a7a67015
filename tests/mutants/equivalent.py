"""Changes that nobody can see, each with its reason: tests/mutants/equivalent.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.change import Change

FILE: Final = Path(__file__).with_name("equivalent.toml")

# file, function, the lines before and after
Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Equivalents:
    """The reasons by change. Lines may move: a change is known by its function and its text."""

    reasons: Mapping[Key, str]

    @classmethod
    def read(cls) -> Equivalents:
        """The file. Raises KeyError for an entry without a reason."""
        entries = tomllib.loads(FILE.read_text(encoding="utf-8")).get("change", [])
        return cls({(one["file"], one["scope"], one["old"], one["new"]): one["why"] for one in entries})

    def reason(self, change: Change) -> str:
        """Why nobody can see the change; "" if it is not in the list."""
        return self.reasons.get((change.file, change.scope, *change.lines), "")
