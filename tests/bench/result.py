"""A row of `make bench`: two things measured in the same run, and the ratio that is wanted of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path("build/bench")
# exit statuses: a goal is not held; what was measured is wrong, whatever its goals
MISSED, WRONG = 1, 2


@dataclass(frozen=True, slots=True)
class Ratio:
    """`ours` against `against`, in the same unit; the ratio has to be `goal` at most."""

    name: str
    ours: float
    against: float
    goal: float
    more: Mapping[str, object] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return round(self.ours / self.against, 3)

    @property
    def holds(self) -> bool:
        return self.ratio <= self.goal

    def to_json(self) -> dict[str, object]:
        figures = {"name": self.name, "ours": self.ours, "against": self.against, "ratio": self.ratio}
        return {**figures, "goal": self.goal, "direction": "at most", "holds": self.holds, **self.more}

    def write(self, path: Path) -> int:
        """Write and print it; the exit status, 1 if it does not hold."""
        text = json.dumps(self.to_json(), indent=2)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
        print(text)
        return MISSED * (not self.holds)


def write_all(rows: Sequence[Ratio], path: Path) -> int:
    """Write and print several rows; the exit status, 1 if one does not hold."""
    text = json.dumps([row.to_json() for row in rows], indent=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    print(text)
    return MISSED * (not all(row.holds for row in rows))
