"""A session of Hudi's Spark in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyspark
import pytest

from stack.versions import SPARK_OF_HUDI
from tests.on_hudi.session import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# with another Spark there is nothing to collect
collect_ignore_glob = [] if pyspark.__version__ == SPARK_OF_HUDI else ["test_*.py"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session, with the applications' functions."""
    with hudi_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return f"t_{uuid.uuid4().hex[:8]}"
