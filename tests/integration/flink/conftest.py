"""A Flink cluster for the tests of this folder, over the session's MySQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack.flink import FlinkCluster, start_flink
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.integration.flink.support import QUICK, WAIT_S, Scene, compile_plan, pipeline_run


@pytest.fixture(scope="package")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """JobManager, TaskManager and SQL gateway, with the sources of Flink CDC and the sinks of Iceberg; 1 GB."""
    cluster = start_flink(tmp_path_factory.mktemp("flink") / "f", sets=("flink-iceberg",))
    yield cluster
    cluster.stop()


@pytest.fixture
def options() -> dict[str, str]:
    """Further options of the source."""
    return QUICK


@pytest.fixture
def scene(
    options: dict[str, str], mysql: MySqlServer, flink: FlinkCluster, databases: Callable[..., str], tmp_path: Path
) -> Iterator[Scene]:
    """The job has written row 1 and stored that, and runs."""
    name, plan = databases(), tmp_path / "plan.json"
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (0)")
    compile_plan(flink, mysql, name, plan, options)
    one = Scene(name, mysql, flink, pipeline_run(name, mysql, flink, plan))
    try:
        one.start()
        wait_until(lambda: one.offset() is not None or None, timeout=WAIT_S, what="the snapshot to end")
        one.insert(1)
        (one.wait_sent if options is QUICK else one.wait_written)(1)
        yield one
    finally:
        flink.cancel(name)
