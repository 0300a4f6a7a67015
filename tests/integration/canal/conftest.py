"""A Canal server of a test's own, over the session's MySQL and Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack.canal import CanalSettings, ZooKeeperServer, make_canal, start_zookeeper
from stack.mysql import MySqlServer
from stack.process import end
from tests.integration.canal.support import Scene, pipeline_run, through_kafka


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper of one server."""
    server = start_zookeeper(tmp_path_factory.mktemp("zk") / "z")
    yield server
    end(server.child)


@pytest.fixture(params=["file", pytest.param("zookeeper", marks=pytest.mark.slow)])
def mode(request: pytest.FixtureRequest) -> str:
    """Where Canal keeps its cursors."""
    return str(request.param)


@pytest.fixture
def more() -> dict[str, str]:
    """Further properties of the destination."""
    return {}


@pytest.fixture
def scene(  # noqa: PLR0917
    mode: str,
    more: dict[str, str],
    mysql: MySqlServer,
    kafka: str,
    databases: Callable[..., str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Scene]:
    """Canal has sent row 1 and stored that, and runs."""
    name = databases()
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    file, position, *_ = mysql.execute("SHOW MASTER STATUS")[0]
    zookeeper = request.getfixturevalue("zookeeper").address if mode == "zookeeper" else ""
    address = f"{mysql.host}:{mysql.port}"
    filters = {"canal.instance.filter.regex": rf"{name}\..*", **more}
    settings = CanalSettings(name, address, mysql.debezium, kafka, name, (str(file), int(position)), zookeeper, filters)
    canal = make_canal(tmp_path / "canal", settings)
    one = Scene(name, mysql, canal, pipeline_run(name, mysql, through_kafka(kafka), canal, zookeeper), zookeeper)
    try:
        canal.start()
        one.insert(1)
        one.wait_sent(1)
        yield one
    finally:
        canal.stop()
