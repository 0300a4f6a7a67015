"""Hudi tables of a real Flink job, compared while it writes, and refused where it would not find what a recovery wrote.

The recovery is the rows "Flink CDC to Hudi" of `make systems`. Run where stack.hudi.flink_bundle has Hudi's bundle for Flink.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.errors import ConnectorError, SchemaError
from tests.systems.flink_hudi import CASES, opened
from tests.systems.flink_mysql import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.on_hudi.flink import FlinkIntoHudi

pytestmark = pytest.mark.skipif(bool(CASES[0].left_out), reason=CASES[0].left_out or "it can be run")


@pytest.fixture
def servers(tmp_path: Path, spark: SparkSession) -> Iterator[FlinkIntoHudi]:
    """A server, a cluster, and a table that no job reads yet."""
    unused: Any = None
    with ExitStack() as stack:
        system = stack.enter_context(opened(tmp_path, spark, unused, "merge-on-read"))
        followed: Any = system.followed
        yield followed


def test_a_night_compares_the_table_while_the_job_writes_it(servers: FlinkIntoHudi) -> None:
    servers.follow()
    # in its own snapshot Flink CDC writes a JSON document as MySQL does, which is another text than ours
    servers.execute(rows(1, 200))
    servers.wait_read()
    assert servers.compare("night")["verdict"] == "MATCH"
    # a second start by the same gateway finds none of the sink's state
    servers.connector.stop(servers.database)
    with pytest.raises(ConnectorError, match="Restart the SQL gateway"):
        servers.connector.resume(servers.database)
    servers.go_on()
    servers.execute("DELETE FROM kinds WHERE id = 7", rows(301, 301))
    servers.wait_read()
    assert servers.compare("second")["verdict"] == "MATCH"


def test_a_state_index_is_refused_before_anything_is_read(servers: FlinkIntoHudi) -> None:
    servers.more = {"index.type": "FLINK_STATE"}
    servers.execute(rows(1, 200))
    servers.follow()
    servers.connector.stop(servers.database)
    servers.execute("DELETE FROM kinds WHERE id = 7")
    servers.purge()
    with pytest.raises(SchemaError, match=r"only index\.type = BUCKET is supported"):
        servers.recover("recovery")
    sink: Any = servers.base.clients.sink
    assert sink.stages(servers.database) == ()
    assert "replacecommit" not in {commit.action for commit in sink.commits((servers.database, "kinds"))}
