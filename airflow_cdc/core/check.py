"""One line of the doctor's output."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's output. `state` is ok, warn, bad or unknown."""

    subject: str
    name: str
    state: str
    found: str
    todo: str = ""

    def to_json(self) -> dict[str, object]:
        return asdict(self)
