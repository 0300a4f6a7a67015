"""A whole pipeline whose decoder misreads one column, while its two rows never rest: real connector, real topic (INV 28)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.table import Column, Table
from airflow_cdc.events.decoder import Plan
from airflow_cdc.events.value import Value, Values
from airflow_cdc.flows.run import RunOptions
from airflow_cdc.spark_apps.adapters import debezium
from airflow_cdc.spark_apps.apply import few
from airflow_cdc.spark_apps.compare import tail
from airflow_cdc.spark_apps.repair import repair
from tests.integration.followed import Followed
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from stack.connect import ConnectWorker

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

# generated columns stand in every image of a row too, in the one before a change as well
TABLE = """CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(20), n INT,
  g INT AS (n + 1) VIRTUAL, s VARCHAR(20) AS (CONCAT('s', n)) STORED, d DATE AS (DATE'2020-01-01' + INTERVAL n DAY) VIRTUAL)"""
MODES = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}


@pytest.fixture
def followed(rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path) -> Iterator[Followed]:
    made = Followed(rig, connect_worker, kafka, tmp_path, {"t": TABLE})
    made.follow(MODES)
    made.stamp()
    yield made
    connect_worker.call("DELETE", f"/connectors/{made.base.pipeline.connector.name}")


@contextmanager
def hot(rig: Rig) -> Iterator[None]:
    """Every row of `t` gets another `n` about 30 times a second."""
    stop = threading.Event()

    def write() -> None:
        with closing(rig.server.connect(database=rig.schema)) as connection, connection.cursor() as cursor:
            while not stop.wait(1 / 30):
                cursor.execute("UPDATE t SET n = n + 1")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True)
class Misread:
    """As the values that it is made of, but it takes é for Å in the column `v`."""

    right: Values

    @property
    def way_out(self) -> str:
        return self.right.way_out

    def check_table(self, table: Table) -> None:
        self.right.check_table(table)

    def value(self, column: Column) -> Value:
        value = self.right.value(column)
        return replace(value, read=takes_one_letter_for_another) if column.name == "v" else value


def takes_one_letter_for_another(text: str) -> str:
    return text.replace("é", "Å")


PLAN = debezium.Events._plan


def misread(events: debezium.Events, *which: Any) -> Plan:
    plan = PLAN(events, *which)
    return replace(plan, values=Misread(plan.values))


@pytest.mark.parametrize(
    "by_spark", [pytest.param(True, marks=pytest.mark.slow, id="by Spark"), pytest.param(False, id="in memory")]
)
def test_inv_28_a_decoder_that_is_always_wrong_is_found_in_rows_that_never_rest(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, by_spark: bool
) -> None:
    """The same decoder writes the sink and reads the events in flight; the source's own rows show it."""
    if by_spark:
        for module in (few, tail):
            monkeypatch.setattr(module, "FEW", 0)
    rig = followed.rig
    rig.run("INSERT INTO t (id, v, n) VALUES (1, 'é', 0), (2, 'é', 0)")
    followed.apply("run-1")
    with hot(rig):
        right = repair(replace(followed.base, run_id="run-2", options=RunOptions(dry_run=True)), rig.spark)
    assert right["verdict"] == "MATCH"
    monkeypatch.setattr(debezium.Events, "_plan", misread)
    rig.run("UPDATE t SET n = 0")
    followed.apply("run-3")
    with hot(rig):
        wrong = repair(replace(followed.base, run_id="run-4", options=RunOptions(dry_run=True)), rig.spark)
    assert wrong["verdict"] == "MISMATCH"
    assert sorted(wrong["plans"][f"{rig.schema}.t"]["first"]) == ["different: 1", "different: 2"]
