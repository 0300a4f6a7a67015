"""A source, a broker, a worker with the JDBC sink and a target, for the tests of one folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.jdbc.fed import Fed, Servers, started
from tests.integration.jdbc.fed_postgres import FromPostgres


@pytest.fixture(scope="package")
def path_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with started(tmp_path_factory.mktemp("jdbc")) as servers:
        yield servers


@pytest.fixture
def fed(path_servers: Servers) -> Iterator[Fed]:
    made = Fed(path_servers)
    yield made
    made.close()


@pytest.fixture
def from_postgres(path_servers: Servers) -> Iterator[FromPostgres]:
    made = FromPostgres(path_servers)
    yield made
    made.close()
