"""A stored GTID that is one transaction behind on a quiet server, told from a real gap, with the real connector."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
from kafka import KafkaConsumer, TopicPartition

import stack
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mariadb import MariaDbCodec
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.observation import ConnectorFacts
from airflow_cdc.core.offset import Inside
from airflow_cdc.core.position import Watermark
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.diagnosing import diagnose
from tests.integration.mariadb.recovered import connector_config
from tests.integration.mariadb.support import endpoint, here, purge
from tests.integration.mariadb.test_mariadb_source import observe

pytestmark = [
    pytest.mark.slow,  # its server comes from Debian's packages, which not every machine can fetch
    # kafka-python reads its own message schemas with a deprecated call
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]

SECONDS = 90.0
SENT = "last event's transaction"


class Quiet:
    """A connector without heartbeats on one table."""

    def __init__(self, running: stack.Stack, name: str) -> None:
        assert running.connect is not None
        assert running.kafka is not None
        self.server: MySqlServer = running.mysql["mariadb"]
        self.name, self.table, self.kafka = name, f"{name}.t", running.kafka.bootstrap
        self.source = MariaDbSource(endpoint(self.server))
        self.connector = DebeziumConnector(ConnectEndpoint(running.connect.url), MariaDbCodec())
        self.worker = running.connect

    def begin(self, heartbeats: Mapping[str, str] | None = None) -> None:
        off = heartbeats or {"heartbeat.interval.ms": "", "connect.keep.alive.interval.ms": ""}
        self.server.execute(f"CREATE TABLE {self.table} (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9))")
        self.connector.create(self.name, connector_config(self.server, self.name, self.kafka, off))
        wait_until(lambda: self.facts().offset and self.streams(), timeout=SECONDS, what="the connector to stream")

    def streams(self) -> bool | None:
        return [task.state for task in self.facts().tasks] == ["RUNNING"] or None

    def write(self) -> None:
        self.server.execute(f"INSERT INTO {self.table} (v) VALUES ('a'), ('b')")

    def facts(self) -> ConnectorFacts:
        topics = KafkaTransport(KafkaEndpoint(self.kafka))
        return self.connector.own_topics.with_elsewhere(self.name, self.connector.facts(self.name), topics)

    def inside(self) -> bool | None:
        offset = self.facts().offset
        return (offset is not None and offset.inside is Inside.TRANSACTION) or None

    def diagnosed(self) -> Diagnosis:
        facts = self.facts()
        assert facts.offset is not None
        seen = observe(self.source, dict(facts.offset.raw), (self.table,))
        return diagnose(replace(seen, connector=facts))


@pytest.fixture
def quiet(running: stack.Stack, databases: Callable[..., str]) -> Iterator[Quiet]:
    made = Quiet(running, databases(running.mysql["mariadb"], "b"))
    yield made
    made.worker.call("DELETE", f"/connectors/{made.name}")


def counted(quiet: Quiet, beyond: int) -> bool | None:
    """Whether the stored offset counts more events than that."""
    offset = quiet.facts().offset
    return (offset is not None and int(str(offset.raw.get("event") or 0)) > beyond) or None


def rows_sent(quiet: Quiet) -> list[int]:
    consumer = KafkaConsumer(bootstrap_servers=quiet.kafka, enable_auto_commit=False)
    try:
        place = TopicPartition(f"{quiet.name}.{quiet.table}", 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        last, ids = consumer.end_offsets([place])[place], list[int]()
        while consumer.position(place) < last:
            for record in consumer.poll(timeout_ms=1000).get(place, []):
                ids.append(json.loads(record.value)["payload"]["after"]["id"])
        return ids
    finally:
        consumer.close()


def last_ddl(quiet: Quiet) -> Watermark:
    """A quiet server whose last transaction is a DDL, and its position."""
    quiet.begin({"heartbeat.interval.ms": "500", "connect.keep.alive.interval.ms": "500"})
    quiet.write()
    quiet.server.execute(f"CREATE TABLE {quiet.name}.another (id INT)")
    return quiet.source.position()


def at_rest(quiet: Quiet, mark: Watermark) -> bool | None:
    offset = quiet.facts().offset
    if offset is None or offset.position is None or offset.has_read(mark):
        return None
    return quiet.source.at_rest(offset.position, mark) or None


@pytest.mark.parametrize("rotated", [False, True])
def test_inv_06_a_ddl_at_the_end_of_a_quiet_log_is_read_although_no_offset_names_it(
    quiet: Quiet, rotated: bool
) -> None:
    mark = last_ddl(quiet)
    if rotated:
        quiet.server.execute("FLUSH BINARY LOGS")
    wait_until(lambda: at_rest(quiet, mark), timeout=SECONDS, what="the connector at rest behind the DDL")
    offset = quiet.facts().offset
    assert offset is not None
    assert isinstance(offset.position, MariaDbPosition)
    assert offset.has_read(mark) is False
    assert not quiet.source.at_rest(replace(offset.position, read=0), mark), "an offset that nobody has moved"
    quiet.connector.stop(quiet.name)
    quiet.write()
    assert not quiet.source.at_rest(offset.position, quiet.source.position()), "rows were not read yet"


def test_inv_38_a_start_behind_a_ddl_loses_changes_and_is_named(quiet: Quiet) -> None:
    """The loss is the connector's own: the row of the diagnosis can go when this fails."""
    last_ddl(quiet)
    wait_until(lambda: counted(quiet, 10), timeout=SECONDS, what="heartbeats that are counted as events")
    quiet.connector.stop(quiet.name)
    for _ in range(5):
        quiet.write()
    assert quiet.diagnosed().code == "TRANSACTION_HALF_SENT"
    quiet.connector.resume(quiet.name)
    wait_until(quiet.streams, timeout=SECONDS, what="the connector to run")

    def is_past() -> bool | None:
        quiet.write()  # until one of them is sent
        return len(rows_sent(quiet)) > 2 or None

    wait_until(is_past, timeout=SECONDS, interval=2.0, what="a row behind those that were skipped")
    assert {3, 4} & set(rows_sent(quiet)) == set(), "the first rows after the DDL never come"


def test_a_log_that_was_purged_behind_the_last_event_is_told_from_a_gap(quiet: Quiet) -> None:
    quiet.begin()
    quiet.write()
    wait_until(quiet.inside, timeout=SECONDS, what="an offset inside the last transaction")
    newest = here(quiet.server)["gtids"]
    quiet.connector.stop(quiet.name)
    offset = quiet.facts().offset
    assert offset is not None
    assert offset.raw["gtids"] != newest, "the offset is one behind"
    purge(quiet.server)
    found = quiet.diagnosed()
    assert found.code == "GTID_PURGED"
    assert "at most a part of it was not sent" in found.evidence[SENT]

    quiet.write()
    purge(quiet.server)
    gap = quiet.diagnosed()
    assert gap.code == "GTID_PURGED"
    assert SENT not in gap.evidence
