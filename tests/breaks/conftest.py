"""One MySQL, one broker and one Connect for all of `make breaks`, a session of Spark, and an object store."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stack
from airflow_cdc.sinks.iceberg.client import Lake
from stack import fetch
from stack.object_store import ObjectStore
from tests.breaks.store_proxy import StoreProxy
from tests.breaks.struck import Strikes
from tests.breaks.worlds import Servers, StruckMySql, behind_proxies, store_behind_a_proxy
from tests.spark_session import embedded_catalog
from tests.systems.running import lake_and_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
MakeWorld = Callable[..., Strikes]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of it needs real servers, and is `make breaks`."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.real)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@dataclass(frozen=True, slots=True)
class LakeAndSpark:
    """A session, and the lake that it knows from its start."""

    lake: Lake
    spark: SparkSession


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as opened:
        running = opened.enter_context(stack.start(tmp_path_factory.mktemp("stack") / "s", ("mysql",)))
        yield opened.enter_context(behind_proxies(running, running.mysql["mysql"].port))


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeAndSpark]:
    folder = tmp_path_factory.mktemp("lake")
    with lake_and_spark(folder, embedded_catalog(folder), fetch.set_jars("spark-s3")) as (lake, spark):
        yield LakeAndSpark(lake, spark)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ObjectStore, StoreProxy]]:
    with store_behind_a_proxy(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture(scope="module")
def followed(servers: Servers, local: LakeAndSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeWorld]:
    """`followed(system, lake=None, folder=None)`: a database of its own whose rows are all applied; what struck it is kept."""
    made: list[Strikes] = []

    def make(system: str, lake: Lake | None = None, folder: Path | None = None) -> Strikes:
        server, name = servers.stack.mysql["mysql"], f"b_{uuid.uuid4().hex[:8]}"
        server.execute(f"CREATE DATABASE {name}")
        assert servers.stack.kafka is not None
        assert servers.stack.connect is not None
        world = StruckMySql(
            server, local.spark, lake or local.lake, servers.stack.kafka.bootstrap, servers.stack.connect.url,
            folder or tmp_path_factory.mktemp("reports"), name, ("orders", "events"),
            at=servers.source.port, broker=servers.bootstrap,
        )  # fmt: skip
        world.follow()
        made.append(Strikes(system, world, (server.cdc.password, server.debezium.password, server.password)))
        return made[-1]

    yield make
    for strikes in made:
        strikes.world.connector.delete(strikes.world.database)
