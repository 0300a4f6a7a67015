"""A connector is not started from a W whose log is gone, and one that fails for it is not said to need mending."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.control.control import Control
from airflow_cdc.core.capture import TableDefinitions
from airflow_cdc.core.errors import ConnectorError, DeadlineError, SchemaError, SourceError
from airflow_cdc.core.observation import ConnectorState, TaskState
from airflow_cdc.core.offset import StoredOffset
from airflow_cdc.core.position import Availability, Available
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.core.table import Table
from airflow_cdc.flows import connector
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.diagnosing import offset_for, offset_in
from tests.unit.builders import PIPELINE, UUID, WATERMARK
from tests.unit.clocks import waiting
from tests.unit.stand_ins import stand_in
from tests.unit.tables import column

AT_W = offset_in(offset_for(WATERMARK, 1795244529))
THERE, GONE = Available(Availability.AVAILABLE, ""), Available(Availability.LOST, "1-80 were purged")
ORDERS = Table("shop", "orders", (column("id", "int"),), ("id",))
ALTERED = replace(ORDERS, columns=(*ORDERS.columns, column("note", "varchar(9)")))
OPEN = OpenRecovery("r", watermark=WATERMARK, written_at="2026-11-21T10:00:00+00:00")


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Any:
    kinds = (MySqlSource, DebeziumConnector, KafkaTransport, Lake, Control)
    made: Any = Parts(*(stand_in(kind) for kind in kinds))
    made.control.recovery.return_value = OPEN
    made.connector.codec = MySqlCodec()
    made.connector.wait_running.side_effect = ConnectorError("task 0 is FAILED: … no longer available on the server")
    made.connector.state.return_value = ConnectorState("RUNNING", (TaskState(0, "RUNNING"),))
    monkeypatch.setattr(connector, "change_settings", lambda *_: None)
    monkeypatch.setattr(connector, "set_converter", lambda *_: ())
    monkeypatch.setattr(connector, "settings", lambda _run: SimpleNamespace(quickened={}))
    return made


def resume(clients: Any, monkeypatch: pytest.MonkeyPatch, offset: StoredOffset, *answers: Available) -> Exception:
    """What resuming raises, with the connector at `offset` and these answers of the source, one after the other."""
    monkeypatch.setattr(connector, "committed", lambda _run: offset)
    clients.source.still_available.side_effect = answers
    with pytest.raises((SourceError, ConnectorError)) as caught:
        connector.resume(Run(PIPELINE, clients, "r", "/reports"))
    return caught.value


def test_nothing_is_started_from_a_watermark_that_was_purged(clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    error = resume(clients, monkeypatch, AT_W, GONE)
    assert isinstance(error, SourceError)
    assert "clear the task stop_connector and all after it" in str(error)
    clients.connector.resume.assert_not_called()


def test_a_purge_before_the_connector_had_read_is_named(clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    error = resume(clients, monkeypatch, AT_W, THERE, GONE)
    assert "clear the task stop_connector" in str(error)
    clients.connector.resume.assert_called_once()


def test_a_connector_that_fails_for_another_reason_keeps_its_own(clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "task 0 is FAILED" in str(resume(clients, monkeypatch, AT_W, THERE, THERE))


def test_a_connector_beyond_the_watermark_needs_its_log_no_more(clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    beyond = offset_in({**AT_W.raw, "pos": mysql_position(WATERMARK.position).pos + 1})
    assert "task 0 is FAILED" in str(resume(clients, monkeypatch, beyond))
    clients.source.still_available.assert_not_called()


def test_a_task_that_failed_in_an_earlier_try_begins_at_the_watermark_again(
    clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients.connector.state.return_value = ConnectorState("RUNNING", (TaskState(0, "FAILED"),))
    stopped: list[str] = []
    monkeypatch.setattr(connector, "_stop_at_w", lambda *_: stopped.append("at W"))
    resume(clients, monkeypatch, AT_W, THERE, THERE)
    assert stopped == ["at W"]
    clients.connector.resume.assert_called_once()


@pytest.mark.parametrize(
    ("state", "gtids", "again"), [("STOPPED", "1-100", True), ("STOPPED", None, False), ("RUNNING", "1-100", False)]
)
def test_a_stopped_connector_whose_offset_was_moved_since_begins_at_the_watermark_again(
    clients: Any, monkeypatch: pytest.MonkeyPatch, state: str, gtids: str | None, again: bool
) -> None:
    """By hand, between reset_offset and resume_connector: what lies between would be left out for ever."""
    clients.control.recovery.return_value = replace(OPEN, written=AT_W.raw)
    clients.connector.state.return_value = ConnectorState(state, ())
    stored = dict(AT_W.raw) if gtids is None else {**AT_W.raw, "gtids": f"{UUID}:{gtids}"}
    monkeypatch.setattr(connector, "stored_value", lambda _run: stored)
    stopped: list[str] = []
    monkeypatch.setattr(connector, "_stop_at_w", lambda *_: stopped.append("at W"))
    resume(clients, monkeypatch, AT_W, THERE, THERE)
    assert bool(stopped) is again


def rebuilding(monkeypatch: pytest.MonkeyPatch, clients: Any, *seen: Any, at_w: Any, newest: int = 2) -> None:
    """Wait for a history that is rebuilt by now, while the source's definition is `seen`, one after the other."""
    clients.control.recovery.return_value = replace(
        OPEN, definitions={at_w.full_name: at_w.fingerprint} if at_w else {}
    )
    waiting(monkeypatch, connector)
    answers = iter(seen)
    last = seen[-1]
    monkeypatch.setattr(connector, "defined", lambda *_: {last.full_name: next(answers, last)})
    known: Any = create_autospec(TableDefinitions, instance=True)
    known.newest_ms, known.size = newest, 3
    known.differences.side_effect = lambda tables: {} if tables[last.full_name] == last else {last.full_name: ("x",)}
    monkeypatch.setattr(connector, "history", lambda _run: known)
    monkeypatch.setattr(connector, "not_failed", lambda *_: None)
    run = Run(replace(PIPELINE, policy=replace(PIPELINE.policy, standstill=1)), clients, "r", "/reports")
    connector.history_rebuilt(run, 1, [last.full_name])


