"""replica_detour on real servers: every change of a purged gap comes from the replica, once, and nothing is read anew."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import stack
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlOffset
from airflow_cdc.core.errors import VerificationError
from airflow_cdc.core.recovery import Decision
from airflow_cdc.flows import replica as flow
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.replica import detour, return_to_source
from airflow_cdc.flows.run import Run
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.replica import read_replica
from stack.connect import ConnectWorker
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import wait_until
from tests.diagnosing import diagnose
from tests.integration.replicated import REPLICA, Pair, client, follows, gtids, purge, replicate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def pair_servers(servers: stack.Stack) -> tuple[MySqlServer, MySqlServer]:
    """A source and a replica of it that logs what it replicates."""
    made = [
        servers.mysql.get(name) or servers.add_mysql(MySqlSettings(name=name, server_id=number, buffer_pool="64M"))
        for name, number in (("pair-source", 201), ("pair-replica", 202))
    ]
    if not made[1].execute("SHOW SLAVE STATUS"):
        replicate(made[1], made[0])
    return made[0], made[1]


@pytest.fixture
def pair(
    pair_servers: tuple[MySqlServer, MySqlServer],
    connect_worker: ConnectWorker,
    kafka: str,
    lake_properties: dict[str, str],
) -> Iterator[Pair]:
    """A fresh database with one row, copied by a connector of its own, which goes with the test."""
    source, replica = pair_servers
    name = f"d_{uuid.uuid4().hex[:8]}"
    source.execute(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20))",
    )
    made = Pair(source, replica, connect_worker, kafka, lake_properties, name)
    made.follow()
    source.execute(f"INSERT INTO {name}.t VALUES (1, 'first')")
    made.wait_read(source)
    follows(replica, source)
    yield made
    connect_worker.call("DELETE", f"/connectors/{name}")
    source.execute(f"DROP DATABASE {name}")


def gap(pair: Pair) -> list[tuple[str, Any, Any]]:
    """Changes of the same key while the connector is down, purged on the source; the events they must come out as."""
    pair.worker.call("PUT", f"/connectors/{pair.name}/stop")
    pair.run().clients.connector.stop(pair.name)
    t = pair.table
    pair.source.execute(
        f"INSERT INTO {t} VALUES (2, 'a')",
        f"UPDATE {t} SET v = 'b' WHERE id = 2",
        f"UPDATE {t} SET v = 'c' WHERE id = 2",
        f"DELETE FROM {t} WHERE id = 2",
        f"INSERT INTO {t} VALUES (2, 'd')",
        f"DELETE FROM {t} WHERE id = 1",
    )
    follows(pair.replica, pair.source)
    purge(pair.source)
    return [
        ("c", None, (2, "a")),
        ("u", (2, "a"), (2, "b")),
        ("u", (2, "b"), (2, "c")),
        ("d", (2, "c"), None),
        ("c", None, (2, "d")),
        ("d", (1, "first"), None),
    ]


def test_every_change_of_the_gap_comes_once_and_nothing_is_read_anew(pair: Pair) -> None:
    copied = pair.events()
    expected = gap(pair)
    run = pair.run()
    decision = decide(run)
    assert decision["diagnosis"]["code"] == "GTID_PURGED"
    assert (decision["plan"]["strategy"], decision["plan"]["data_loss"]) == ("replica_detour", "nothing")
    epoch = run.clients.control.facts().epoch
    open_recovery(run, Decision.from_json(decision))
    detour(run)
    assert diagnose(observe(pair.run("another"))).code == "RECOVERY_OPEN"
    return_to_source(run)

    assert pair.events() == [*copied, *expected]
    assert run.clients.connector.raw_config(pair.name) == {"name": pair.name, **pair.config}
    assert GtidSet.parse(pair.offset()["gtids"]).issubset(gtids(pair.source))
    assert run.clients.control.facts().recovery is None
    assert run.clients.control.facts().epoch == epoch
    pair.source.execute(f"INSERT INTO {pair.table} VALUES (3, 'after')")
    pair.wait_read(pair.source)
    assert pair.events() == [*copied, *expected, ("c", None, (3, "after"))]


def opened(pair: Pair, run_id: str = "run-1") -> Run:
    """A run with its recovery open, as the plan says."""
    run = pair.run(run_id)
    decision = decide(run)
    assert decision["plan"]["strategy"] == "replica_detour", decision["plan"]["reason"]
    open_recovery(run, Decision.from_json(decision))
    return run


def rows(pair: Pair) -> dict[int, str]:
    """What the topic's events make, applied in their order."""
    made: dict[int, str] = {}
    for _op, before, after in pair.events():
        if after is None:
            made.pop(before[0], None)
        else:
            made[after[0]] = after[1]
    return made


