"""The source dies and a replica takes over, on real servers: what the connector does, what is found, what is done."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import stack
from airflow_cdc.core.recovery import Decision
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.open import open_recovery
from airflow_cdc.flows.replica import return_to_source
from airflow_cdc.sources.mysql.gtid import GtidSet
from stack.connect import ConnectWorker
from stack.mysql import CDC_PRIVILEGES, MySqlServer, MySqlSettings, User
from stack.process import end, wait_until
from tests.diagnosing import diagnose, make_plan
from tests.faults.proxy import Proxy
from tests.integration.replicated import Pair, follows, gtids, replicate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")


def server(servers: stack.Stack, name: str, number: int) -> MySqlServer:
    """A server of this test alone: it will be killed."""
    return servers.add_mysql(MySqlSettings(name=name, server_id=number, buffer_pool="64M"))


@pytest.fixture
def moved(
    servers: stack.Stack, connect_worker: ConnectWorker, kafka: str, lake_properties: dict[str, str]
) -> Iterator[tuple[Pair, Proxy]]:
    """A source and a replica, both known under one address that leads to the source; one login for both."""
    name = f"f_{uuid.uuid4().hex[:8]}"
    source, replica = server(servers, f"{name}-a", 301), server(servers, f"{name}-b", 302)
    login = User("moving", secrets.token_hex(12))
    source.execute(
        f"CREATE USER '{login.user}'@'%' IDENTIFIED WITH {source.auth_plugin} BY '{login.password}'",
        f"GRANT {', '.join(CDC_PRIVILEGES)} ON *.* TO '{login.user}'@'%'",
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20))",
    )
    replicate(replica, source)
    with Proxy((source.host, source.port)) as proxy:
        pair = Pair(source, replica, connect_worker, kafka, lake_properties, name, ("127.0.0.1", proxy.port), login)
        pair.follow()
        source.execute(f"INSERT INTO {pair.table} VALUES (1, 'first')")
        pair.wait_read(source)
        follows(replica, source)
        pair.run().clients.control.note_server(source.execute("SELECT @@server_uuid")[0][0])
        yield pair, proxy
    connect_worker.call("DELETE", f"/connectors/{name}")
    end(source.child, replica.child)
    servers.mysql.pop(source.settings.name, None)
    servers.mysql.pop(replica.settings.name, None)
    servers.save()


def states(pair: Pair) -> set[str]:
    status = pair.worker.call("GET", f"/connectors/{pair.name}/status")
    return {part["state"] for part in (status["connector"], *status["tasks"])}


def fails(pair: Pair) -> None:
    """The source dies, and the connector notices."""
    end(pair.source.child)
    wait_until(
        lambda: True if "FAILED" in states(pair) else None,
        timeout=120,
        what="the connector's task to fail",
        child=pair.worker.child,
    )


def promote(pair: Pair, proxy: Proxy) -> None:
    """The replica takes writes, under the old address."""
    pair.replica.execute("STOP SLAVE", "RESET SLAVE ALL")
    proxy.target = (pair.replica.host, pair.replica.port)


def found(pair: Pair) -> Diagnosis:
    return diagnose(observe(pair.run()))


def test_a_promoted_replica_that_holds_it_all_is_gone_on_with(moved: tuple[Pair, Proxy], spark: SparkSession) -> None:
    """Nothing is read anew, every change of before and after the failover is sent once, and the new server is known."""
    pair, proxy = moved
    pair.sink()
    pair.source.execute(f"UPDATE {pair.table} SET v = 'second' WHERE id = 1")
    pair.wait_read(pair.source)
    follows(pair.replica, pair.source)
    fails(pair)
    promote(pair, proxy)
    pair.replica.execute(
        f"INSERT INTO {pair.table} VALUES (2, 'a')",
        f"UPDATE {pair.table} SET v = 'b' WHERE id = 2",
        f"DELETE FROM {pair.table} WHERE id = 1",
    )
    run = pair.run()
    decision = decide(run)
    assert decision["diagnosis"]["code"] == "SOURCE_FAILED_OVER"
    assert decision["plan"]["strategy"] == "translate_gtid"
    before = pair.offset()
    open_recovery(run, Decision.from_json(decision))
    return_to_source(run)
    written = run.clients.control.ledger_get(run.run_id)["document"]["written"]
    assert GtidSet.parse(written["gtids"]) == GtidSet.parse(before["gtids"])
    files = [row[0] for row in pair.replica.execute("SHOW BINARY LOGS")]
    assert written["file"] in files
    expected = [
        ("c", None, (1, "first")),
        ("u", (1, "first"), (1, "second")),
        ("c", None, (2, "a")),
        ("u", (2, "a"), (2, "b")),
        ("d", (1, "second"), None),
    ]
    assert pair.events() == expected
    assert pair.compared(spark, run)["verdict"] == "MATCH"
    facts = run.clients.control.facts()
    assert pair.replica.execute("SELECT @@server_uuid")[0][0] in facts.servers
    assert (facts.recovery, facts.epoch) == (None, 0)
    assert found(pair).code != "SOURCE_FAILED_OVER"


@pytest.mark.slow
def test_a_lagging_replica_that_was_promoted_lacks_what_was_read(moved: tuple[Pair, Proxy]) -> None:
    pair, proxy = moved
    pair.replica.execute("STOP SLAVE")
    pair.source.execute(f"INSERT INTO {pair.table} VALUES (2, 'only on the source')")
    pair.wait_read(pair.source)
    fails(pair)
    promote(pair, proxy)
    pair.replica.execute(f"INSERT INTO {pair.table} VALUES (2, 'another')")
    seen = observe(pair.run())
    diagnosis = diagnose(seen)
    assert diagnosis.code == "GTID_NOT_CONTAINED"
    plan = make_plan(diagnosis, seen.pipeline.policy, seen)
    assert plan.strategy == "full_snapshot"
    assert "Not translate_gtid: the server does not have" in plan.reason


@pytest.mark.slow
def test_a_server_with_transactions_of_its_own_leaves_an_offset_that_no_other_contains(
    moved: tuple[Pair, Proxy],
) -> None:
    """Read from a server that wrote on its own, then led to one that never saw that."""
    pair, proxy = moved
    pair.source.execute("SET SESSION sql_log_bin = 1", f"INSERT INTO {pair.table} VALUES (3, 'x')")
    follows(pair.replica, pair.source)
    pair.replica.execute("STOP SLAVE")
    errant = f"{uuid.uuid4()}:1"
    pair.source.execute(
        f"SET SESSION gtid_next = '{errant}'",
        f"INSERT INTO {pair.table} VALUES (4, 'errant')",
        "SET SESSION gtid_next = AUTOMATIC",
    )
    pair.wait_read(pair.source)
    assert GtidSet.parse(errant).issubset(gtids(pair.source))
    fails(pair)
    promote(pair, proxy)
    diagnosis = found(pair)
    assert diagnosis.code == "GTID_NOT_CONTAINED"
    assert errant in diagnosis.evidence["gtids unseen"]
