"""Local times of a zone, as a JVM writes them, and the instants that they mean.

A zone's rules are a value that travels with the settings: an executor may have no time zone database.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Final
from zoneinfo import TZPATH, ZoneInfo, ZoneInfoNotFoundError

EPOCH, MICRO = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_PACKAGE: Final = "tzdata"


@lru_cache(maxsize=100)
def rules_of(zone: str) -> bytes:
    """The rules (a TZif file) of a zone that ZoneInfo knows. Raises ZoneInfoNotFoundError, or ValueError for a name that is none."""
    ZoneInfo(zone)
    for folder in TZPATH:
        if (path := Path(folder) / zone).is_file():
            return path.read_bytes()
    try:
        return resources.files(_PACKAGE).joinpath("zoneinfo", *zone.split("/")).read_bytes()
    except (ModuleNotFoundError, OSError) as error:
        raise ZoneInfoNotFoundError(zone) from error


def zone_of(rules: bytes) -> ZoneInfo:
    """A zone by its rules alone."""
    return ZoneInfo.from_file(BytesIO(rules))


def instant_of(local: datetime, zone: ZoneInfo) -> int | None:
    """Microseconds since 1970 of a local time without a zone; None for an hour that comes twice, or not at all."""
    first = local.replace(tzinfo=zone)
    if first.utcoffset() != first.replace(fold=1).utcoffset():
        return None
    return (first - EPOCH) // MICRO
