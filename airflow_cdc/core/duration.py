"""Lengths of time as people write and read them."""

from __future__ import annotations

import re

from airflow_cdc.core.errors import ConfigError

_WRITTEN = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_READ = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_DURATION = re.compile(r"([0-9]+)\s*([smhd])")

# a time in a hundred years can still be written as a date
LONGEST_SECONDS = 100 * 366 * 86_400
LONGEST_TEXT = 100


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
