"""Observing and deciding over stand-ins of the clients: order of reading, parts that fail, a connector that stands still."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, cast
from unittest.mock import create_autospec

import pytest

from airflow_cdc.alerting.severity import Severity, severity_of
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.flink.capture import FlinkCapture
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import ConnectorError, SourceError, TransportError, UnknownStateError
from airflow_cdc.core.forecast import Retention
from airflow_cdc.core.hold import HoldState, HoldStatus
from airflow_cdc.core.observation import (
    ConnectorFacts,
    Observation,
    ReplicaFacts,
    SinkFacts,
    SinkTableFacts,
    SourceFacts,
    Unknown,
)
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.table import Column, Table
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.flows import decide, doctor, hold, observe
from airflow_cdc.flows.forecast import forecast_pipeline
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.parts import Parts
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import CHECK, REPAIR, RunSummary
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.detour import standing_faults
from airflow_cdc.sources.mysql.facts import EventAtPosition, EventBoundary, MySqlReplicaFacts
from airflow_cdc.sources.mysql.forecast import forecast
from airflow_cdc.sources.mysql.replica import MySqlReplication
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.diagnosing import diagnose
from tests.unit.builders import (
    CONNECTOR,
    CONTROL,
    GTID_OFFSET,
    HEALTHY,
    PIPELINE,
    REPLICA,
    SINK,
    SOURCE,
    connector_with,
)
from tests.unit.clocks import waiting
from tests.unit.faults import PURGED
from tests.unit.stand_ins import stand_in
from tests.unit.tables import col

CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "shop",
    "heartbeat.interval.ms": "1000",
}


def column(name: str, data_type: str) -> Column:
    return col(name, 1, data_type, data_type, nullable=True)


DEFINITIONS = {
    name: Table("shop", name.partition(".")[2], (column("day", "date"),), ()) for name in PIPELINE.source.tables
}


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Clients of a healthy pipeline."""
    made = Parts(*(stand_in(kind) for kind in (MySqlSource, DebeziumConnector, KafkaTransport, Lake, Control)))
    c = cast("Any", made)
    c.source.facts.return_value = c.source.facts_for.return_value = SOURCE
    c.transport.newest.return_value = {}
    c.source.connect.return_value = create_autospec(closing, instance=True)
    c.source.connect.return_value.close = lambda: None
    c.connector.facts.return_value = connector_with(CONNECTOR, config=CONFIG)
    c.connector.raw_config.return_value = CONFIG
    c.connector.codec = MySqlCodec()
    c.connector.committed_offset.return_value = GTID_OFFSET
    c.connector.own_topics.with_elsewhere.side_effect = lambda _name, facts, _topics, _texts: facts
    c.connector.own_topics.history.return_value = None
    c.source.definitions_and_defaults.return_value = (DEFINITIONS, {})
    c.transport.topic_states.return_value = {}
    c.transport.topic_configs.return_value = {}
    c.transport.end_offsets.return_value = {"shop.shop.orders": {0: 5}}
    c.sink.staging = c.sink.letters = c.sink
    c.sink.facts.side_effect = lambda _ns, table: SINK.tables[f"shop.{table}"]
    c.control.facts.return_value = HEALTHY.control
    return made


@pytest.fixture
def run(clients: Any) -> Run:
    return Run(PIPELINE, clients, "r1", "/reports")


def test_a_table_that_a_comparison_found_to_differ_is_diagnosed_until_one_proves_it_equal(
    run: Run, tmp_path: Path
) -> None:
    """The command, the watch and its alert say what the page shows."""
    looked, store = replace(run, report_dir=str(tmp_path)), ReportStore(str(tmp_path))
    check = RunSummary(
        "night", "night", CHECK, "SINK_DIFFERS", "none", Verdict.MISMATCH, "2026-11-23T01:00:00+00:00", 1.0
    )
    store.keep_run(run.pipeline.name, replace(check, differs=("shop.orders", "shop.no_longer_ours")))
    found = diagnose(observe.observe(looked))
    assert (found.code, found.exit_status) == ("SINK_DIFFERS", 1)
    assert "shop.orders" in str(found.evidence)
    assert "no_longer_ours" not in str(found.evidence)
    assert severity_of(found.code, found.strategies) is Severity.CRITICAL
    repaired = replace(check, run_id="repair", kind=REPAIR, verdict=Verdict.MATCH, ended_at="2026-11-23T02:00:00+00:00")
    store.keep_run(run.pipeline.name, repaired, frozenset({"shop.orders", "shop.no_longer_ours"}))
    assert diagnose(observe.observe(looked)).code == "HEALTHY"


