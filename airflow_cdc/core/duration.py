"""Lengths of time as people write and read them."""

from __future__ import annotations

import re

from airflow_cdc.core.errors import ConfigError

_WRITTEN = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_READ = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_DURATION = re.compile(r"([0-9]+)\s*([smhd])")


def parse_duration(value: str | int) -> int:
    """Seconds of "45s", "30m", "2h", "1d", "1h 30m" or a plain number. Raises ConfigError."""
    text = str(value).strip().lower()
    if text.isascii() and text.isdigit():
        return int(text)
    pieces = _DURATION.findall(text)
    if isinstance(value, bool) or not pieces or _DURATION.sub("", text).strip():
        raise ConfigError(f"{value!r} is not a duration", todo="Write one like 30m, 2h or 1d.")
    return sum(int(number) * _WRITTEN[unit] for number, unit in pieces)


def span(seconds: float) -> str:
    """A number of seconds in a fitting unit, rounded down: 200 is "3 min"."""
    unit, name = next((pair for pair in _READ if seconds >= pair[0]), _READ[-1])
    return f"{int(seconds // unit)} {name}"
