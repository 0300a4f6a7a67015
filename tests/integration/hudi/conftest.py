"""Hudi's own Spark, one session for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.hudi import HudiSpark, start_hudi


@pytest.fixture(scope="session")
def hudi_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session keeps its tables."""
    return tmp_path_factory.mktemp("hudi")


@pytest.fixture(scope="package")
def hudi(hudi_folder: Path) -> Iterator[HudiSpark]:
    """A session of Spark 3.5 with Hudi."""
    session = start_hudi(hudi_folder, hudi_folder / "spark.log")
    yield session
    session.stop()