def test_inv_40_tables_that_cannot_be_followed_leave_the_others_their_first_copy(
    run: Run, clients: Any, tmp_path: Path
) -> None:
    """The refusal names the command for the others, and that command must not meet the same refusal."""
    stored = replace(run, report_dir=str(tmp_path))
    masked = {**CONFIG, "skipped.operations": "none", "column.mask.with.5.chars": "shop[.]customers[.]day"}
    clients.connector.raw_config.return_value = masked
    clients.connector.facts.return_value = connector_with(CONNECTOR, config=masked)
    clients.source.definitions.side_effect = lambda names: {name: DEFINITIONS[name] for name in names}
    clients.source.has_row.return_value = False
    clients.source.count_rows.return_value = 1
    clients.sink.facts.side_effect = lambda _ns, _table: SinkTableFacts(exists=False)
    whole = decide.decide(stored)
    assert whole["plan"]["refused"]
    assert "shop.customers" in whole["plan"]["reason"]
    assert whole["plan"]["reason"].endswith("airflow cdc recover shop --table shop.orders")
    rest = decide.decide(replace(stored, options=RunOptions(tables=("shop.orders",))))
    assert (rest["plan"]["strategy"], rest["plan"]["refused"]) == ("full_snapshot", False)


ODD = [
    KeyError("assignments"),
    ValueError("month must be in 1..12"),
    RecursionError("1,100 brackets"),
    ZeroDivisionError(),
]


@pytest.mark.parametrize("odd", ODD, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("part", "method"),
    [
        ("source", "source.facts_for"),
        ("connector", "connector.facts"),
        ("transport", "transport.topic_states"),
        ("sink", "sink.facts"),
        ("control", "control.facts"),
        ("schema", "source.definitions_and_defaults"),
    ],
)
def test_inv_44_an_odd_answer_of_one_system_makes_that_part_unknown_and_says_where(
    run: Run, clients: Any, part: str, method: str, odd: Exception
) -> None:
    client, name = method.split(".")
    getattr(getattr(clients, client), name).side_effect = odd
    seen = observe.observe(run, within=20.0)
    assert f"unexpected {type(odd).__name__}" in seen.unknowns[part]
    assert ".py:" in seen.unknowns[part]
    assert diagnose(seen).code == "UNKNOWN"


def test_a_connector_that_answers_oddly_while_it_is_watched_is_unknown(run: Run, clients: Any) -> None:
    clients.transport.end_offsets.side_effect = IndexError("partitions")
    clients.connector.committed_offset.return_value = None
    facts = connector_with(CONNECTOR, config=CONFIG)
    watched = observe._watched(run, replace(HEALTHY, connector=facts), 5.0)
    assert "unexpected IndexError: partitions" in watched.unknowns["connector"]


def test_doctor_reports_a_part_with_an_odd_answer_and_continues_with_the_others(run: Run, clients: Any) -> None:
    clients.connector.facts.side_effect = KeyError("tasks")
    states = {check.name: check for check in doctor.doctor_pipeline(run)}
    assert states["connector"].state == "unknown"
    assert "unexpected KeyError: 'tasks'" in states["connector"].found
    assert "control" in states


def test_a_healthy_pipeline_is_seen_as_it_is(run: Run) -> None:
    seen = observe.observe(run)
    assert diagnose(seen).code == "HEALTHY"
    assert seen.unknowns == {}


@pytest.mark.parametrize("part", ["source", "connector", "transport", "sink", "control"])
def test_a_cut_in_the_middle_of_any_read_is_unknown(run: Run, clients: Any, part: str) -> None:
    cut = TransportError("the connection was cut")
    reads = {
        "source": clients.source.facts_for,
        "connector": clients.connector.facts,
        "transport": clients.transport.topic_states,
        "sink": clients.sink.facts,
        "control": clients.control.facts,
    }
    reads[part].side_effect = cut
    seen = observe.observe(run)
    assert isinstance(getattr(seen, part), Unknown)
    diagnosis = diagnose(seen)
    assert (diagnosis.code, diagnosis.strategies) == ("UNKNOWN", ())


