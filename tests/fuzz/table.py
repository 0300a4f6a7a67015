"""The table of parsers: what reads bytes and texts of others, and with which inputs it is tried."""

from __future__ import annotations

from typing import Final

from tests.fuzz import connectors, events, positions, services, stored, words
from tests.fuzz.parser import Parser

PARSERS: Final[tuple[Parser, ...]] = (
    *positions.PARSERS,
    *connectors.PARSERS,
    *events.PARSERS,
    *words.PARSERS,
    *stored.PARSERS,
    *services.PARSERS,
)
