"""How long events have waited is measured by the clock that gave them their times, whatever a worker's clock says (INV 46)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.observation import Shown, SinkFacts, TransportFacts
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.decisions.diagnosis.lag import now_of, shown
from airflow_cdc.flows import lateness, observe
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import StoredObservation
from tests.unit.builders import HEALTHY, PIPELINE
from tests.unit.faults import TOPIC, applied, waits

HOUR_MS = 3_600_000
NOW = datetime(2026, 11, 24, 10, tzinfo=UTC)
NINE, TEN = (NOW - timedelta(hours=1)).isoformat(), NOW.isoformat()
NAMES = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "shop"}


@dataclass
class Topics:
    """Topics whose records have times (epoch ms) of a clock of their own, by topic; the offset is the place in the list."""

    written: dict[str, list[int]]
    unreadable: frozenset[str] = frozenset()
    groups: Any = None
    asked: list[int] = field(default_factory=list)

    def now_ms(self, names: list[str]) -> int | None:
        if refused := self.unreadable & set(names):
            raise TransportError(f"TopicAuthorizationFailedError: {refused}")
        return max((at for name in names for at in self.written.get(name, ())), default=None)

    def offsets_since(self, parts: dict[str, Any], at_ms: int) -> dict[str, dict[int, int | None]]:
        self.asked.append(at_ms)
        young = {name: next((n for n, at in enumerate(self.written[name]) if at >= at_ms), None) for name in parts}
        return {name: {0: first} for name, first in young.items()}


def looked(topics: Topics, reports: Path, monkeypatch: pytest.MonkeyPatch, workers_clock: datetime) -> SinkFacts:
    """The sink as a worker sees it whose clock shows this; 6 of 10 events wait, one of them for over an hour."""
    monkeypatch.setattr(observe, "now_iso", workers_clock.isoformat)
    monkeypatch.setattr(time, "time", workers_clock.timestamp)
    nobody = cast("Any", None)
    clients = Parts(nobody, nobody, cast("Any", topics), nobody, nobody)
    run = Run(PIPELINE, clients, "r1", str(reports))
    sink = observe._with_lag(
        run, applied("id1", 4), cast("TransportFacts", waits().transport), ConnectorSettings.from_config(NAMES)
    )
    assert isinstance(sink, SinkFacts)
    return sink


def topics(beat_minutes: float | None, **more: Any) -> Topics:
    """Ten events, the first waiting one (offset 4) an hour and a minute old, the others young; a heartbeat so long ago."""
    ms = int(NOW.timestamp() * 1000)
    old, young = ms - HOUR_MS - 60_000, ms - 120_000
    beats = {} if beat_minutes is None else {"__debezium-heartbeat.shop": [ms - int(beat_minutes * 60_000)]}
    return Topics({TOPIC.name: [old - 1] * 4 + [old] + [young] * 5, **beats}, **more)


@pytest.mark.parametrize("hours", [0, 5, -5])
def test_inv_46_a_workers_clock_that_is_hours_off_makes_nothing_late_and_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    sink = looked(topics(0), tmp_path, monkeypatch, NOW + timedelta(hours=hours))
    assert sink.late == {"shop.orders": 1}


def test_inv_46_a_connector_that_writes_nothing_is_waited_for_by_the_time_between_two_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its newest record is an hour old, and so is the first waiting one: the first look can't know how long that is ago."""
    quiet = topics(None)
    first = looked(quiet, tmp_path, monkeypatch, NOW)
    assert first.late == {}
    again = Diagnosis("HEALTHY", "", {}, (), "")
    at = NOW.isoformat()
    ReportStore(str(tmp_path)).keep_observation(StoredObservation.of(replace(HEALTHY, taken_at=at, sink=first), again))
    assert looked(quiet, tmp_path, monkeypatch, NOW + timedelta(minutes=1)).late == {}
    assert looked(quiet, tmp_path, monkeypatch, NOW + timedelta(minutes=2.5)).late == {"shop.orders": 1}
    assert looked(quiet, tmp_path, monkeypatch, NOW + timedelta(hours=2)).late == {"shop.orders": 6}


def test_heartbeats_that_may_not_be_read_cost_no_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = topics(0, unreadable=frozenset({"__debezium-heartbeat.shop"}))
    sink = looked(refused, tmp_path, monkeypatch, NOW)
    assert sink.clock == Shown(int(NOW.timestamp() * 1000) - 120_000, TEN)


def test_a_clock_that_nothing_tells_makes_no_event_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    untold = topics(None)
    monkeypatch.setattr(untold, "now_ms", lambda _: None)
    sink = looked(untold, tmp_path, monkeypatch, NOW)
    assert (sink.late, sink.clock, untold.asked) == ({}, None, [0])


@pytest.mark.parametrize(
    ("ms", "earlier", "clock", "now"),
    [
        (5_000, None, Shown(5_000, TEN), 5_000),
        (5_000, Shown(5_000, NINE), Shown(5_000, NINE), 5_000 + HOUR_MS),
        (6_000, Shown(5_000, NINE), Shown(6_000, TEN), 6_000),
        (4_000, Shown(5_000, NINE), Shown(4_000, TEN), 4_000),  # it was set back: the newest record says so
        (None, Shown(5_000, NINE), Shown(5_000, NINE), 5_000 + HOUR_MS),  # retention took every record
        (5_000, Shown(5_000, "2026-11-24T11:00:00+00:00"), Shown(5_000, "2026-11-24T11:00:00+00:00"), 5_000),
    ],
)
def test_inv_46_a_clock_is_known_by_its_newest_record(
    ms: int | None, earlier: Shown | None, clock: Shown, now: int
) -> None:
    assert shown(ms, earlier, TEN) == clock
    assert now_of(clock, TEN) == now


def test_a_clock_that_never_said_anything_is_unknown() -> None:
    assert shown(None, None, TEN) is None
    assert lateness.young_events(cast("Any", None), {}, None, TEN) == ({}, None)
