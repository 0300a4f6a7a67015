"""policy.throttle on a real server: a busy source holds reading back, and no more connections read than are allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.pipeline import HoldPolicy, Policy, ThrottlePolicy
from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import connector, reset_offset, watermark
from airflow_cdc.flows import run as run_module
from airflow_cdc.flows.close import close
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.doctor import check_throttle
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.flows.stages import staging_of
from airflow_cdc.spark_apps.driver import throttle
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.verify import verify
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.integration.busy import busy_mysql
from tests.integration.followed import Followed
from tests.integration.replicated import client
from tests.integration.rig import Rig
from tests.integration.test_detour import pair_servers  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from stack.connect import ConnectWorker

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

# so large that a statement is still sending while Spark reads it
ROWS = 40_000
CHUNK_ROWS = 10_000
KEYED = ("t0", "t1", "t2", "t3")
TABLES = {name: f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(600), j JSON)" for name in KEYED} | {
    "bag": "CREATE TABLE bag (n INT, v VARCHAR(9))"
}
FILL = (
    "INSERT INTO {0} WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < {1})"
    " SELECT i, CONCAT('row ', REPEAT(MD5(i), 16)), JSON_OBJECT('i', i) FROM n"
)
# the server's own record of every statement that read a table of the pipeline, with its begin and end
RECORD = (
    "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME LIKE 'events_statements_%'",
    "TRUNCATE performance_schema.events_statements_history_long",
)
RECORDED = (
    "SELECT TIMER_START, TIMER_END FROM performance_schema.events_statements_history_long"
    " WHERE SQL_TEXT LIKE 'SELECT%`{0}`.`%'"
)


@pytest.fixture
def followed(rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path) -> Iterator[Followed]:
    """Four tables with a key and a column outside the digest, and one without a key, all with rows that were never read."""
    rig.run("SET sql_log_bin = 0", *TABLES.values(), *(FILL.format(name, ROWS) for name in KEYED))
    made = Followed(rig, connect_worker, kafka, tmp_path, dict.fromkeys(TABLES, "SELECT 1"))
    made.follow({})
    rig.run("INSERT INTO bag VALUES (1, 'x'), (1, 'x')")
    yield made
    connect_worker.call("DELETE", f"/connectors/{made.base.pipeline.connector.name}")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the throttle logs."""
    seen: list[str] = []
    monkeypatch.setattr(throttle.log, "info", lambda text, *args: seen.append(text % args))
    return seen


def limited(followed: Followed, limits: ThrottlePolicy, tables: Sequence[str] = (), **policy: Any) -> Run:
    """A run under these limits, with an open recovery of these tables (default: all) at W."""
    allowed = Policy(hold=HoldPolicy(mode="off"), throttle=limits, **policy)
    pipeline = replace(followed.base.pipeline, policy=allowed)
    options = RunOptions(approved=True, tables=tuple(f"{followed.rig.schema}.{name}" for name in tables))
    run = replace(followed.base, pipeline=pipeline, run_id="rec-1", options=options)
    open_recovery(run, Decision.from_json(decide(run, "full_snapshot")))
    connector.stop(run)
    watermark.fence_and_watermark(run)
    return run


def threads(run: Run) -> int:
    """How many statements run now, beside the one that asks."""
    load = run.clients.source.load(ThrottlePolicy(threads_running=1))
    assert load.running is not None
    return load.running


def staged(run: Run) -> int:
    """How many commits of the recovery's stages hold rows or end a read."""
    sink = staging_of(run)
    chains = [sink.stage_chain(stage) for stage in sink.stages(run.pipeline.sink.namespace)]
    ledgers = [commit.ledger for chain in chains for commit in chain]
    return sum(ledger is not None and bool(ledger.rows or ledger.complete) for ledger in ledgers)


