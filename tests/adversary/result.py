"""What seeds came to: findings, and counts of what was done."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Finding:
    """Something that must not be: `kind` is difference, crash, vague, stuck, healthy or idle."""

    kind: str
    seed: int
    step: str
    table: str
    what: str
    columns: dict[str, str] = field(default_factory=dict)
    operations: list[list[str]] = field(default_factory=list)


@dataclass(slots=True)
class Share:
    """What of a result is one seed's."""

    operations: int = 0
    compared: int = 0
    findings: int = 0


@dataclass(slots=True)
class Result:
    """What one seed came to, or several that shared a pipeline: `seed` is the first of them."""

    seed: int
    operations: int = 0
    steps: dict[str, int] = field(default_factory=dict)
    compared: int = 0
    by_seed: dict[int, Share] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # tables that the product refused by name, and why
    findings: list[Finding] = field(default_factory=list)
    form: str = ""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether there is a finding: every kind of them is a fault."""
        return bool(self.findings)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