def test_the_source_is_read_after_the_connector(run: Run, clients: Any) -> None:
    order: list[str] = []

    def of_connector(_name: str) -> ConnectorFacts:
        order.append("connector")
        return CONNECTOR

    def of_source(*_args: Any) -> SourceFacts:
        order.append("source")
        return SOURCE

    clients.connector.facts.side_effect = of_connector
    clients.source.facts_for.side_effect = of_source
    observe.observe(run)
    assert order == ["connector", "source"]


def test_the_source_is_asked_about_the_stored_position(run: Run, clients: Any) -> None:
    observe.observe(run)
    tables, position = clients.source.facts_for.call_args.args
    assert (tables, str(position.place)) == (PIPELINE.source.tables, "mysql-bin.000009:500")


def test_what_is_late_is_unknown_and_the_rest_counts(run: Run, clients: Any) -> None:
    """A catalog that hangs: nothing is waited for beyond the deadline that all parts share."""
    ended = threading.Event()
    clients.sink.facts.side_effect = lambda *_: ended.wait(30)
    began = time.monotonic()
    seen = observe.observe(run, within=4.0)
    ended.set()
    assert time.monotonic() - began < 10
    assert seen.unknowns == {"sink": "no answer within the 2 s that this part of a look may take"}
    assert diagnose(seen).code == "UNKNOWN"


def test_a_connector_that_cannot_be_read_while_it_is_watched_is_unknown(run: Run, clients: Any) -> None:
    clients.source.facts_for.return_value = STUCK
    clients.connector.committed_offset.side_effect = ConnectorError("the worker is gone")
    seen = observe.observe(run, watch=2.0)
    assert seen.unknowns == {"connector": "the worker is gone"}
    assert diagnose(seen).code == "UNKNOWN"


STUCK = replace(
    SOURCE, at_offset=EventAtPosition(EventBoundary.BOUNDARY, ("Gtid",)), retention=Retention(0, now=100_000.0)
)