def test_a_busy_source_holds_a_snapshot_back_and_no_table_is_locked_meanwhile(
    followed: Followed, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, quiet = followed.rig, threads(followed.base)
    monkeypatch.setattr(run_module, "LEASE_SECONDS", 6.0)  # renewed every few seconds: otherwise it would end here
    run = limited(followed, ThrottlePolicy(threads_running=quiet + 2), ["bag"])
    (check,) = check_throttle(run)
    assert check.state == "ok"
    with ThreadPoolExecutor(1) as pool:
        with busy_mysql(rig.server, 6):
            running = pool.submit(recover, run, rig.spark)
            wait_until(lambda: bool(lines) or None, timeout=120, what="the snapshot to wait")
            begun = run.clients.control.facts().lease
            assert lines[0].startswith(f"{rig.schema}.bag: reading waits: threads_running is ")
            assert lines[0].endswith(f"and policy.throttle allows {quiet + 2}")
            rig.run("SET SESSION lock_wait_timeout = 2", "INSERT INTO bag VALUES (2, 'y')")

            def renewed() -> bool | None:
                lease = run.clients.control.facts().lease
                assert lease is not None
                assert begun is not None
                return lease.expires_at > begun.expires_at or None

            wait_until(renewed, timeout=30, what="the lease to be renewed while the snapshot waits")
            (check,) = check_throttle(run)
            assert (check.state, staged(run), running.done()) == ("warn", 0, False)
        facts = running.result(120)
    assert len(lines) == 2
    assert "reading goes on after" in lines[1]
    assert facts["rows"] == 3


@pytest.mark.slow
def test_a_source_that_stays_busy_ends_the_snapshot_which_then_goes_on_where_it_was(
    followed: Followed, lines: list[str]
) -> None:
    quiet = threads(followed.base)
    run = limited(followed, ThrottlePolicy(threads_running=quiet + 2), max_duration=3)
    with (
        busy_mysql(followed.rig.server, 6),
        pytest.raises(SourceError, match=r"threads_running is \d+.*policy\.throttle"),
    ):
        recover(run, followed.rig.spark)
    assert 1 <= len(lines) <= len(KEYED)
    assert recover(run, followed.rig.spark)["rows"] == len(KEYED) * ROWS + 2


@contextmanager
def reads(followed: Followed) -> Iterator[list[int]]:
    """How many connections read tables at the same time at the most, and how many statements did, known after the block."""
    rig, figures = followed.rig, list[int]()
    rig.server.execute(*RECORD)
    yield figures
    spans = [(int(begin), int(end)) for begin, end in rig.server.execute(RECORDED.format(rig.schema))]
    changes = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    figures += [max(accumulate((change for _, change in changes), initial=0)), len(spans)]


@pytest.mark.parametrize("most", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_no_more_connections_read_than_are_allowed(followed: Followed, most: int) -> None:
    """0 is the counter-test: without a limit more are seen, where the machine is quick enough for two at a time."""
    run = limited(followed, ThrottlePolicy(connections=most))
    with reads(followed) as snapshot:
        assert recover(run, followed.rig.spark, {"chunk_rows": CHUNK_ROWS})["rows"] == len(KEYED) * ROWS + 2
    reset_offset.reset_offset(run)
    connector.resume(run)
    with reads(followed) as comparison:
        assert verify(run, followed.rig.spark)["verdict"] == "MATCH"
    publish(run)
    close(run)
    assert snapshot[1] > len(KEYED) * ROWS / CHUNK_ROWS
    assert comparison[1] >= 2 * len(KEYED)
    if most:
        assert (snapshot[0], comparison[0]) == (most, most)
    else:
        # statements of a snapshot may be too short to overlap on a busy machine
        assert max(snapshot[0], comparison[0]) > 1, "the test sees no two connections at a time"


def test_a_replica_tells_how_far_it_is_behind_and_nothing_while_it_is_stopped(
    pair_servers: tuple[MySqlServer, MySqlServer],  # noqa: F811
) -> None:
    limits = ThrottlePolicy(replica_lag=30)
    source, replica = client(pair_servers[0]), client(pair_servers[1])
    assert source.load(limits).lag_s is None
    assert source.load(limits).lag_unknown == ""
    wait_until(lambda: replica.load(limits).lag_s == 0.0 or None, timeout=60, what="the replica to be up to date")
    try:
        pair_servers[1].execute("STOP SLAVE")
        assert (replica.load(limits).lag_s, replica.load(limits).lag_unknown) == (None, "its replication is stopped")
        pair_servers[1].execute("START SLAVE IO_THREAD")
        assert replica.load(limits).lag_unknown == "its replication is stopped"
    finally:
        pair_servers[1].execute("START SLAVE")
    wait_until(lambda: replica.load(limits).lag_s == 0.0 or None, timeout=60, what="the replica to be up to date again")
