"""One diagnosis reads and parses what a connector says once, and everything it leads to rests on that one reading."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from airflow_cdc.alerting.circuit import Circuits, guard
from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mariadb import MariaDbCodec
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec, MySqlOffset
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.control.control import Control
from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.offset import Inside
from airflow_cdc.core.topics import TopicState
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.reports.stored import StoredObservation
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.diagnosing import diagnose, make_plan
from tests.unit.builders import GTID_OFFSET, HEALTHY, PIPELINE, SINK, SOURCE, UUID
from tests.unit.stand_ins import stand_in

STATUS = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}
CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "shop",
    "heartbeat.interval.ms": "1000",
    "schema.history.internal.kafka.topic": "history",
}


@pytest.fixture
def connector(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A real connector client, whose REST calls are answered at once."""
    made: Any = DebeziumConnector(ConnectEndpoint("http://127.0.0.1:1"), MySqlCodec())
    for name, answer in (
        ("status", STATUS),
        ("raw_config", CONFIG),
        ("offsets", [{"partition": {"server": "shop"}, "offset": GTID_OFFSET}]),
    ):
        monkeypatch.setattr(made, name, Mock(return_value=answer))
    return made


@pytest.fixture
def run(connector: Any) -> Run:
    """A healthy pipeline around it."""
    kinds = (MySqlSource, DebeziumConnector, KafkaTransport, Lake, Control)
    made = Parts(*(stand_in(kind) for kind in kinds))
    c = cast("Any", replace(made, connector=connector))
    c.source.facts_for.return_value = SOURCE
    c.source.definitions_and_defaults.return_value = ({}, {})
    c.transport.topic_states.return_value = {}
    c.transport.topic_configs.return_value = {}
    c.sink.staging = c.sink.letters = c.sink
    c.sink.facts.side_effect = lambda _ns, table: SINK.tables[f"shop.{table}"]
    c.control.facts.return_value = HEALTHY.control
    return Run(PIPELINE, c, "r1", "/reports")


def test_a_diagnosis_parses_the_offset_once_and_reads_the_configuration_once(
    run: Run, connector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, followed = Mock(wraps=MySqlOffset.from_value), Mock(wraps=ConnectorSettings.from_config)
    gtids = Mock(wraps=GtidSet.parse)
    monkeypatch.setattr(MySqlOffset, "from_value", parsed)
    monkeypatch.setattr(ConnectorSettings, "from_config", followed)
    monkeypatch.setattr(GtidSet, "parse", gtids)
    seen = observe(run)
    diagnosis = diagnose(seen)
    plan = make_plan(diagnosis, PIPELINE.policy, seen)
    StoredObservation.of(seen, diagnosis)
    assert (diagnosis.code, plan.refused, seen.unknowns) == ("SCHEMA_HISTORY_MISSING", False, {})
    calls = (connector.raw_config, connector.offsets, connector.status, parsed, followed)
    assert [call.call_count for call in calls] == [1, 1, 1, 1, 1]
    assert gtids.call_count == 2  # once for the check of its form, once for its value


def test_the_raw_offset_is_kept_as_it_stands(connector: Any) -> None:
    lived_in = {**GTID_OFFSET, "transaction_id": None, "event": 3, "some_newer_key": {"a": [1]}}
    connector.offsets.return_value = [{"partition": {"server": "shop"}, "offset": lived_in}]
    offset = connector.facts("shop").offset
    assert json.dumps(offset.raw) == json.dumps(lived_in)
    assert (offset.key, offset.inside, offset.fault) == ({"server": "shop"}, Inside.TRANSACTION, "")


def test_what_cannot_be_read_says_why_and_raises_nothing() -> None:
    for codec in (MySqlCodec(), MariaDbCodec()):
        offset = codec.read({"file": "x", "pos": 4}, {})
        assert offset.position is None
        assert "not a binlog file name" in offset.fault
        assert offset.raw == {"file": "x", "pos": 4}


def test_gtids_of_the_other_make_are_foreign() -> None:
    mysql, mariadb = MySqlCodec(), MariaDbCodec()
    assert mysql.read(GTID_OFFSET, {}).foreign == ""
    assert mysql.read({**GTID_OFFSET, "gtids": "0-1-80"}, {}).foreign == "0-1-80"
    assert mariadb.read({**GTID_OFFSET, "gtids": "0-1-80"}, {}).foreign == ""
    assert mariadb.read(GTID_OFFSET, {}).foreign == f"{UUID}:1-80"


def test_an_observation_of_an_earlier_version_is_read() -> None:
    """As version 0.9 wrote it, word by word."""
    text = """{"pipeline": "shop", "taken_at": "2026-11-21T09:00:00.000+00:00", "diagnosis": {"code": "HEALTHY",
    "description": "The source holds everything from the connector's position on.", "evidence": {"connector state":
    "RUNNING [connector status, 2026-11-21T09:00:00.000+00:00]"}, "strategies": ["none"], "runbook": "runbook#healthy"},
    "connector": "RUNNING", "stored": "mysql-bin.000009:500", "position_ts": 1, "oldest": "mysql-bin.000008:4",
    "newest": "mysql-bin.000010:1000", "behind": 20, "retention": {"margin_bytes": 1500, "log_bytes": 3000},
    "unknowns": {}, "changes": [{"at": "2026-11-21T09:00:00.000+00:00", "code": "HEALTHY"}], "forecast":
    {"earliest_s": 6400.0, "in_newest_file": false, "basis": "closed 22h ago"}}"""
    kept = read(StoredObservation, json.loads(text))
    assert (kept.stored, kept.behind, kept.diagnosis.code) == ("mysql-bin.000009:500", 20, "HEALTHY")
    diagnosis = {**json.loads(text)["diagnosis"], "remarks": [], "others": []}
    assert plain(kept) == {
        **json.loads(text),
        "diagnosis": diagnosis,
        "choices": {},
        "samples": [],
        "waiting": None,
        "ahead": {},
        "clock": None,
    }


class SilentBroker:
    """A broker that lists its topics and answers nothing else."""

    def topic_states(self, names: list[str]) -> dict[str, TopicState]:
        return {name: TopicState(name, "id", {0: (0, 1)}) for name in names}

    def topic_configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        raise TransportError(f"no answer about {names}")


def test_a_broker_that_fails_within_the_connectors_own_topics_says_nothing_of_connect(run: Run) -> None:
    """The schema history is read from the broker: its silence must not open the circuit that all share for Connect."""
    circuits = Circuits(clock=iter(range(0, 10_000, 5)).__next__)  # every call takes longer than an answer may
    broker: Any = guard(SilentBroker(), "broker", circuits)
    connect = guard(run.clients.connector, "connect", circuits)
    seen = observe(replace(run, clients=replace(run.clients, connector=connect, transport=broker)))
    assert set(seen.unknowns) == {"transport", "schema"}
    assert {name: one.failures > 0 for name, one in circuits._circuits.items()} == {"connect": False, "broker": True}
