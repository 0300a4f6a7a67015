"""Measures a run of pytest by file, where CDC_TEST_TIMES names a file to write to (`make test` sets it).

Each worker of pytest-xdist measures itself and gives what it has to the one that started it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.times.sampler import Sampler

WHERE: Final = "CDC_TEST_TIMES"
COLLECTING: Final = "(collecting)"
_KEY: Final = "times"


def register(config: pytest.Config) -> None:
    """Measure this run, if it is to be."""
    if where := os.environ.get(WHERE):
        config.pluginmanager.register(Times(config, Path(where)))


class Times:
    """One process of a run: a worker, the one that starts them, or the only one."""

    def __init__(self, config: pytest.Config, where: Path) -> None:
        self.where = where
        self.worker: dict[str, Any] | None = getattr(config, "workeroutput", None)
        # the one that starts workers runs no test
        idle = self.worker is None and bool(config.getoption("numprocesses", None))
        name = getattr(config, "workerinput", {}).get("workerid", "main")
        self.sampler = None if idle else Sampler(name)
        self.files: list[dict[str, Any]] = []
        if self.sampler:
            self.sampler.open(COLLECTING)
            del os.environ[WHERE]  # a pytest that a test runs is no part of this one

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        try:
            return (yield)
        finally:
            if self.sampler:
                self.sampler.close()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        if self.sampler:
            self.sampler.open(item.location[0]).tests += 1
        try:
            return (yield)
        finally:
            # the next file's first test may come much later
            if self.sampler and (nextitem is None or nextitem.location[0] != item.location[0]):
                self.sampler.close()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker has ended. One that crashed has given nothing."""
        self.files += getattr(node, "workeroutput", {}).get(_KEY, [])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self.sampler:
            self.files = self.sampler.stop()
            self.sampler = None
        if self.worker is not None:
            self.worker[_KEY] = self.files

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        if self.worker is None:
            self.where.write_text(json.dumps(self.files))
