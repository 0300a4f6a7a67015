"""A source on which nobody writes, or only tables that Canal passes over: quiet is told from stuck, and from lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import DeadlineError
from airflow_cdc.core.observation import SourceFacts
from airflow_cdc.decisions.diagnosis import diagnose as judging
from airflow_cdc.decisions.diagnosis.diagnose import diagnose
from airflow_cdc.flows.forecast import forecast_pipeline
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.reached import wait_past, wait_reading
from airflow_cdc.kinds import rules_for
from airflow_cdc.reports.stored import StoredObservation
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.integration.canal.support import WAIT_S, Scene

# kafka-python reads its own message schemas with a deprecated call
pytestmark = [
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
    pytest.mark.parametrize("mode", ["file"]),
]
WRITES = "insert into retl.xdual values(1,now()) on duplicate key update x=now()"
STANDSTILL_S = 12


def by_gtid(mysql: MySqlServer) -> dict[str, str]:
    executed = str(mysql.execute("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
    return {"canal.instance.gtidon": "true", "canal.instance.master.gtid": executed}


def beating(mysql: MySqlServer, sql: str = WRITES) -> dict[str, str]:
    """What lets Canal write to its source every three seconds."""
    mysql.execute(
        "CREATE DATABASE IF NOT EXISTS retl",
        "CREATE TABLE IF NOT EXISTS retl.xdual (id INT PRIMARY KEY, x TIMESTAMP NULL)",
        f"GRANT SELECT, INSERT, UPDATE ON retl.xdual TO '{mysql.debezium.user}'@'%'",
    )
    return {"canal.instance.detecting.enable": "true", "canal.instance.detecting.sql": sql}


def burst_elsewhere(scene: Scene) -> None:
    """Three transactions of a table that Canal passes over, within moments; then nobody writes."""
    other = f"{scene.name}_other"
    scene.sql(f"CREATE DATABASE IF NOT EXISTS {other}", f"CREATE TABLE IF NOT EXISTS {other}.o (id INT)")
    for number in range(3):
        scene.sql(f"INSERT INTO {other}.o VALUES ({number})")


def hurried(scene: Scene, seconds: int) -> Scene:
    """The scene with another policy.standstill."""
    policy = replace(scene.run.pipeline.policy, standstill=seconds)
    return replace(scene, run=replace(scene.run, pipeline=replace(scene.run.pipeline, policy=policy)))


def facts(scene: Scene) -> tuple[SourceFacts, StoredObservation]:
    """What the server says of the cursor's place, and what is stored of it for the page."""
    seen = observe(scene.run, watch=0.0)
    assert isinstance(seen.source, SourceFacts), seen.source
    return seen.source, StoredObservation.of(seen, diagnose(seen, rules_for(scene.run.pipeline)))


