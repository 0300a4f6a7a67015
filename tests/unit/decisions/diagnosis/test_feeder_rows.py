"""The rows about a sink connector: each of its faults, and none of a healthy one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.feeder import FeederFacts
from airflow_cdc.core.observation import ConnectorState, Observation, SinkFacts, SinkTableFacts, TaskState, Unknown
from airflow_cdc.core.topics import TopicState
from airflow_cdc.sinks.jdbc.kind import JdbcSettings
from tests.diagnosing import diagnose, make_plan
from tests.unit.builders import HEALTHY, PIPELINE, TAKEN_AT

TOPIC = "shop.shop.orders"
RUNNING = ConnectorState("RUNNING", (TaskState(0, "RUNNING"),))
SETTINGS = {
    "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
    "insert.mode": "upsert",
    "delete.enabled": "true",
    "primary.key.mode": "record_key",
    "topics.regex": "shop.*",
}
FEEDER = FeederFacts(
    "copy",
    RUNNING,
    SETTINGS,
    "connect-copy",
    committed={TOPIC: {0: 10}},
    topics={TOPIC: TopicState(TOPIC, "i", {0: (2, 10)})},
)
COPIED = replace(
    PIPELINE,
    sink=JdbcSettings("jdbc", "", conn_id="db", database="postgres", connector="copy"),
)


def seen(feeder: FeederFacts | Unknown | None = FEEDER, **parts: Any) -> Observation:
    tables = {name: SinkTableFacts(exists=True, rows=10) for name in PIPELINE.source.tables}
    return replace(HEALTHY, pipeline=COPIED, sink=SinkFacts(tables), feeder=feeder, **parts)


def with_feeder(**facts: Any) -> Observation:
    return seen(replace(FEEDER, **facts))


def resting(state: str, *, trace: str = "", **facts: Any) -> Observation:
    return with_feeder(state=ConnectorState(state, (TaskState(0, state, trace),)), **facts)


FAULTS = {
    "failed": (resting("FAILED", trace="java.time.DateTimeException: Invalid value"), "SINK_CONNECTOR_FAILED"),
    "paused": (resting("PAUSED"), "SINK_CONNECTOR_STOPPED"),
    "stopped": (with_feeder(state=ConnectorState("STOPPED")), "SINK_CONNECTOR_STOPPED"),
    "without tasks": (with_feeder(state=ConnectorState("RUNNING")), "SINK_CONNECTOR_STOPPED"),
    "beyond the end": (with_feeder(committed={TOPIC: {0: 11}}), "SINK_GROUP_LOST"),
    "before the first record": (with_feeder(committed={TOPIC: {0: 1}}), "SINK_GROUP_LOST"),
    "reset": (with_feeder(state=ConnectorState("STOPPED"), committed={}), "SINK_GROUP_LOST"),
    "letters": (with_feeder(letters=2, letters_topic="letters"), "SINK_LETTERS"),
    "shared": (with_feeder(strangers=("connector-consumer-two-0",)), "SINK_GROUP_SHARED"),
    "behind": (with_feeder(committed={TOPIC: {0: 5}}, late={TOPIC: 3}), "SINK_BEHIND"),
    "keeps deleted rows": (with_feeder(settings={**SETTINGS, "delete.enabled": "false"}), "SINK_MISCONFIGURED"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_with_where_and_when_it_was_read(fault: str) -> None:
    observation, code = FAULTS[fault]
    found = diagnose(observation)
    assert found.code == code
    assert all(TAKEN_AT in text for text in found.evidence.values())


def test_a_sink_connector_in_order_is_healthy() -> None:
    assert diagnose(seen()).code == "HEALTHY"
    # one that has just begun has committed nothing yet
    assert diagnose(with_feeder(committed={})).code == "HEALTHY"


def test_one_that_could_not_be_read_is_unknown_and_never_healthy() -> None:
    found = diagnose(seen(Unknown("no answer")))
    assert found.code == "UNKNOWN"
    assert "feeder" in found.evidence


def test_records_left_are_counted_from_where_the_group_is() -> None:
    assert replace(FEEDER, committed={TOPIC: {0: 4}}).waiting == {TOPIC: {0: (4, 10)}}
    assert replace(FEEDER, committed={}).waiting == {TOPIC: {0: (2, 10)}}
    assert FEEDER.waiting == {}


@pytest.mark.parametrize("strategy", ["full_snapshot", "diff_repair"])
def test_no_recovery_is_planned_that_the_sink_connector_would_not_apply(strategy: str) -> None:
    observation = with_feeder(settings={**SETTINGS, "insert.mode": "insert"})
    healthy = replace(diagnose(observation), code="HEALTHY")
    plan = make_plan(healthy, COPIED.policy, observation, asked=strategy)
    assert (plan.refused, "insert.mode" in plan.reason) == (True, True), plan
