"""Waiting for the connector: by what moves, with the expected end in the log, and given up on standstill."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.core.errors import ConnectorError, DeadlineError
from airflow_cdc.core.observation import ConnectorState, TaskState
from airflow_cdc.core.position import Watermark
from airflow_cdc.decisions.diagnosis.lag import Reading, progress_text, seconds_left
from airflow_cdc.flows import reached
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.marks import moved
from tests.unit.builders import PIPELINE, TAKEN_AT, UUID, WATERMARK
from tests.unit.clocks import waiting
from tests.unit.stand_ins import stand_in

TAKEN = int(datetime.fromisoformat(TAKEN_AT).timestamp())


def offset(last: int, *, age: int = 0) -> dict[str, Any]:
    """A stored offset that has transactions 1 … `last`, `age` seconds before the watermark."""
    return {"file": "mysql-bin.000008", "pos": 100 + last, "gtids": f"{UUID}:1-{last}", "ts_sec": TAKEN - age}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose connector answers as a test says; a standstill of 1 s, by a clock of its own."""
    waiting(monkeypatch, reached)
    clients = create_autospec(Parts, instance=True)
    clients.connector = stand_in(DebeziumConnector)
    clients.connector.codec = MySqlCodec()
    clients.connector.raw_config.return_value = {
        "topic.prefix": "shop",
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    }
    clients.connector.state.return_value = ConnectorState("RUNNING", (TaskState(0, "RUNNING"),))
    clients.transport = stand_in(KafkaTransport)
    clients.source = stand_in(MySqlSource)
    clients.source.at_rest.side_effect = partial(MySqlSource.at_rest, clients.source)
    clients.source.position.return_value = moved(WATERMARK, gtids=GtidSet.parse(f"{UUID}:1-999"))
    policy = replace(PIPELINE.policy, standstill=1)
    return Run(replace(PIPELINE, policy=policy), clients, "run-1", "/reports")


def answers(run: Run, values: Iterator[dict[str, Any]]) -> None:
    connector: Any = run.clients.connector
    connector.committed_offset.side_effect = lambda *_: next(values)


def test_inv_37_verify_waits_longer_than_the_standstill_while_the_offset_moves(run: Run) -> None:
    answers(run, (offset(last) for last in range(70, 81)))  # at three looks a second: three times the standstill
    assert reached.wait_past(run, WATERMARK).raw["gtids"] == f"{UUID}:1-80"


def test_inv_37_heartbeats_that_move_the_time_alone_are_no_progress(run: Run) -> None:
    answers(run, (offset(70, age=100 - at) for at in range(100)))
    with pytest.raises(DeadlineError, match=r"nothing has moved for 1 s; last seen: offset .*1-70"):
        reached.wait_past(run, WATERMARK)


LATER = moved(WATERMARK, gtids=GtidSet.parse(f"{UUID}:1-81"))


def test_inv_06_rows_read_since_the_last_change_need_no_offset(run: Run) -> None:
    """Without heartbeats the offset of a quiet source stays behind the transaction that was sent last."""
    answers(run, (offset(79) for _ in range(100)))
    reached.wait_sent(run, WATERMARK, 1, WATERMARK)
    reached.wait_sent(run, WATERMARK, 1, LATER)
    connector: Any = run.clients.connector
    assert not connector.committed_offset.called


@pytest.mark.parametrize(
    "read_at", [None, WATERMARK, replace(LATER, server="1ae2a9cc-0000-11ef-8000-000000000000")], ids=str
)
def test_inv_06_a_change_since_the_rows_were_read_is_waited_for(run: Run, read_at: Watermark | None) -> None:
    answers(run, (offset(80) for _ in range(100)))
    with pytest.raises(DeadlineError, match="to read past"):
        reached.wait_sent(run, LATER, 0.5, read_at)
    answers(run, iter([offset(80), offset(81)]))
    reached.wait_sent(run, LATER, 0.5, read_at)


def test_a_connector_that_fails_ends_the_wait_at_once(run: Run) -> None:
    answers(run, (offset(70) for _ in range(3)))
    connector: Any = run.clients.connector
    connector.state.return_value = ConnectorState("RUNNING", (TaskState(0, "FAILED", "boom"),))
    with pytest.raises(ConnectorError, match="boom"):
        reached.wait_past(run, WATERMARK)


def test_the_log_and_the_recovery_say_when_it_is_expected_to_be_there(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reached, "TELL_SECONDS", 0.0)
    answers(run, (offset(70 + at, age=3600 - at * 300) for at in range(11)))
    noted: list[str] = []
    logging.getLogger("airflow_cdc").setLevel(logging.INFO)
    reached.wait_past(run, WATERMARK, note=noted.append)
    assert noted
    assert "before the end; expected to be there in" in noted[-1]


def test_the_pace_so_far_gives_the_end() -> None:
    first, last = Reading(0, 1_000), Reading(60, 1_600)  # ten seconds of log in each second
    assert seconds_left(first, last, 4_600) == 300
    assert seconds_left(first, last, 1_000) == 0
    assert seconds_left(first, Reading(60, 1_000), 4_600) is None
    now = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
    assert progress_text(first, last, 4_600, now) == (
        "the connector reads what was written at 1970-01-01T00:26:40+00:00, 50 min before the end; "
        "expected to be there in 5 min, at 2026-11-21T09:05:00+00:00"
    )
    assert progress_text(first, first, 4_600, now).endswith("when it will be there is not known yet")


def heartbeats(run: Run, *ends: int) -> None:
    """The end of the connector's heartbeat topic at each look; the last one stays."""
    transport: Any = run.clients.transport
    left = list(ends)
    transport.end_offsets.side_effect = lambda _names: {"hb": {0: left.pop(0) if len(left) > 1 else left[0]}}


def test_inv_38_the_offset_that_we_wrote_ourselves_shows_nothing(run: Run) -> None:
    answers(run, (offset(80) for _ in range(100)))
    heartbeats(run, 7)
    with pytest.raises(
        DeadlineError, match=r"a heartbeat of the connector, or an offset beyond the one written for it"
    ):
        reached.wait_reading(run, offset(80))


def test_inv_38_a_heartbeat_or_an_offset_of_its_own_shows_that_the_connector_reads_on(run: Run) -> None:
    answers(run, (offset(80) for _ in range(100)))
    heartbeats(run, 7, 7, 8)
    assert reached.wait_reading(run, offset(80)) == "heartbeat"
    answers(run, iter([offset(80), offset(81)]))
    heartbeats(run, 7)
    assert reached.wait_reading(run, offset(80)) == "offset"


def test_whoever_wants_no_notes_waits_all_the_same(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reached, "TELL_SECONDS", 0.0)
    answers(run, (offset(70 + at, age=3600 - at * 300) for at in range(11)))
    assert reached.wait_past(run, WATERMARK).raw["gtids"] == f"{UUID}:1-80"
