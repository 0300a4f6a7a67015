"""replica_detour on real servers: every change of a purged gap comes from the replica, once, and nothing is read anew."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import stack
from airflow_cdc.core.diagnosis import diagnose
from airflow_cdc.core.gtid import GtidSet
from airflow_cdc.flows.decide import decide
from airflow_cdc.flows.detour import detour, go_on
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.open import open_recovery
from stack.connect import ConnectWorker
from stack.mysql import MySqlServer, MySqlSettings
from tests.integration.replicated import Pair, follows, gtids, purge, replicate

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
        f"INSERT INTO {name}.t VALUES (1, 'first')",
    )
    follows(replica, source)
    made = Pair(source, replica, connect_worker, kafka, lake_properties, name)
    made.follow()
    yield made
    connect_worker.call("DELETE", f"/connectors/{name}")
    source.execute(f"DROP DATABASE {name}")


def gap(pair: Pair) -> list[tuple[str, Any, Any]]:
    """Changes of the same key while the connector is down, purged on the source; the events they must come out as."""
    pair.worker.call("PUT", f"/connectors/{pair.name}/stop")
    pair.run().clients.connector.wait_stopped(pair.name)
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
    open_recovery(run, decision)
    detour(run)
    assert diagnose(observe(pair.run("another"))).code == "RECOVERY_OPEN"
    go_on(run)

    assert pair.events() == [*copied, *expected]
    assert run.clients.connector.raw_config(pair.name) == {"name": pair.name, **pair.config}
    assert GtidSet.parse(pair.offset()["gtids"]).issubset(gtids(pair.source))
    assert run.clients.control.facts().recovery is None
    assert run.clients.control.facts().epoch == epoch
    pair.source.execute(f"INSERT INTO {pair.table} VALUES (3, 'after')")
    pair.wait_read(pair.source)
    assert pair.events() == [*copied, *expected, ("c", None, (3, "after"))]