def test_inv_11_an_alter_while_the_history_is_rebuilt_ends_the_wait_at_once(
    clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for the hold, which lets go for Debezium's read lock: the wait stood still for ten minutes, and said nothing."""
    with pytest.raises(SchemaError) as caught:
        rebuilding(monkeypatch, clients, ALTERED, at_w=ORDERS)
    assert "shop.orders changed while the connector's schema history was rebuilt" in str(caught.value)
    assert "Clear the task stop_connector and all after it, or run: airflow cdc recover shop" in caught.value.todo


def test_the_source_is_asked_each_time_whether_the_history_agrees(
    clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a W, as after a detour: the connector's definitions are newer than those read before the wait."""
    rebuilding(monkeypatch, clients, ORDERS, ALTERED, at_w=None)
    with pytest.raises(DeadlineError):
        rebuilding(monkeypatch, clients, ORDERS, at_w=ORDERS, newest=1)


def past_w(
    monkeypatch: pytest.MonkeyPatch, clients: Any, now: Table, known: Any, *, reported: bool = True
) -> list[OpenRecovery]:
    """The look at the connector's definitions past W, for a source that is at `now` since; what it stored."""
    recovery = replace(OPEN, offset_kept=True, tables=("shop.orders",), definitions={"shop.orders": ORDERS.fingerprint})
    monkeypatch.setattr(connector, "settings", lambda _run: SimpleNamespace(reports_ddl=reported))
    monkeypatch.setattr(connector, "defined", lambda *_: {"shop.orders": now})
    definitions: Any = create_autospec(TableDefinitions, instance=True)
    definitions.differences.side_effect = lambda tables: {name: known for name in tables if known}
    monkeypatch.setattr(connector, "history", lambda _run: definitions)
    stored: list[OpenRecovery] = []
    monkeypatch.setattr(connector, "change", lambda _run, transition: stored.append(transition(recovery)))
    try:
        connector._has_read_changes(Run(PIPELINE, clients, "r", "/reports"), recovery)
    finally:
        assert all(one.history.doubted and not one.definitions for one in stored)
    return stored


def test_inv_12_a_definition_that_is_wrong_past_the_watermark_is_rebuilt_by_the_next_try(
    clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for one that a statement ahead would change."""
    with pytest.raises(SchemaError, match=r"past the watermark, and its definition of shop.orders") as caught:
        past_w(monkeypatch, clients, ORDERS, ("column note: not in the source",))
    assert "airflow cdc recover shop" in caught.value.todo


@pytest.mark.parametrize(
    ("now", "known", "reported"),
    [(ORDERS, (), True), (ALTERED, ("column note: only in the source",), True), (ORDERS, ("anything",), False)],
    ids=["it has read the change", "another change came after W", "no history"],
)
def test_inv_12_past_the_watermark_a_definition_may_only_lag_behind_what_came_after(
    clients: Any, monkeypatch: pytest.MonkeyPatch, now: Table, known: Any, reported: bool
) -> None:
    assert past_w(monkeypatch, clients, now, known, reported=reported) == []
