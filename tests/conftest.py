"""What all tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.times import order, plugin

# how long one example takes says how busy the machine is, and nothing about the code
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

FAST = ("unit", "contract")
# a test that takes longer says so by a mark
LONGEST_SECONDS = 60.0
MARKS = frozenset({"slow", "minutes"})


def pytest_configure(config: pytest.Config) -> None:
    """Measure the run if it is to be measured. A socket that is left open is an error where no server is used.

    With real servers it is not: pyspark and kafka-python leave sockets to the collector, and proxies that cut a connection in
    the middle leave one on purpose; which test that falls on is chance.
    """
    plugin.register(config)
    here = Path(__file__).parent
    asked = [Path(str(word).partition("::")[0]).resolve() for word in config.args]
    if not all(any(here / name in (path, *path.parents) for name in FAST) for path in asked):
        for kind in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
            config.addinivalue_line("filterwarnings", f"ignore::{kind}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> order.ByRoom | None:
    """Where whole files go to workers, those that share a server go to one."""
    return order.ByRoom(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that took over a minute and have no mark that says so.

    Not a failure: a busy machine makes any test slow.
    """
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            if report.when == "call" and report.duration > LONGEST_SECONDS and not MARKS & set(report.keywords):
                terminalreporter.write_line(f"over a minute, and not marked: {report.nodeid} ({report.duration:.0f} s)")
