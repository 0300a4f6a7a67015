"""When corrections may be written into topics, and what the control document says of them (INV 23, 47)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import ConfigError, ConnectorError, SchemaError, TransportError, VerificationError
from airflow_cdc.core.observation import ConnectorState, TaskState
from airflow_cdc.core.pipeline import SinkSpec, Writer
from airflow_cdc.core.recovery import OpenRecovery, Sent
from airflow_cdc.core.topics import Compaction, TopicState
from airflow_cdc.decisions.corrections import check_complete, check_keyed, check_time, check_written, is_complete
from airflow_cdc.flows import corrections
from airflow_cdc.flows.corrections import (
    InLedger,
    InRecovery,
    check_corrected,
    check_stopped,
    check_topics,
    producer_of,
    send,
)
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import read_position
from tests.unit.builders import PIPELINE
from tests.unit.flows.recovering import READ, now, recovering
from tests.unit.tables import column, table

TOPIC, TABLE = "shop.shop.orders", "shop.orders"
THROUGH = replace(PIPELINE, sink=SinkSpec("topics", "", writer=Writer.CONSUMERS))


def running(state: str = "STOPPED", tasks: tuple[TaskState, ...] = (), recovery: OpenRecovery = READ) -> Run:
    run = replace(recovering(recovery), pipeline=THROUGH)
    clients: Any = run.clients
    clients.connector.state.return_value = ConnectorState(state, tasks)
    return run


def ending(run: Run, *ends: Mapping[int, int]) -> None:
    """The topic's ends, as they are asked for one after the other."""
    clients: Any = run.clients
    clients.transport.end_offsets.side_effect = [{TOPIC: dict(end)} for end in ends]


@pytest.mark.parametrize(("state", "tasks"), [("RUNNING", ()), ("PAUSED", ()), ("STOPPED", (TaskState(0, "RUNNING"),))])
def test_inv_23_nothing_is_written_while_the_connector_may_write(state: str, tasks: tuple[TaskState, ...]) -> None:
    run, written = running(state, tasks), list[str]()
    ending(run, {0: 5}, {0: 8})

    def write() -> Any:
        written.append("sent")
        return {0: (5, 7)}, 1, 1

    with pytest.raises(ConnectorError, match="not STOPPED"):
        send(run, TABLE, TOPIC, {0: 5}, write, notes=InRecovery())
    assert written == []
    assert now(run).corrections == {}


def test_inv_23_the_connector_is_not_started_before_all_tables_are_corrected() -> None:
    left = replace(READ, corrections={})
    with pytest.raises(VerificationError, match=r"shop\.orders were not written yet"):
        check_corrected(running(), left)
    earlier = replace(READ, corrections={TABLE: Sent(READ.attempt - 1, TOPIC, {0: 5}, {0: 6})})
    with pytest.raises(VerificationError):
        check_corrected(running(), earlier)
    done = replace(READ, corrections={TABLE: Sent(READ.attempt, TOPIC, {0: 5}, {0: 6})})
    check_corrected(running(), done)
    check_corrected(replace(running(), pipeline=PIPELINE), left)


def test_inv_47_what_is_sent_is_written_down_before_and_after() -> None:
    run = running()
    ending(run, {0: 5, 1: 0}, {0: 8, 1: 0})
    before = list[Any]()

    def write() -> Any:
        before.append(now(run).corrections[TABLE])
        assert now(run).uncorrected == [TABLE]
        return {0: (5, 7)}, 1, 1

    send(run, TABLE, TOPIC, {0: 5, 1: 0}, write, notes=InRecovery())
    assert before == [Sent(READ.attempt, TOPIC, {0: 5, 1: 0})]
    assert now(run).corrections == {TABLE: Sent(READ.attempt, TOPIC, {0: 5, 1: 0}, {0: 8, 1: 0}, 1, 1)}
    assert now(run).uncorrected == []


def test_inv_47_a_second_try_keeps_where_the_first_began() -> None:
    run = running()
    ending(run, {0: 5}, {0: 8}, {0: 8}, {0: 8})

    def killed() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        send(run, TABLE, TOPIC, {0: 5}, killed, notes=InRecovery())
    ending(run, {0: 8}, {0: 8})
    send(run, TABLE, TOPIC, {0: 8}, lambda: ({}, 0, 0), notes=InRecovery())
    assert now(run).corrections == {TABLE: Sent(READ.attempt, TOPIC, {0: 5}, {0: 8})}


def test_inv_47_a_repair_writes_down_with_its_run_what_it_sends() -> None:
    run, ledger = running(), dict[str, Any]()
    clients: Any = run.clients
    clients.control.ledger_get.side_effect = lambda _run_id: dict(ledger)
    clients.control.ledger_set.side_effect = lambda _run_id, key, value: ledger.update({key: value})
    ending(run, {0: 5, 1: 0}, {0: 8, 1: 0})
    before = list[Any]()

    def write() -> Any:
        before.append(ledger["corrections"])
        return {0: (5, 7)}, 1, 1

    send(run, TABLE, TOPIC, {0: 5, 1: 0}, write, notes=InLedger())
    first = {"topic": TOPIC, "since": {"0": 5, "1": 0}}
    assert before == [{TABLE: first}]
    assert ledger == {"corrections": {TABLE: {**first, "until": {"0": 8, "1": 0}, "rows": 1, "deletes": 1}}}
    assert now(run).corrections == {}


