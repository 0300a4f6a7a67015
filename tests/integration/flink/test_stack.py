"""A real Flink from Maven's artifacts: it starts, reads MySQL's log, writes Iceberg tables, and ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stack import versions
from stack.errors import StackError
from stack.flink import SLOTS, FlinkCluster, start_flink
from stack.guard import descendants
from stack.mysql import MySqlServer
from stack.process import start_time, wait_until
from tests.integration.flink.support import source_table
from tests.integration.test_stack import listening

pytestmark = pytest.mark.slow

WAIT_S = 90.0


def test_it_is_the_version_it_should_be_with_all_its_slots(flink: FlinkCluster) -> None:
    overview = flink.call("GET", "/overview")
    assert (overview["flink-version"], overview["slots-total"]) == (versions.FLINK, SLOTS)


def test_a_statement_that_fails_says_so(flink: FlinkCluster) -> None:
    with pytest.raises(StackError, match="no_such_table"):
        flink.sql("SELECT * FROM no_such_table")


def test_a_change_travels_from_mysql_into_an_iceberg_table(
    flink: FlinkCluster, mysql: MySqlServer, databases: Callable[..., str], lake_properties: dict[str, str]
) -> None:
    name = databases()
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (1), (2)")
    declared = lake(lake_properties)
    flink.sql(
        declared,
        f"CREATE DATABASE lake.{name}",
        f"CREATE TABLE lake.{name}.t (id INT, PRIMARY KEY (id) NOT ENFORCED)"
        " WITH ('format-version' = '2', 'write.upsert.enabled' = 'true')",
        source_table(mysql, name),
        f"INSERT INTO lake.{name}.t SELECT * FROM t",
        properties={"pipeline.name": name},
    )

    def ids() -> list[int]:
        """Read by Flink: PyIceberg does not read the equality deletes that Flink writes."""
        batch = {"execution.runtime-mode": "batch"}
        return sorted(row["id"] for row in flink.sql(declared, f"SELECT id FROM lake.{name}.t", properties=batch))

    try:
        wait_until(lambda: ids() == [1, 2] or None, timeout=WAIT_S, what="the snapshot", interval=1)
        mysql.execute(f"INSERT INTO {name}.t VALUES (3)", f"DELETE FROM {name}.t WHERE id = 1")
        wait_until(lambda: ids() == [2, 3] or None, timeout=WAIT_S, what="the changes", interval=1)
    finally:
        flink.cancel(name)


def lake(lake_properties: dict[str, str]) -> str:
    """The statement that declares the catalog `lake`, which PyIceberg and Spark know under the same name."""
    options = {
        "type": "iceberg",
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:{lake_properties['uri'].replace('sqlite:///', 'sqlite:')}",
        "jdbc.schema-version": "V1",
        "warehouse": lake_properties["warehouse"],
    }
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE CATALOG lake WITH ({given})"


def test_it_is_reachable_from_this_machine_only_and_ends_with_all_its_processes(tmp_path: Path) -> None:
    cluster = start_flink(tmp_path / "f")
    pids = [pid for child in cluster.children for pid in (child.pid, *descendants(child.pid))]
    try:
        assert listening(set(pids)) == {"0100007F"}
    finally:
        cluster.stop()
    assert wait_until(lambda: all(start_time(pid) is None for pid in pids) or None, timeout=30, what="it is gone")
