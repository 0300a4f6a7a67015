"""Fixtures on the real servers of `stack/`: started once per session, ended with it.

`CDC_TEST_STACK=<dir>` uses a stack that runs already (`python -m stack up --keep --dir <dir>`), which saves the start
while one works on a single test.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql
import pytest

import stack
from stack.connect import ConnectWorker
from stack.errors import log_tail
from stack.kafka import KafkaBroker
from stack.mysql import MySqlServer, MySqlSettings
from stack.rabbitmq import RabbitServer, start_rabbitmq
from stack.versions import mariadb_series
from tests.integration.certificates import Certificates, make_certificates
from tests.spark_session import COLLECTED, embedded_catalog, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.integration.rig import Rig

HERE = Path(__file__).parent
# files small enough for several of them to come up in a test
WITH_GTIDS = MySqlSettings(max_binlog_size=4194304)
WITHOUT_GTIDS = MySqlSettings(name="mysql-nogtid", server_id=102, gtid=False, max_binlog_size=4194304)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs the real servers."""
    ours = [item for item in items if HERE in item.path.parents]
    spark = any("spark" in getattr(item, "fixturenames", ()) for item in ours)
    for item in ours:
        item.add_marker(pytest.mark.real)
        if spark:
            item.add_marker(pytest.mark.filterwarnings(COLLECTED))


@pytest.fixture(scope="session")
def stack_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of this session's stack (logs in `<stack_dir>/logs`)."""
    running = os.environ.get("CDC_TEST_STACK")
    return Path(running) if running else tmp_path_factory.mktemp("stack") / "s"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority, a server's certificate by it, and a strange authority."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def servers(stack_dir: Path) -> Iterator[stack.Stack]:
    """The running stack; other server fixtures are parts of it."""
    if os.environ.get("CDC_TEST_STACK"):
        yield stack.Stack.load(stack_dir)
        return
    with stack.start(stack_dir, services=()) as started:
        yield started


@pytest.fixture(scope="session")
def mysql(servers: stack.Stack) -> MySqlServer:
    """MySQL with GTIDs (`host`, `port`, `user`, `password`; logins `.cdc` and `.debezium`)."""
    return servers.mysql.get(WITH_GTIDS.name) or servers.add_mysql(WITH_GTIDS)


@pytest.fixture(scope="session")
def mysql_nogtid(servers: stack.Stack) -> MySqlServer:
    """A second MySQL with gtid_mode=OFF, started when the first test asks for it."""
    return servers.mysql.get(WITHOUT_GTIDS.name) or servers.add_mysql(WITHOUT_GTIDS)


@pytest.fixture(scope="session")
def mariadb_server(servers: stack.Stack) -> MySqlServer:
    """A MariaDB (10.11; STACK_MYSQL: another), started when the first test asks for it."""
    settings = MySqlSettings(name="mariadb", server_id=103, series=mariadb_series(), max_binlog_size=4194304)
    return servers.mysql.get(settings.name) or servers.add_mysql(settings)


@pytest.fixture(scope="session")
def kafka_broker(servers: stack.Stack) -> KafkaBroker:
    """The Kafka broker."""
    return servers.kafka or servers.add_kafka()


@pytest.fixture(scope="session")
def kafka(kafka_broker: KafkaBroker) -> str:
    """bootstrap.servers of the broker."""
    return kafka_broker.bootstrap


@pytest.fixture(scope="session")
def rabbit(servers: stack.Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """A RabbitMQ server, started when the first test asks for it."""
    server = start_rabbitmq(tmp_path_factory.mktemp("rabbit"), servers.logs)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def connect_worker(servers: stack.Stack, kafka_broker: KafkaBroker) -> ConnectWorker:
    """The Kafka Connect worker; `.call(method, path, body)` is its REST API."""
    return servers.connect or servers.add_connect()


@pytest.fixture(scope="session")
def connect(connect_worker: ConnectWorker) -> str:
    """URL of the Kafka Connect worker."""
    return connect_worker.url


@pytest.fixture(scope="session")
def lake_properties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Properties of an embedded Iceberg catalog (SQLite file and local warehouse) for PyIceberg."""
    return embedded_catalog(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, lake_properties: dict[str, str]) -> Iterator[SparkSession]:
    """A Spark session; the catalog `lake` is that of `lake_properties`."""
    with local_session(tmp_path_factory.mktemp("spark"), lake_properties) as session:
        yield session


@pytest.fixture
def databases(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """`databases(server=None, prefix="t") -> name`: a fresh, empty database per call, dropped after the test."""
    made: list[tuple[MySqlServer, str]] = []

    def make(server: MySqlServer | None = None, prefix: str = "t") -> str:
        chosen = server or request.getfixturevalue("mysql")
        name = f"{prefix}_{uuid.uuid4().hex[:8]}"
        try:
            chosen.execute(f"CREATE DATABASE `{name}`")
        except pymysql.err.OperationalError as error:
            error.add_note(f"end of {chosen.child.log}:\n{log_tail(Path(chosen.child.log))}")
            raise
        made.append((chosen, name))
        return name

    yield make
    for server, name in made:
        server.execute(f"DROP DATABASE IF EXISTS `{name}`")


@pytest.fixture
def rig(mysql: MySqlServer, spark: SparkSession, lake_properties: dict[str, str], databases: Callable[..., str]) -> Rig:
    """A fresh database on the server, and the lake that it is copied into."""
    from airflow_cdc.sinks.iceberg.client import Lake
    from tests.integration.rig import Rig

    return Rig(mysql, spark, Lake("lake", lake_properties), databases())
