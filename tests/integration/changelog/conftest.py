"""A source, a broker and a worker with Iceberg's sink, for the tests of one folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_cdc.sinks.iceberg.client import Lake
from tests.integration.changelog.logged import Logged, started
from tests.integration.jdbc.fed import Servers


@pytest.fixture(scope="package")
def log_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with started(tmp_path_factory.mktemp("changelog")) as servers:
        yield servers


@pytest.fixture
def logged(log_servers: Servers, lake_properties: dict[str, str]) -> Iterator[Logged]:
    lake = Lake("lake", lake_properties)
    made = Logged(log_servers, lake=lake)
    yield made
    made.close()
    lake.close()
