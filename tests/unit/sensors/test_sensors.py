"""Sensors ask what the triggers ask, on the worker or in the triggerer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast
from unittest.mock import create_autospec

import pytest
from airflow.sdk import Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException, TaskDeferred

from airflow_cdc.core.errors import ConfigError, SourceError, UnknownStateError
from airflow_cdc.sensors.base import AvailabilitySensor
from airflow_cdc.sensors.binlog import BinlogAvailableSensor
from airflow_cdc.sensors.gtid import GtidSetAvailableSensor
from airflow_cdc.sources.mysql import client
from airflow_cdc.sources.mysql.availability import availability
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.triggers.availability import PositionTrigger
from tests.unit.builders import SOURCE, UUID

CONTEXT = cast("Context", {})


def binlog(**kwargs: Any) -> BinlogAvailableSensor:
    defaults: dict[str, Any] = {"task_id": "w", "conn_id": "shop_mysql", "file": "mysql-bin.000009", "position": 4}
    return BinlogAvailableSensor(**{**defaults, **kwargs})


def gtid(**kwargs: Any) -> GtidSetAvailableSensor:
    return GtidSetAvailableSensor(**{"task_id": "w", "conn_id": "shop_mysql", "gtid_set": f"{UUID}:1-80", **kwargs})


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, connections: dict[str, str]) -> Any:
    """The client the probes make; its facts are those of the healthy server."""
    made = create_autospec(MySqlSource)
    made.return_value.facts.return_value = SOURCE
    made.return_value.availability.side_effect = lambda at: availability(made.return_value.facts(), mysql_position(at))
    monkeypatch.setattr(client, "MySqlSource", made)
    return made


def poked(sensor: AvailabilitySensor) -> PokeReturnValue:
    return cast("PokeReturnValue", sensor.poke(CONTEXT))


@pytest.mark.parametrize("sensor", [binlog(), gtid()])
def test_succeeds_with_plain_facts(sensor: AvailabilitySensor, source: Any) -> None:
    answer = poked(sensor)
    assert answer.is_done
    assert answer.xcom_value is not None
    assert answer.xcom_value["state"] == "available"
    assert answer.xcom_value["conn_id"] == "shop_mysql"
    assert set(answer.xcom_value) - {"state", "reason", "conn_id"} in ({"file", "position"}, {"gtid_set"})
    endpoint = source.call_args.args[0]
    assert (endpoint.host, endpoint.user, endpoint.password) == ("db", "cdc", "s3cret-mysql")


def test_goes_on_while_the_source_is_not_there_yet_or_cannot_be_read(source: Any) -> None:
    assert not poked(binlog(file="mysql-bin.000011")).is_done
    source.return_value.facts.side_effect = SourceError("refused")
    assert not poked(binlog()).is_done


@pytest.mark.parametrize("sensor", [binlog(file="mysql-bin.000007"), gtid(gtid_set=f"{UUID}:1-40")])
def test_fails_at_once_for_what_was_purged(sensor: AvailabilitySensor, source: Any) -> None:
    with pytest.raises(SourceError, match=r"purged.*cdc_recovery"):
        sensor.poke(CONTEXT)


def test_deferred_it_hands_over_the_same_question() -> None:
    with pytest.raises(TaskDeferred) as deferred:
        binlog(deferrable=True, poke_interval=7, timeout=70, position="4").execute(CONTEXT)
    trigger = deferred.value.trigger
    assert isinstance(trigger, PositionTrigger)
    expected = {
        "conn_id": "shop_mysql",
        "position": {"kind": "mysql", "file": "mysql-bin.000009", "pos": 4, "gtids": None, "server_id": None},
        "asked": {"file": "mysql-bin.000009", "position": 4},
        "poke_interval": 7.0,
        "timeout": 70.0,
    }
    assert trigger.serialize()[1] == expected
    assert deferred.value.method_name == "execute_complete"
    with pytest.raises(TaskDeferred) as deferred:
        gtid(deferrable=True).execute(CONTEXT)
    assert isinstance(deferred.value.trigger, PositionTrigger)
    assert deferred.value.trigger.position["gtids"] == f"{UUID}:1-80"


@pytest.mark.parametrize(
    ("state", "error"), [("lost", SourceError), ("timeout", AirflowSensorTimeout), ("error", UnknownStateError)]
)
def test_resumed_it_fails_for_what_the_trigger_found(state: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="why"):
        binlog().execute_complete(CONTEXT, {"state": state, "reason": "why"})


def test_resumed_it_returns_the_event() -> None:
    event = {"state": "available", "reason": "there", "conn_id": "shop_mysql"}
    assert gtid().execute_complete(CONTEXT, event) == event


def test_a_missing_connection_fails_the_poke() -> None:
    with pytest.raises(
        ConfigError, match=r"'nowhere' is not defined.*airflow connections add nowhere --conn-type cdc_mysql"
    ):
        binlog(conn_id="nowhere").poke(CONTEXT)


def test_a_server_without_gtids_is_never_taken_for_available(source: Any) -> None:
    source.return_value.facts.return_value = replace(SOURCE, gtid_executed=None, gtid_purged=None, gtid_mode="OFF")
    assert not poked(gtid()).is_done


# ---- soft_fail and never_fail: the same end, on the worker and in the triggerer -----------------------------


def poking(state: str, source: Any, **kwargs: Any) -> str:
    """How a sensor ends that pokes on the worker."""
    file = {"lost": "mysql-bin.000007", "timeout": "mysql-bin.000011"}[state]
    return ended(lambda: binlog(file=file, timeout=0, **kwargs).execute(CONTEXT))


def deferred(state: str, **kwargs: Any) -> str:
    """How one ends that a trigger woke up."""
    event = {"state": state, "reason": "r", "conn_id": "c"}
    sensor = binlog(deferrable=True, **kwargs)
    return ended(lambda: sensor.resume_execution("execute_complete", {"event": event}, CONTEXT))


def ended(run: Callable[[], object]) -> str:
    try:
        run()
    except AirflowSkipException:
        return "skipped"
    except AirflowSensorTimeout:
        return "timed out"
    except SourceError:
        return "failed"
    return "succeeded"


@pytest.mark.parametrize(
    ("state", "option", "end"),
    [
        ("lost", {}, "failed"),
        ("lost", {"soft_fail": True}, "failed"),
        ("lost", {"never_fail": True}, "skipped"),
        ("timeout", {}, "timed out"),
        ("timeout", {"soft_fail": True}, "skipped"),
    ],
)
def test_a_deferred_sensor_ends_as_one_that_pokes(state: str, option: dict[str, bool], end: str, source: Any) -> None:
    assert (poking(state, source, **option), deferred(state, **option)) == (end, end)
