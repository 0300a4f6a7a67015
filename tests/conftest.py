"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# how long one example takes says how busy the machine is, and nothing about the code
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

FAST = ("unit", "contract")


def pytest_configure(config: pytest.Config) -> None:
    """A socket that is left open is an error where no server is used.

    With real servers it is not: pyspark and kafka-python leave sockets to the collector, and proxies that cut a connection in
    the middle leave one on purpose; which test that falls on is chance.
    """
    here = Path(__file__).parent
    asked = [Path(str(word).partition("::")[0]).resolve() for word in config.args]
    if not all(any(here / name in (path, *path.parents) for name in FAST) for path in asked):
        for kind in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
            config.addinivalue_line("filterwarnings", f"ignore::{kind}")
