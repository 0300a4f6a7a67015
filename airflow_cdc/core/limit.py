"""How many rows may be removed, as people write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.errors import ConfigError

_LIMIT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)")


@dataclass(frozen=True, slots=True)
class Limit:
    """A number of rows, or a share of them: "1000" or "1%" (`amount` 1.0, `percent` True)."""

    amount: float
    percent: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "amount", float(self.amount))

    @classmethod
    def parse(cls, value: str | float) -> Limit:
        """Read "1%" or 1000. Raises ConfigError."""
        match = None if isinstance(value, bool) else _LIMIT.fullmatch(str(value).strip())
        if match is None or (match[2] and float(match[1]) > 100):
            raise ConfigError(f"{value!r} is not a limit", todo="Write a number of rows or a share like 1%.")
        return cls(float(match[1]), bool(match[2]))

    def __str__(self) -> str:
        return f"{self.amount:g}%" if self.percent else f"{self.amount:.0f}"

    def exceeded_by(self, removed: int, total: int) -> bool:
        """Whether removing `removed` of `total` rows is more than allowed."""
        return removed > (total * self.amount / 100 if self.percent else self.amount)