def at_source(pair: Pair) -> dict[int, str]:
    return dict(pair.source.execute(f"SELECT id, v FROM {pair.table}"))


def test_inv_27_the_run_ends_with_a_comparison_of_all_rows(pair: Pair, spark: SparkSession) -> None:
    """And it is not a mere formality: a row that only the replica had, and that came with the log, is named."""
    pair.sink()
    gap(pair)
    run = opened(pair)
    detour(run)
    return_to_source(run)
    assert pair.compared(spark, run)["verdict"] == "MATCH"

    pair.worker.call("PUT", f"/connectors/{pair.name}/stop")
    run.clients.connector.stop(pair.name)
    pair.source.execute(f"INSERT INTO {pair.table} VALUES (5, 'e')")
    follows(pair.replica, pair.source)
    purge(pair.source)
    again = opened(pair, "run-2")
    detour(again)
    pair.replica.execute(f"INSERT INTO {pair.table} VALUES (98, 'its own')")
    pair.wait_read(pair.replica)
    return_to_source(again)
    with pytest.raises(VerificationError, match=r"MISMATCH.*98"):
        pair.compared(spark, again)


# ---- INV 27 -----------------------------------------------------------------------------------------


def test_inv_27_a_filtering_replica_logs_a_gtid_without_its_rows_and_is_refused(pair: Pair) -> None:
    """That it really does so is shown first: its set is the source's, and its table lacks the row."""
    filters = "CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE"
    pair.replica.execute("STOP SLAVE SQL_THREAD", f"{filters} = ({pair.table})", "START SLAVE SQL_THREAD")
    try:
        gap(pair)
        assert gtids(pair.source).issubset(gtids(pair.replica))
        assert pair.replica.execute(f"SELECT id FROM {pair.table}") == [(1,)]
        decision = decide(pair.run())
        assert decision["diagnosis"]["code"] == "GTID_PURGED"
        assert decision["plan"]["strategy"] != "replica_detour"
        assert f"logs their GTIDs: replicate_ignore_table {pair.table}" in decision["plan"]["reason"]
    finally:
        pair.replica.execute("STOP SLAVE SQL_THREAD", f"{filters} = ()", "START SLAVE SQL_THREAD")


@pytest.mark.slow
def test_inv_27_what_a_replica_leaves_out_of_its_log_is_seen(servers: stack.Stack) -> None:
    extra = ("--binlog-ignore-db=left", "--log-slave-updates=OFF", "--slave-skip-errors=1062")
    settings = MySqlSettings(name="leaves-out", server_id=203, buffer_pool="64M", extra=extra)
    facts = read_replica(client(servers.mysql.get(settings.name) or servers.add_mysql(settings)).endpoint, REPLICA)
    assert not facts.log_updates
    assert facts.sources == ()
    assert set(facts.filters) == {"binlog_ignore_db left", "slave_skip_errors 1062"}


def test_inv_27_a_replicas_own_transactions_are_not_in_the_written_offset(pair: Pair) -> None:
    """Those that it has when the detour begins are not even sent; a later one is, and stays out of the offset."""
    copied = pair.events()
    pair.replica.execute(f"INSERT INTO {pair.table} VALUES (99, 'its own')")
    expected = gap(pair)
    run = opened(pair)
    detour(run)
    pair.replica.execute(f"INSERT INTO {pair.table} VALUES (98, 'later')")
    pair.wait_read(pair.replica)
    own = pair.replica.execute("SELECT @@server_uuid")[0][0]
    assert own in GtidSet.parse(pair.offset()["gtids"]).uuids
    done = return_to_source(run)
    written = GtidSet.parse(run.clients.control.ledger_get(run.run_id)["document"]["written"]["gtids"])
    assert written.issubset(gtids(pair.source))
    assert own not in written.uuids
    assert own in GtidSet.parse(done["left_out"]).uuids
    assert pair.events() == [*copied, *expected, ("c", None, (98, "later"))]
    assert own not in GtidSet.parse(pair.offset()["gtids"]).uuids


@pytest.mark.slow
def test_a_definition_noted_beside_own_transactions_survives_a_restart(pair: Pair) -> None:
    """Its place in the schema history holds the replica's GTIDs, so at the source no offset is past it: it is noted anew."""
    pair.replica.execute(f"INSERT INTO {pair.table} VALUES (99, 'its own')")
    gap_of_ddl(pair)
    run = opened(pair)
    detour(run)
    return_to_source(run)
    run.clients.connector.stop(pair.name)
    run.clients.connector.resume(pair.name)
    pair.source.execute(f"INSERT INTO {pair.table} VALUES ('new', 7, 'x')")
    pair.wait_read(pair.source)
    assert pair.events()[-1] == ("c", None, (7, "x"))


