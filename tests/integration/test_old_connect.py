"""A Kafka Connect before 3.6 (3.4.1): its connectors are paused and restarted, and their offsets written to its topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium.old_connect import with_topic
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.errors import ConfigError, ConnectorError, OffsetRejectedError
from airflow_cdc.sinks.iceberg.client import Lake
from stack import fetch
from stack.connect import ConnectWorker, ready, start_connect
from stack.process import wait_until
from tests.integration.followed_mysql import FollowedMySql, recover_a_purge
from tests.integration.mariadb.recovered import connector_config
from tests.integration.recovering import SECONDS

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
    with ready(worker):
        yield worker


@dataclass(slots=True)
class Followed(FollowedMySql):
    """A MySQL database that a connector of the old worker follows."""

    def __post_init__(self) -> None:
        name = self.database
        self.set_up_mysql()
        settings = DebeziumSettings("debezium", "c", name, offsets_topic=OFFSETS, status_topic=STATUSES)
        pipeline = replace(self.base.pipeline, connector=settings)
        transport: Any = self.base.clients.transport
        self.connector = with_topic(self.connector, pipeline, transport)
        self.base = replace(self.base, pipeline=pipeline, clients=replace(self.base.clients, connector=self.connector))

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
    recover_a_purge(followed)


@pytest.mark.slow
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
    wait_until(lambda: connector.state(name).state == "STOPPED" or None, timeout=SECONDS, what="it to pause")
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
