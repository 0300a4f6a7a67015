"""MySQL 9.7 from Debian packages."""

from __future__ import annotations

from pathlib import Path

from stack.errors import UnavailableError


def unpacked() -> Path:
    """The folder that holds the unpacked packages."""
    raise UnavailableError("MySQL 9.7 can't be had on this machine")
