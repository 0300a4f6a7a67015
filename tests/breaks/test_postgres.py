"""Connections to PostgreSQL that are reset amid a result."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from stack.ports import HOST
from stack.postgres import PostgresServer, PostgresSettings
from tests.breaks.conftest import LakeAndSpark
from tests.breaks.struck import APPLY, BACKFILL, NIGHTLY, REPAIR, Application, Strikes
from tests.breaks.test_connections import check_noticed, cut_short
from tests.breaks.worlds import Servers, StruckPostgres
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def server(servers: Servers) -> PostgresServer:
    return servers.stack.add_postgres(PostgresSettings())


@pytest.fixture(scope="module")
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    with Proxy((HOST, server.port)) as made:
        yield made


@pytest.fixture(scope="module")
def struck(
    servers: Servers,
    server: PostgresServer,
    proxy: Proxy,
    local: LakeAndSpark,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Strikes]:
    name = f"b_{uuid.uuid4().hex[:8]}"
    server.execute(f"CREATE DATABASE {name}")
    server.execute("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO cdc, debezium", dbname=name)
    assert servers.stack.kafka is not None
    assert servers.stack.connect is not None
    world = StruckPostgres(
        server, local.spark, local.lake, servers.stack.kafka.bootstrap, servers.stack.connect.url,
        tmp_path_factory.mktemp("reports"), name, ("orders", "events"), at=proxy.port, broker=servers.bootstrap,
    )  # fmt: skip
    world.follow()
    strikes = Strikes("PostgreSQL", world, (server.cdc.password, server.password))
    yield strikes
    world.connector.delete(name)


@pytest.mark.parametrize("application", [APPLY, NIGHTLY, REPAIR, BACKFILL], ids=lambda one: one.name)
def test_a_result_of_postgres_that_is_cut_short(proxy: Proxy, struck: Strikes, application: Application) -> None:
    check_noticed(struck.strike(application, cut_short(proxy)))