def gap_of_ddl(pair: Pair) -> None:
    """A column in front, added in the gap, whose last transaction is a DDL: its GTID enters the offset with the next one."""
    gap(pair)
    pair.source.execute(
        f"ALTER TABLE {pair.table} ADD COLUMN f VARCHAR(20) FIRST",
        f"CREATE TABLE {pair.name}.other (id INT PRIMARY KEY)",
    )
    follows(pair.replica, pair.source)
    purge(pair.source)


# ---- killed, and run again --------------------------------------------------------------------------

# (module attribute, whether it is struck before the call or after it), in the order in which a detour comes by
STRIKES = [
    ("backup", "after"),
    ("_write_set", "after"),
    ("_point_at", "after"),
    ("_read_all", "before"),
    ("come_back", "before"),
    ("_write_set", "after"),
    ("_point_back", "before"),
    ("_point_back", "after"),
    ("_close", "before"),
]


class Killed(BaseException):
    """A task that ends here and now."""


def killing(name: str, when: str) -> Callable[..., Any]:
    real = getattr(flow, name)

    def struck(*args: Any, **kwargs: Any) -> Any:
        if when == "after":
            real(*args, **kwargs)
        raise Killed(name)

    return struck


def test_killed_at_any_point_and_run_again_it_loses_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    gap(pair)
    run = opened(pair)
    struck = []
    for name, when in STRIKES:
        with monkeypatch.context() as patched, suppress(Killed):
            patched.setattr(flow, name, killing(name, when))
            detour(run)
            return_to_source(run)
            struck.append(("nothing stopped it at", name))
        assert diagnose(observe(pair.run("another"))).code == "RECOVERY_OPEN"
        assert pair.replica.cdc.password not in json.dumps(run.clients.control.state())
    facts = [detour(run), return_to_source(run)]
    assert struck == []
    assert return_to_source(run) == {"closed": True}
    assert rows(pair) == at_source(pair)
    assert all(op != "r" for op, _, _ in pair.events())
    assert run.clients.connector.raw_config(pair.name) == {"name": pair.name, **pair.config}
    assert pair.replica.cdc.password not in json.dumps([run.clients.control.state(), facts])


@pytest.mark.slow
def test_a_snapshot_in_place_of_a_detour_puts_the_connector_back_first(pair: Pair) -> None:
    """And knows that definitions were noted beside the replica's own transactions: the history is written anew."""
    pair.replica.execute(f"INSERT INTO {pair.table} VALUES (99, 'its own')")
    gap_of_ddl(pair)
    run = opened(pair)
    before = pair.offset()
    epoch = run.clients.control.facts().epoch
    detour(run)
    run.clients.control.release(run.run_id)
    other = pair.run("run-2")
    open_recovery(other, Decision.from_json(decide(other, "full_snapshot")))
    recovery = other.clients.control.state()["recovery"]
    assert other.clients.control.facts().epoch == epoch + 1
    assert (recovery["strategy"], recovery["epoch"]) == ("full_snapshot", epoch + 1)
    assert recovery["history"]["doubted"]
    assert other.clients.connector.raw_config(pair.name) == {"name": pair.name, **pair.config}
    assert MySqlOffset.from_value(pair.offset()) == MySqlOffset.from_value(before)
    open_recovery(other, Decision.from_json(decide(other, "full_snapshot")))
    assert other.clients.control.facts().epoch == epoch + 1


@pytest.mark.slow
def test_a_replica_that_goes_away_on_the_way_ends_in_words_and_the_run_can_be_taken_up(pair: Pair) -> None:
    expected = gap(pair)
    run = opened(pair)
    user = pair.replica.cdc.user
    pair.replica.execute(f"ALTER USER {user} ACCOUNT LOCK")
    try:
        with pytest.raises(Exception, match=r"locked|clear the task detour_connector") as failed:
            detour(run)
    finally:
        pair.replica.execute(f"ALTER USER {user} ACCOUNT UNLOCK")
    assert pair.replica.cdc.password not in str(failed.value)
    detour(run)
    return_to_source(run)
    assert pair.events()[-len(expected) :] == expected
    wait_until(
        lambda: True if rows(pair) == at_source(pair) else None, timeout=30, what="rows", child=pair.worker.child
    )
