"""One answer to "is this position still there?": what sensors, steps and diagnosis say of the same server is the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_cdc.core.observation import ConnectorFacts
from airflow_cdc.core.position import Availability, Available, Watermark
from airflow_cdc.sources.mysql import client
from airflow_cdc.sources.mysql.availability import availability
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.facts import MySqlFacts
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition
from airflow_cdc.sources.mysql.server_log import ServerIdentity
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from airflow_cdc.triggers.availability import PositionTrigger
from airflow_cdc.triggers.base import State
from tests.diagnosing import diagnose
from tests.unit.builders import CONNECTOR, FAILED, GTID_OFFSET, OTHER, SOURCE, UUID, connector_with, file_offset, seen

GTID_OFF = replace(SOURCE, gtid_executed=None, gtid_purged=None, gtid_mode="OFF")
# the newest file was listed with 1000 bytes, and the statement after that found the log at 1200
GROWN = replace(GTID_OFF, current=BinlogPosition("mysql-bin.000010", 1200))
UNDER_WAY = replace(SOURCE, gtid_owned=GtidSet.parse(f"{UUID}:101-102"))
THERE, NOT_YET, LOST, UNKNOWN = Availability.AVAILABLE, Availability.NOT_YET, Availability.LOST, Availability.UNKNOWN
GONE = {"BINLOG_PURGED", "GTID_PURGED", "SOURCE_CHANGED", "POSITION_PAST_END", "SOURCE_MISCONFIGURED"}
AHEAD = {"POSITION_AHEAD", "GTID_NOT_CONTAINED", "POSITION_PAST_END"}


def at(file: str, pos: int) -> MySqlPosition:
    return MySqlPosition(file, pos)


def with_set(text: str) -> MySqlPosition:
    return MySqlPosition("mysql-bin.000009", 500, GtidSet.parse(text))


CASES = [
    (GTID_OFF, at("mysql-bin.000008", 4), THERE, "1000 bytes"),
    (GTID_OFF, at("mysql-bin.000010", 1000), THERE, "1000 bytes"),
    (GTID_OFF, at("mysql-bin.000010", 1001), NOT_YET, "so far"),
    (GROWN, at("mysql-bin.000010", 1200), THERE, "1200 bytes"),
    (GROWN, at("mysql-bin.000010", 1201), NOT_YET, "1200 bytes so far"),
    (GTID_OFF, at("mysql-bin.000011", 4), NOT_YET, "source is at mysql-bin.000010:1000"),
    (GTID_OFF, at("mysql-bin.000007", 4), LOST, "oldest file is mysql-bin.000008"),
    (GTID_OFF, at("mysql-bin.000009", 5000), LOST, "truncated or replaced"),
    (GTID_OFF, at("binlog.000009", 4), LOST, "another server"),
    (replace(GTID_OFF, log_bin=False), at("mysql-bin.000008", 4), LOST, "log is off"),
    (SOURCE, with_set(f"{UUID}:1-80"), THERE, "still in the log"),
    (SOURCE, with_set(f"{UUID}:1-50"), THERE, "still in the log"),
    (SOURCE, with_set(f"{UUID}:1-49"), LOST, f"{UUID}:50"),
    (SOURCE, with_set(f"{UUID}:1-101"), NOT_YET, f"{UUID}:101"),
    (UNDER_WAY, with_set(f"{UUID}:1-102"), THERE, "still in the log"),
    (UNDER_WAY, with_set(f"{UUID}:1-103"), NOT_YET, f"{UUID}:103"),
    (SOURCE, with_set(f"{UUID}:1-80,{OTHER}:1-5"), NOT_YET, f"{OTHER}:1-5"),
]


@pytest.mark.parametrize(("facts", "position", "state", "why"), CASES)
def test_what_the_source_answers(facts: MySqlFacts, position: MySqlPosition, state: Availability, why: str) -> None:
    available = availability(facts, position)
    assert available.state is state
    assert why in available.why


def test_a_set_on_a_server_without_gtids_is_unknown() -> None:
    assert availability(GTID_OFF, with_set(f"{UUID}:1")).state is UNKNOWN


def test_a_set_alone_is_enough() -> None:
    alone = MySqlPosition("", 0, GtidSet.parse(f"{UUID}:1-80"))
    assert availability(SOURCE, alone).state is THERE
    assert str(alone) == f"{UUID}:1-80"


class Server(MySqlSource):
    """A source whose facts a test wrote down: only what is read of the server stands in for it."""

    def __init__(self, facts: MySqlFacts) -> None:
        self.known = facts

    @property
    def where(self) -> str:
        return "db:3306"

    @contextmanager
    def session(self, *, read_timeout: float | None = None) -> Iterator[MagicMock]:
        yield MagicMock()

    def _facts(self, session: object) -> MySqlFacts:
        return self.known


@pytest.mark.parametrize(("facts", "position", "state", "why"), CASES)
def test_sensors_steps_and_diagnosis_say_the_same(
    facts: MySqlFacts, position: MySqlPosition, state: Availability, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    monkeypatch.setattr(client, "read_identity", lambda _: ServerIdentity(UUID, 1, 9999, now))
    monkeypatch.setattr(client, "MySqlSource", lambda _: Server(facts))
    step = Server(facts).still_available(Watermark(position, UUID, now))
    assert (step.state, bool(step)) == (state, state is THERE)
    trigger = PositionTrigger(conn_id="c", position=position.to_json(), asked={}, poke_interval=1, timeout=1)
    sensor = trigger.probe(MySqlEndpoint("h", 3306, "u", "p"))
    assert sensor.state is {THERE: State.AVAILABLE, NOT_YET: State.WAITING, LOST: State.LOST}[state]
    assert (sensor.reason, why in sensor.reason) == (step.why, True)
    offset = {"file": position.file, "pos": position.pos, "ts_sec": 1}
    if position.gtids is not None:
        offset["gtids"] = str(position.gtids)
    code = diagnose(seen(source=facts, connector=connector_with(CONNECTOR, offset=offset, **FAILED))).code
    assert (code in GONE, code in AHEAD) == {
        THERE: (False, False),
        NOT_YET: (code == "POSITION_PAST_END", True),
        LOST: (True, code == "POSITION_PAST_END"),
    }[state], code


def test_the_rows_of_the_diagnosis_ask_the_same_function(monkeypatch: pytest.MonkeyPatch) -> None:
    purged = seen(source=replace(SOURCE, gtid_purged=GtidSet.parse(f"{UUID}:1-90")), connector=failed_at(GTID_OFFSET))
    by_file = seen(source=GTID_OFF, connector=failed_at(file_offset("mysql-bin.000007")))
    assert (diagnose(purged).code, diagnose(by_file).code) == ("GTID_PURGED", "BINLOG_PURGED")
    there = Available(THERE, "it is there")
    monkeypatch.setattr("airflow_cdc.sources.mysql.facts.availability", lambda *_: there)
    monkeypatch.setattr("airflow_cdc.sources.mysql.binlog_problems.file_available", lambda *_: there)
    assert not {diagnose(purged).code, diagnose(by_file).code} & GONE


def failed_at(offset: dict[str, Any]) -> ConnectorFacts:
    return connector_with(CONNECTOR, offset=offset, **FAILED)
