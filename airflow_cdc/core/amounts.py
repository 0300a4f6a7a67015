"""Amounts as people write and read them: a length of time, and how many rows may be removed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.errors import ConfigError

_WRITTEN = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_READ = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_DURATION = re.compile(r"([0-9]+)\s*([smhd])")

# a time in a hundred years can still be written as a date
LONGEST_SECONDS = 100 * 366 * 86_400
LONGEST_TEXT = 100
_LIMIT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)")


def parse_duration(value: str | int) -> int:
    """Seconds of "45s", "30m", "2h", "1d", "1h 30m" or a plain number. Raises ConfigError."""
    text = str(value).strip().lower()
    if len(text) > LONGEST_TEXT:
        raise _too_long(text)
    if text.isascii() and text.isdigit():
        return _limited(int(text), text)
    pieces = _DURATION.findall(text)
    if isinstance(value, bool) or not pieces or _DURATION.sub("", text).strip():
        raise ConfigError(f"{value!r} is not a duration", todo="Write one like 30m, 2h or 1d.")
    return _limited(sum(int(number) * _WRITTEN[unit] for number, unit in pieces), text)


def _limited(seconds: int, text: str) -> int:
    if seconds > LONGEST_SECONDS:
        raise _too_long(text)
    return seconds


def _too_long(text: str) -> ConfigError:
    return ConfigError(f"{text[:40]!r} is longer than a hundred years", todo="Write one like 30m, 2h or 1d.")


def written(seconds: int) -> str:
    """A number of seconds as `parse_duration` reads it: 5400 is "1h 30m"."""
    pieces = []
    for unit, size in sorted(_WRITTEN.items(), key=lambda pair: -pair[1]):
        number, seconds = divmod(seconds, size)
        pieces += [f"{number}{unit}"] if number else []
    return " ".join(pieces) or "0s"


def span(seconds: float) -> str:
    """A number of seconds in a fitting unit, rounded down: 200 is "3 min"."""
    unit, name = next((pair for pair in _READ if seconds >= pair[0]), _READ[-1])
    return f"{int(seconds // unit)} {name}"


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
