"""The real connector: what it stores is read, its faults are told, and from what we write it goes on exactly after W."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import stack
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.postgres import PostgresCodec, value_at
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.observation import ConnectorFacts
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.snapshot import create_slot, read_view, wait_unused
from stack.postgres import PostgresServer, PostgresSettings
from stack.process import wait_until
from tests.diagnosing import diagnose
from tests.integration.postgres.support import connector_config, endpoint
from tests.unit.sources.postgres.pg_scene import TABLES, observed

SERIES = ("15", "18")
KEYED, BARE = TABLES


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    wanted = [PostgresSettings(name=f"pg{series}", series=series) for series in SERIES]
    folder = tmp_path_factory.mktemp("debezium") / "stack"
    with stack.start(folder, ("kafka", "connect", "postgres"), postgres_settings=wanted) as started:
        yield started


def published_tables(server: PostgresServer, name: str) -> None:
    """A table with a key and one without, ten rows in that, in the publication `name`."""
    server.execute(
        f"CREATE TABLE {KEYED} (id int PRIMARY KEY, v text)",
        f"CREATE TABLE {BARE} (n int)",
        f"ALTER TABLE {BARE} REPLICA IDENTITY FULL",
        f"GRANT SELECT ON {KEYED}, {BARE} TO cdc, debezium",
        f"CREATE PUBLICATION {name} FOR TABLE {KEYED}, {BARE}",
        f"INSERT INTO {BARE} SELECT generate_series(1, 10)",
    )


@pytest.mark.parametrize("series", [pytest.param(SERIES[0], marks=pytest.mark.slow), SERIES[1]])
def test_a_lost_slot_is_told_and_a_new_one_goes_on_exactly_after_its_snapshot(
    running: stack.Stack, series: str
) -> None:
    server, name = running.postgres[f"pg{series}"], f"shop{series}"
    assert running.connect is not None
    assert running.kafka is not None
    published_tables(server, name)
    source = PostgresSource(replace(endpoint(server), slot=name, publication=name))
    connector = DebeziumConnector(ConnectEndpoint(running.connect.url), PostgresCodec())
    connector.create(name, config(server, name))
    wait_until(lambda: ((slot := source.facts().slot) is not None and slot.active) or None, timeout=90, what="the slot")
    server.execute(f"INSERT INTO {KEYED} VALUES (1, 'a')")
    stored = wait_until(lambda: streamed(connector, name), timeout=60, what="a streamed offset")
    assert stored.offset is not None
    assert not stored.offset.fault
    assert told(source, connector, name) == "HEALTHY"
    server.execute("CREATE TABLE elsewhere (n int)", "INSERT INTO elsewhere VALUES (1)")
    quiet = source.watermark()  # no event is before or after it, and it is read past all the same: by its mark
    wait_until(lambda: past(connector, name, quiet), timeout=45, what=f"the connector to read past {quiet}")

    connector.stop(name)
    with source.session() as session:
        wait_unused(session, name, 30)
    assert told(source, connector, name) == "CONNECTOR_STOPPED"
    server.execute(f"SELECT pg_drop_replication_slot('{name}')", f"DELETE FROM {BARE} WHERE n <= 3")
    assert told(source, connector, name) == "SLOT_MISSING"
    connector.resume(name)
    trace = wait_until(lambda: failed(connector, name), timeout=60, what="the connector to fail")
    assert "no longer available" in trace
    assert told(source, connector, name) == "SLOT_MISSING"

    connector.stop(name)
    owner = create_slot(source.endpoint, name)
    server.execute(f"INSERT INTO {BARE} VALUES (100), (101)", f"DELETE FROM {BARE} WHERE n = 10")
    with read_view(source.endpoint, owner.snapshot) as view:
        rows = [row["n"] for row in view.rows(f"SELECT n FROM {BARE} ORDER BY n", doing="read")]
    owner.close()
    assert rows == list(range(4, 11))
    value = value_at(owner.snapshot.point)
    before = end_of(running, f"{name}.{BARE}")
    connector.alter_offsets(name, {"server": name}, value)
    facts = connector.facts(name)
    assert facts.offset is not None
    assert facts.offset.raw == value
    connector.resume(name)
    server.execute(f"INSERT INTO {BARE} VALUES (102)")
    events = wait_until(
        lambda: at_least(events_of(running, f"{name}.{BARE}", before), 4), timeout=90, what="four events"
    )
    assert [(e["op"], (e["after"] or e["before"])["n"]) for e in events] == [
        ("c", 100),
        ("c", 101),
        ("d", 10),
        ("c", 102),
    ]
    assert told(source, connector, name) == "HEALTHY"
    connector.delete(name)


def config(server: PostgresServer, name: str) -> dict[str, str]:
    return connector_config(server, name, "postgres", (KEYED, BARE)) | {"tombstones.on.delete": "false"}


def told(source: PostgresSource, connector: DebeziumConnector, name: str) -> str:
    """The diagnosis, the connector read before the server."""
    facts = connector.facts(name)
    return diagnose(observed(source.facts_for(TABLES, None), facts)).code


def streamed(connector: DebeziumConnector, name: str) -> ConnectorFacts | None:
    facts = connector.facts(name)
    return facts if facts.offset is not None and "lsn_proc" in facts.offset.raw else None


def past(connector: DebeziumConnector, name: str, watermark: Watermark) -> bool | None:
    offset = connector.facts(name).offset
    return True if offset is not None and offset.has_read(watermark) else None


def failed(connector: DebeziumConnector, name: str) -> str | None:
    return next((task.trace for task in connector.facts(name).tasks if task.state == "FAILED"), None)


def at_least(events: list[dict[str, Any]], count: int) -> list[dict[str, Any]] | None:
    return events if len(events) >= count else None


def end_of(running: stack.Stack, topic: str) -> int:
    return len(events_of(running, topic, 0))


def events_of(running: stack.Stack, topic: str, after: int) -> list[dict[str, Any]]:
    """The values in a topic of one partition, from the offset `after` on."""
    from kafka import KafkaConsumer, TopicPartition

    assert running.kafka is not None
    consumer = KafkaConsumer(bootstrap_servers=running.kafka.bootstrap, enable_auto_commit=False)
    try:
        place = TopicPartition(topic, 0)
        if topic not in consumer.topics():
            return []
        consumer.assign([place])
        last = consumer.end_offsets([place])[place]
        consumer.seek(place, after)
        found: list[dict[str, Any]] = []
        while consumer.position(place) < last:
            for record in consumer.poll(timeout_ms=1000).get(place, []):
                value = json.loads(record.value)
                found.append(value.get("payload", value))
        return found
    finally:
        consumer.close()