def test_inv_47_somebody_else_s_records_before_ours_are_an_error() -> None:
    run, written = running(), list[str]()

    def write() -> Any:
        written.append("sent")
        return {}, 0, 0

    ending(run, {0: 6})
    with pytest.raises(TransportError, match="somebody else writes"):
        send(run, TABLE, TOPIC, {0: 5}, write, notes=InRecovery())
    assert written == []
    ending(run, {0: 5}, {0: 9})
    with pytest.raises(TransportError, match="are others"):
        send(run, TABLE, TOPIC, {0: 5}, lambda: ({0: (6, 8)}, 1, 0), notes=InRecovery())
    assert now(run).uncorrected == [TABLE]


def test_corrections_survive_the_control_document() -> None:
    recovery = replace(READ, corrections={TABLE: Sent(2, TOPIC, {0: 5, 3: 1}, {0: 8, 3: 1}, 4, 1)})
    assert OpenRecovery.from_json(recovery.to_json(), read_position).corrections == recovery.corrections
    assert OpenRecovery.from_json(READ.to_json(), read_position).corrections == {}


def test_a_transport_without_transactions_is_refused() -> None:
    run = running()
    clients: Any = run.clients
    clients.transport.producer = None
    with pytest.raises(ConfigError, match="no transactions"):
        producer_of(run)
    check_stopped(run)


def test_doctor_says_which_table_could_not_be_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    run = running()
    clients: Any = run.clients
    tables = {name: table(column("id", "int"), key=("id",)) for name in run.pipeline.source.tables}
    monkeypatch.setattr(corrections, "captured", lambda _run: tables)
    monkeypatch.setattr(corrections, "topic_names", lambda _run, names: {name: f"shop.{name}" for name in names})
    clients.transport.topic_states.side_effect = lambda names: {
        name: TopicState(name, "id", {0: (int(name == TOPIC), 9)}) for name in names
    }
    (bad,) = check_topics(run)
    assert (bad.state, bad.found[: len(TABLE)]) == ("bad", TABLE)
    assert "partition 0 begins at offset 1" in bad.found
    clients.transport.topic_states.side_effect = lambda names: {
        name: TopicState(name, "id", {0: (0, 9)}) for name in names
    }
    assert [one.state for one in check_topics(run)] == ["ok"]
    assert list(check_topics(replace(run, pipeline=PIPELINE))) == []


def test_doctor_lets_a_topic_without_its_beginning_pass_where_a_copy_shows_the_ghosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = running()
    clients: Any = run.clients
    tables = {name: table(column("id", "int"), key=("id",)) for name in run.pipeline.source.tables}
    monkeypatch.setattr(corrections, "captured", lambda _run: tables)
    monkeypatch.setattr(corrections, "topic_names", lambda _run, names: {name: f"shop.{name}" for name in names})
    run = replace(run, clients=replace(clients, feeder=object()))
    for bounds, state in (((3, 9), "ok"), ((9, 9), "bad")):
        clients.transport.topic_states.side_effect = lambda names, span=bounds: {
            name: TopicState(name, "id", {0: span}) for name in names
        }
        assert {one.state for one in check_topics(run)} == {state}


# ---- what a topic must be ------------------------------------------------------------------------------


def topic(bounds: Mapping[int, tuple[int, int]], *, compacted: bool = False) -> TopicState:
    return TopicState(TOPIC, "id", bounds, Compaction(0, 0, {}) if compacted else None)


def test_inv_23_a_topic_that_lost_its_beginning_is_refused_with_the_evidence() -> None:
    for whole in (topic({0: (0, 5), 1: (0, 0)}), topic({0: (0, 5)}, compacted=True)):
        assert check_complete(whole, TOPIC, "here") is whole
    with pytest.raises(TransportError, match="partition 1 begins at offset 7"):
        check_complete(topic({0: (0, 5), 1: (7, 9)}), TOPIC, "here")
    for missing in (None, topic({}), topic({0: (0, 0)})):
        with pytest.raises(TransportError, match=r"does not exist|has no record"):
            check_complete(missing, TOPIC, "here")


def test_a_topic_that_lost_its_beginning_is_written_and_not_complete() -> None:
    late = topic({0: (0, 5), 1: (7, 9)})
    assert check_written(late, TOPIC, "here") is late
    assert (is_complete(late), is_complete(topic({0: (0, 5), 1: (0, 0)}))) == (False, True)
    with pytest.raises(TransportError, match="has no record"):
        check_written(topic({0: (7, 7)}), TOPIC, "here")


def test_inv_23_a_fold_that_takes_longer_than_tombstones_stay_is_refused() -> None:
    config = {"delete.retention.ms": "10000"}
    check_time(topic({0: (0, 5)}), config, 60, "here")
    check_time(topic({0: (0, 5)}, compacted=True), config, 4, "here")
    with pytest.raises(TransportError, match="tombstones are only kept for 10 s"):
        check_time(topic({0: (0, 5)}, compacted=True), config, 6, "here")


def test_a_table_without_a_key_is_refused() -> None:
    check_keyed(table(column("id", "int"), key=("id",)))
    with pytest.raises(SchemaError, match="without a key"):
        check_keyed(table(column("id", "int")))