def test_a_connector_that_does_not_move_while_watched_loops(
    run: Run, clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(monkeypatch, observe)
    clients.source.facts_for.return_value = STUCK
    assert diagnose(observe.observe(run, watch=0.2)).code == "CONNECTOR_LOOPING"


def test_a_job_without_topics_is_watched_by_its_offset_alone(
    run: Run, clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(monkeypatch, observe)
    clients.source.facts_for.return_value = STUCK
    clients.connector.facts.return_value = replace(clients.connector.facts.return_value, capture=FlinkCapture("shop"))
    clients.transport.end_offsets.return_value = {}
    assert diagnose(observe.observe(run, watch=0.2)).code == "CONNECTOR_LOOPING"


def test_a_connector_that_produces_or_moves_while_watched_is_only_slow(
    run: Run, clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(monkeypatch, observe)
    clients.source.facts_for.return_value = STUCK
    clients.transport.end_offsets.side_effect = [{"shop.shop.orders": {0: n}} for n in range(9)]
    assert diagnose(observe.observe(run, watch=2.0)).code == "HEALTHY"
    clients.transport.end_offsets.side_effect = None
    clients.connector.committed_offset.return_value = {**GTID_OFFSET, "pos": 501}
    assert diagnose(observe.observe(run, watch=2.0)).code == "HEALTHY"


def sink_of(rows: dict[str, int]) -> Observation:
    return replace(
        HEALTHY, sink=SinkFacts({name: SinkTableFacts(True, 7, None, count) for name, count in rows.items()})
    )


def test_inv_36_a_table_that_cannot_be_counted_may_lose_any_number_of_rows(run: Run, clients: Any) -> None:
    """Not readable, not counted in time, or unknown at the sink: none of these is nothing."""
    counts: dict[str, int | None] = {"shop.slow": None, "shop.orders": 7, "shop.same": 5, "shop.unknown": 5}

    def count(table: str, _seconds: float) -> int | None:
        if table not in counts:
            raise SourceError("the table does not exist")
        return counts[table]

    clients.source.count_rows.side_effect = count
    names = ("shop.gone", "shop.orders", "shop.slow", "shop.same", "shop.empty", "shop.unknown")
    asked = replace(run, options=RunOptions(tables=tuple(names)))
    sink = sink_of(
        {"shop.gone": 5, "shop.orders": 10, "shop.slow": 9, "shop.same": 5, "shop.empty": 0, "shop.other": 9}
    )
    unknown = SinkTableFacts(True, 7, None, None)
    seen = replace(sink, sink=SinkFacts({**sink.sink.tables, "shop.unknown": unknown}))  # type: ignore[union-attr]
    assert decide.fewer_rows(asked, seen) == {
        "shop.gone": None,
        "shop.orders": 3,
        "shop.slow": None,
        "shop.unknown": None,
    }


@pytest.mark.parametrize(("value", "state"), [("true", "warn"), ("false", "ok")])
def test_doctor_warns_of_adjusted_years_where_there_are_dates(
    run: Run, clients: Any, monkeypatch: pytest.MonkeyPatch, value: str, state: str
) -> None:
    clients.connector.raw_config.return_value = {**CONFIG, "enable.time.adjuster": value}
    monkeypatch.setattr(doctor, "captured", lambda _run: DEFINITIONS)
    monkeypatch.setattr(doctor, "defined", lambda _run: DEFINITIONS)
    checks = [check for check in doctor.doctor_pipeline(run) if check.name == "years below 100"]
    assert [check.state for check in checks] == [state]
    assert "shop.orders.day" in checks[0].found


def test_doctor_says_nothing_of_years_where_there_are_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {"shop.orders": Table("shop", "orders", (column("id", "int"),), ())}
    monkeypatch.setattr(doctor, "captured", lambda _run: plain)
    monkeypatch.setattr(doctor, "defined", lambda _run: plain)
    assert not [check for check in doctor.doctor_pipeline(run) if check.name == "years below 100"]


# ---- the forecast ---------------------------------------------------------------------------------

KEPT = Retention(30_000, now=100_000.0, written_until=90_000.0)


@pytest.mark.parametrize(
    ("read", "topic", "fits"),
    [
        (600.0, {"retention.ms": "604800000"}, True),
        (600.0, {"retention.ms": "60000"}, False),
        (600.0, {"retention.ms": "60000", "cleanup.policy": "compact"}, True),
        (40_000.0, {"retention.ms": "-1"}, False),
    ],
)
def test_a_forecast_says_whether_a_snapshot_fits_into_what_log_and_topics_keep(
    run: Run, clients: Any, read: float, topic: dict[str, str], fits: bool
) -> None:
    clients.source.forecast.return_value = (forecast(KEPT, [], in_newest_file=False), KEPT)
    clients.connector.committed_offset.return_value = GTID_OFFSET
    clients.control.facts.return_value = replace(CONTROL, read_seconds=read)
    clients.transport.topic_configs.return_value = {"shop.shop.orders": topic}
    seen = forecast_pipeline(run)
    # 20,000 s of log are left, and the policy wants 21,600
    assert (seen.snapshot_fits, seen.exit_status, seen.at_risk) == (fits, 1, True)
    assert seen.forecast.earliest_s == 20_000.0
    assert seen.to_json()["earliest_s"] == 20_000.0


def test_without_an_offset_there_is_no_forecast(run: Run, clients: Any) -> None:
    clients.connector.committed_offset.return_value = None
    with pytest.raises(UnknownStateError):
        forecast_pipeline(run)


# ---- holding the log by hand ----------------------------------------------------------------------


class Holding:
    """A hold that ends as its script says."""

    def __init__(self, *ticks: HoldState | type[KeyboardInterrupt]) -> None:
        self.ticks = list(ticks)
        self.released: list[str] = []
        self.first = replace(HELD, blocks_purge=True)

    def acquire(self) -> HoldState:
        return self.first

    def tick(self) -> HoldState:
        step = self.ticks.pop(0)
        if isinstance(step, type):
            raise step
        return step

    def release(self, reason: str = "") -> HoldState:
        self.released.append(reason)
        return replace(self.first, status=HoldStatus.RELEASED, reason=reason)


HELD = HoldState("shop:by hand", HoldStatus.HELD, blocks_purge=True)
ENDED = replace(HELD, status=HoldStatus.RELEASED, reason="the limit is reached")


@pytest.mark.parametrize(("let_go", "state"), [(False, ENDED), (True, HELD)])
def test_the_log_is_held_until_it_ends_or_is_let_go(
    run: Run, clients: Any, monkeypatch: pytest.MonkeyPatch, let_go: bool, state: HoldState
) -> None:
    monkeypatch.setattr(hold, "TICK_SECONDS", 0.0)
    holding, over = Holding(HELD, HELD, ENDED), Event()
    clients.source.hold.return_value = holding
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if let_go:
            over.set()

    assert hold.hold_by_hand(run, 60.0, say, over) == state
    assert holding.released
    assert said[0] == "the log is held for at most 60 s; Ctrl-C releases it"


def test_a_server_that_purges_in_spite_of_the_lock_is_not_held(run: Run, clients: Any) -> None:
    holding = Holding()
    holding.first = replace(HELD, blocks_purge=False)
    clients.source.hold.return_value = holding
    seen = hold.hold_by_hand(run, 60.0, lambda _line: None, Event())
    assert (seen.status, seen.reason) == (HoldStatus.RELEASED, "this server purges its log despite the lock")
    assert holding.released


# ---- replicas ---------------------------------------------------------------------------------------


def with_replicas(run: Run, **found: ReplicaFacts | SourceError) -> list[str]:
    """Named replicas of the run, and what reading each gives; returns which were read."""
    read: list[str] = []

    def reading(conn_id: str) -> ReplicaFacts:
        read.append(conn_id)
        answer = found[conn_id]
        if isinstance(answer, SourceError):
            raise answer
        return answer

    replica = create_autospec(MySqlSource, instance=True)
    replica.replication = create_autospec(MySqlReplication, instance=True)
    replica.replication.facts.side_effect = reading
    replica.replication.standing_faults.side_effect = lambda conn_id: standing_faults(
        cast("MySqlReplicaFacts", reading(conn_id))
    )
    cast("dict[str, Any]", run.clients.replicas).update(dict.fromkeys(found, replica))
    return read


def test_replicas_are_read_only_where_the_source_has_purged_something(run: Run, clients: Any) -> None:
    read = with_replicas(run, first=REPLICA, second=SourceError("no route"))
    assert observe.observe(run).replicas == {}
    assert read == []
    clients.source.facts_for.return_value = PURGED
    seen = observe.observe(run)
    assert seen.replicas == {"first": REPLICA, "second": Unknown("no route")}
    assert seen.unknowns == {}  # what cannot be read there decides nothing else


def test_doctor_says_which_replica_could_stand_in(run: Run) -> None:
    filtering = replace(REPLICA, filters=("replicate_do_db shop",))
    with_replicas(run, good=REPLICA, bad=filtering, away=SourceError("no route"))
    checks = {check.name: check for check in doctor.check_replicas(run)}
    assert {name: check.state for name, check in checks.items()} == {
        "replica good": "ok",
        "replica bad": "warn",
        "replica away": "unknown",
    }
    assert "replicate_do_db shop" in checks["replica bad"].found


def test_a_healthy_look_at_tables_that_others_write_notes_the_server(run: Run, clients: Any) -> None:
    others = replace(run, pipeline=replace(PIPELINE, sink=replace(PIPELINE.sink, writer="connector")))
    clients.source.facts_for.return_value = replace(SOURCE, identity=SOURCE.server_uuid)
    seen = observe.observe(run)
    diagnosis = diagnose(seen)

    def noted(run: Run, seen: Observation, diagnosis: Diagnosis) -> int:
        clients.control.note_server.reset_mock()
        observe.store_observation(run, seen, diagnosis)
        return int(clients.control.note_server.call_count)

    assert noted(others, seen, diagnosis) == 1
    clients.control.note_server.assert_called_once_with(SOURCE.server_uuid)
    assert noted(run, seen, diagnosis) == 0  # our stamps say it
    assert noted(others, seen, replace(diagnosis, strategies=("full_snapshot",))) == 0
    assert noted(others, replace(seen, control=replace(CONTROL, servers=(SOURCE.server_uuid,))), diagnosis) == 0
    clients.control.note_server.side_effect = UnknownStateError("no")
    assert noted(others, seen, diagnosis) == 1


@pytest.mark.parametrize("watch", [0.0, -1.0])
def test_a_look_without_watching_asks_no_topic_a_second_time(run: Run, clients: Any, watch: float) -> None:
    clients.source.facts_for.return_value = STUCK
    assert diagnose(observe.observe(run, watch=watch)).code == "HEALTHY"
    clients.transport.end_offsets.assert_not_called()
