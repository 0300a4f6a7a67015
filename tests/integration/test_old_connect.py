"""A Kafka Connect before 3.6 (3.4.1): its connectors are paused and restarted, and their offsets written to its topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium.old_connect import with_topic
from airflow_cdc.connectors.debezium.settings import DebeziumSettings
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.errors import ConfigError, ConnectorError, OffsetRejectedError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.settings import MySqlSettings
from stack import fetch
from stack.connect import ConnectWorker, start_connect, wait_ready
from stack.process import end
from tests.integration.mariadb.recovered import connector_config
from tests.integration.mariadb.support import purge
from tests.integration.recovering import SECONDS, FollowedDatabase, meanwhile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stack import Stack
    from stack.mysql import MySqlServer

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

OFFSETS, STATUSES = "old_offsets", "old_statuses"
OWN_TOPICS = {
    "group.id": "old",
    "config.storage.topic": "old_configs",
    "offset.storage.topic": OFFSETS,
    "status.storage.topic": STATUSES,
    # long enough to stop a connector whose last offset is not committed yet
    "offset.flush.interval.ms": "5000",
}


@pytest.fixture(scope="module")
def old_worker(servers: Stack, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    fetch.fetch_all(["connect-old", "debezium"])
    folder = tmp_path_factory.mktemp("old")
    worker = start_connect(folder, servers.logs, kafka, more=OWN_TOPICS, release="connect-old", name="connect-old")
    try:
        yield wait_ready(worker)
    finally:
        end(worker.child)


@dataclass(slots=True)
class Followed(FollowedDatabase):
    """A MySQL database that a connector of the old worker follows."""

    def __post_init__(self) -> None:
        server, name = self.server, self.database
        source = MySqlSource(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password))
        self.set_up(source, MySqlSettings("mysql", "m", tuple(f"{name}.{t}" for t in self.tables)), MySqlCodec())
        settings = DebeziumSettings("debezium", "c", name, offsets_topic=OFFSETS, status_topic=STATUSES)
        pipeline = replace(self.base.pipeline, connector=settings)
        transport: Any = self.base.clients.transport
        self.connector = with_topic(self.connector, pipeline, transport)
        self.base = replace(self.base, pipeline=pipeline, clients=replace(self.base.clients, connector=self.connector))

    def execute(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        rows: Sequence[tuple[Any, ...]] = self.server.execute(f"USE {self.database}", *statements)
        return rows

    def follow(self) -> None:
        name = self.database
        own = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.ssl.mode": "disabled",
            "driver.allowPublicKeyRetrieval": "true",
        }
        self.connector.create(name, connector_config(self.server, name, self.kafka, own))
        self.wait_read()
        self.mirror(name)

    def stored(self) -> Mapping[str, Any] | None:
        return self.connector.committed_offset(self.database, self.database)

    def sent(self) -> int:
        """How many events of `t` are in its topic."""
        topic = f"{self.database}.{self.database}.t"
        state = self.base.clients.transport.topic_states([topic]).get(topic)
        return 0 if state is None else sum(stop - start for start, stop in state.partitions.values())

    def wait_sent(self, count: int) -> None:
        poll_until(lambda: self.sent() >= count or None, timeout=SECONDS, what=f"{count} events")

    def source_rows(self, table: str, order: Sequence[str]) -> Sequence[Sequence[Any]]:
        """See FollowedDatabase: by PyMySQL."""
        return self.execute(f"SELECT {', '.join(order)} FROM {table}")

    def plain(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """See FollowedDatabase."""
        return tuple(row)


@pytest.fixture
def followed(  # noqa: PLR0917
    old_worker: ConnectWorker,
    mysql: MySqlServer,
    kafka: str,
    spark: SparkSession,
    lake_properties: dict[str, str],
    databases: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Followed]:
    name, lake = databases(), Lake("lake", lake_properties)
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(40))")
    made = Followed(mysql, spark, lake, kafka, old_worker.url, tmp_path, name, ("t",))
    made.follow()
    yield made
    made.connector.delete(name)
    made.connector.close()


def test_a_purged_log_is_recovered_while_its_source_is_written(followed: Followed) -> None:
    followed.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    followed.apply("apply-1")
    followed.connector.stop(followed.database)
    followed.execute(
        "DELETE FROM t WHERE id = 1", "UPDATE t SET v = 'changed' WHERE id = 2", "INSERT INTO t VALUES (4, 'd')"
    )
    purge(followed.server)
    followed.connector.resume(followed.database)
    assert "no longer available" in followed.failure()

    def write(stop: Event) -> None:
        connection = followed.server.connect(database=followed.database, autocommit=True)
        with connection, connection.cursor() as cursor:
            number = 100
            while not stop.wait(0.05):
                number += 1
                cursor.execute(f"INSERT INTO t VALUES ({number}, 'live')")
                cursor.execute(f"DELETE FROM t WHERE id = {number - 20}")

    with meanwhile(write):
        done = followed.recover("rec-1")
    assert done["decision"]["diagnosis"]["code"] == "GTID_PURGED"
    assert done["verify"]["verdict"] == "MATCH"
    followed.execute("UPDATE t SET v = 'after' WHERE id = 3")
    followed.apply("apply-2")
    assert followed.differences("t", ("id", "v")) == ([], [])


def test_an_offset_outlives_the_commit_of_the_task_that_was_paused(followed: Followed) -> None:
    """At rest is more than paused: the task's last offset is not committed yet when it is paused, and is when it ends."""
    name, connector = followed.database, followed.connector
    before = followed.stored()
    assert before is not None
    followed.execute("INSERT INTO t VALUES (1, 'a')")
    followed.wait_sent(1)
    assert followed.stored() == before, "its offset is committed already: the test was too slow"
    connector.stop(name)
    assert connector.state(name).state == "STOPPED"
    assert followed.stored() != before, "the task that was paused has ended, and so has made its last commit"

    # somebody starts it and pauses it by hand, with one more commit outstanding
    connector.resume(name)
    connector.wait_running(name)
    followed.execute("INSERT INTO t VALUES (2, 'b')")
    followed.wait_sent(2)
    with pytest.raises(OffsetRejectedError, match="RUNNING"):
        connector.alter_offsets(name, {"server": name}, before)
    connector._http.call("PUT", ("connectors", name, "pause"))
    poll_until(lambda: connector.state(name).state == "STOPPED" or None, timeout=SECONDS, what="it to pause")
    connector.alter_offsets(name, {"server": name}, before)
    connector.restart(name, only_failed=False)
    connector.resume(name)
    connector.wait_running(name)
    followed.wait_sent(4)  # both rows come again: it reads from where it was told to


def test_offsets_are_removed_and_those_of_others_stay(followed: Followed) -> None:
    name, connector = followed.database, followed.connector
    connector.stop(name)
    connector.delete_offsets(name)
    assert connector.offsets(name) == []


def test_without_the_topic_s_name_it_is_said_what_to_add(followed: Followed) -> None:
    with closing(DebeziumConnector(ConnectEndpoint(followed.connect_url), MySqlCodec())) as plain:
        with pytest.raises(ConnectorError, match=r"too old.*connector.offsets_topic"):
            plain.offsets(followed.database)
        with pytest.raises(ConnectorError, match=r"too old.*connector.offsets_topic"):
            plain.stop(followed.database)


def test_a_newer_one_is_not_treated_like_an_old_one(followed: Followed, connect: str) -> None:
    plain = DebeziumConnector(ConnectEndpoint(connect), MySqlCodec())
    transport: Any = followed.base.clients.transport
    with closing(with_topic(plain, followed.base.pipeline, transport)) as newer:
        for ask in (newer.offsets, newer.stop):
            with pytest.raises(ConfigError, match=r"Remove connector.offsets_topic"):
                ask(followed.database)