@contextmanager
def frozen(scene: Scene) -> Iterator[None]:
    """Canal's process stands still: its `status` says that it runs, and its log says nothing."""
    child = scene.canal.child
    assert child is not None
    os.kill(child.server_pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(child.server_pid, signal.SIGCONT)


class TestWithoutHeartbeats:
    """Canal as it comes: its cursor rests where the last transaction was that it passed on."""

    @pytest.fixture
    def more(self, mysql: MySqlServer) -> dict[str, str]:
        return {**beating(mysql, "select 1"), **by_gtid(mysql)}

    def test_a_cursor_that_has_read_everything_is_neither_behind_nor_at_risk_nor_lost(self, scene: Scene) -> None:
        """Its place is where the last commit begins, in a file that is closed and then purged: by GTID it needs none."""
        source, stored = facts(scene)
        assert not source.more_to_read
        for remove in (False, True):
            if remove:
                scene.purge()
            else:
                scene.sql("FLUSH BINARY LOGS")
            source, stored = facts(scene)
            assert stored.diagnosis.code == "HEALTHY", stored.diagnosis
            assert not source.more_to_read
            assert stored.retention is not None
            assert stored.retention.left == 1
            assert stored.forecast is not None
            assert stored.forecast.in_newest_file
            assert forecast_pipeline(scene.run).forecast.basis.startswith("the newest file")
        scene.insert(2)
        scene.wait_sent(2)
        assert scene.ids() == [1, 2]

    def test_it_rests_before_transactions_that_hold_nothing_for_it(self, scene: Scene) -> None:
        """So neither a standstill nor a wait can be judged: what is not read is unknown, and a wait says so."""
        slow = hurried(scene, STANDSTILL_S)
        burst_elsewhere(scene)
        with pytest.raises(DeadlineError):
            wait_past(slow.run, scene.run.clients.source.position())
        assert facts(scene)[1].behind
        assert scene.diagnosis().code == "HEALTHY"
        scene.insert(2)
        burst_elsewhere(scene)
        scene.wait_sent(2)  # the row's own place, not that of what others write behind it

    def test_a_start_on_a_server_where_nobody_writes_is_not_seen(self, scene: Scene) -> None:
        cursor = scene.cursor()
        assert cursor is not None
        with pytest.raises(DeadlineError):
            wait_reading(hurried(scene, STANDSTILL_S).run, cursor)


@pytest.mark.slow
class TestWithHeartbeats:
    """Canal writes a row of a table of its own every three seconds."""

    @pytest.fixture
    def more(self, mysql: MySqlServer) -> dict[str, str]:
        return {**beating(mysql), **by_gtid(mysql)}

    def test_waits_end_although_nobody_else_writes(self, scene: Scene) -> None:
        slow = hurried(scene, STANDSTILL_S)
        burst_elsewhere(scene)
        assert wait_past(slow.run, scene.run.clients.source.position()).position is not None
        cursor = scene.cursor()
        assert cursor is not None
        assert wait_reading(slow.run, cursor) == "offset"
        assert scene.ids() == [1]

    def test_a_canal_that_stands_still_is_told_from_one_that_has_nothing_to_do(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(judging, "_STUCK_AFTER_S", 4)

        def watched(seconds: float) -> str:
            return diagnose(observe(scene.run, watch=seconds), rules_for(scene.run.pipeline)).code

        def stuck() -> str | None:
            code = watched(2)
            return code if code != "HEALTHY" else None

        assert watched(20) == "HEALTHY"
        with frozen(scene):
            for number in (2, 3):
                scene.insert(number)
            code = wait_until(stuck, timeout=WAIT_S, what="the standstill")
            assert code == "CONNECTOR_LOOPING"
        wait_until(lambda: scene.ids() == [1, 2, 3] or None, timeout=WAIT_S, what="the rows once it goes on")
        assert watched(20) == "HEALTHY"


@pytest.mark.slow
class TestByFile:
    """By file and position a place is lost with its file, read or not: only a cursor that moves gets out of it."""

    @pytest.fixture(params=[True, False], ids=["heartbeats", "none"])
    def more(self, request: pytest.FixtureRequest, mysql: MySqlServer) -> dict[str, str]:
        return beating(mysql) if request.param else {}

    def test_a_file_that_is_purged_takes_a_resting_cursor_with_it(self, scene: Scene, more: dict[str, str]) -> None:
        scene.sql("FLUSH BINARY LOGS")
        newest = scene.end()[0]

        def left_the_file() -> bool | None:
            cursor: Any = scene.cursor()
            return cursor["postion"]["journalName"] == newest or None

        if more:
            wait_until(left_the_file, timeout=WAIT_S, what="a heartbeat to move the cursor")
        _, stored = facts(scene)
        assert stored.forecast is not None
        assert stored.forecast.in_newest_file is bool(more)
        scene.sql(f"PURGE BINARY LOGS TO '{newest}'")
        assert scene.diagnosis().code == ("HEALTHY" if more else "BINLOG_PURGED")
