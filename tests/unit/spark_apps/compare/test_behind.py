"""A comparison of a copy that caught up is told of main: its rows and snapshot, and what it lacks (INV 35)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from airflow_cdc.core import codec
from airflow_cdc.core.codec import sparse
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.report import CaughtUp, ComparedAt, TableReport, Verdict
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.spark_apps.compare import behind
from airflow_cdc.spark_apps.compare.behind import CLOCK_SLACK, Main
from airflow_cdc.spark_apps.compare.scan import Outcome, Subject
from tests.unit.builders import WATERMARK
from tests.unit.tables import column, table

ORDERS = table(column("id", "bigint", nullable=False), key=("id",))
TOPIC = "shop.shop.orders"
MAIN, COPY = 11, 22
REFUSED = ConfigError("a TRUNCATE of the table would go unnoticed", where="table shop.orders", todo="Set it.")
MATCH = TableReport(ORDERS.full_name, 71, 71, 0, 0, 0, 1, 0, (), ComparedAt(COPY, "binlog.000001:4"), Verdict.MATCH)
FIRST = datetime(2026, 11, 20, 1, 2, 3, tzinfo=UTC)


def main_of(*refused: ConfigError, end: int = 30) -> Main:
    """Main with 41 rows, applied up to offset 0 of a topic that ends at `end`."""
    run, systems, stage = MagicMock(), MagicMock(), MagicMock(base_head=MAIN)
    run.clients.sink.row_count.return_value = 41
    run.clients.source.count_rows.return_value = 71
    run.clients.transport.topic_states.side_effect = lambda names: {
        name: TopicState(name, "id", {0: (0, end)}) for name in names
    }
    systems.events.routing.topic_of.return_value = TOPIC
    stamp = Stamp(1, None, {TOPIC: TopicOffsets("id", {0: 0})})
    return Main(run, cast("Any", None), systems, ORDERS, stage, stamp, refused)


def outcome(version: int, end: int) -> Outcome:
    sink = MagicMock(version=version)
    return Outcome(Subject(ORDERS, sink, None, {0: end}, WATERMARK), source_rows=71, sink_rows=71)


@pytest.fixture(autouse=True)
def first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Main, "_first_change", lambda *_: FIRST)


def test_inv_35_what_main_has_is_reported_and_not_what_its_copy_has() -> None:
    report = main_of().reported(outcome(COPY, 30), MATCH, xa_open=False)
    assert (report.verdict, report.sink_rows, report.compared_at.snapshot_id) == (Verdict.MATCH, 41, MAIN)
    assert report.caught_up == CaughtUp(71, 30, "2026-11-20T01:02:03+00:00")
    assert str(report.caught_up) == (
        "events that main lacks: 30, from 2026-11-20T01:02:03+00:00 on; with that it has 71 rows"
    )
    assert datetime.fromisoformat(report.verified_through) == FIRST
    assert codec.read(TableReport, sparse(report)) == report
    assert TableReport.verified_from_json(report.table, sparse(report)) == report


def test_inv_35_a_main_that_lacks_nothing_is_what_was_compared() -> None:
    report = main_of(end=0).reported(outcome(MAIN, 0), MATCH, xa_open=False)
    assert (report.sink_rows, report.caught_up) == (71, None)
    assert datetime.fromisoformat(report.verified_through) == WATERMARK.taken_at - CLOCK_SLACK
    assert "caught_up" not in sparse(report)


@pytest.mark.parametrize("verdict", [Verdict.MISMATCH, Verdict.INCONCLUSIVE])
def test_inv_35_only_a_match_holds_up_to_a_time(verdict: Verdict) -> None:
    report = replace(MATCH, verdict=verdict, samples=("different: 1",))
    assert main_of().reported(outcome(COPY, 30), report, xa_open=False).verified_through == ""
    assert main_of().reported(outcome(COPY, 30), MATCH, xa_open=True).verified_through == ""


def test_inv_35_rows_that_no_summary_says_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    main: Any = main_of()
    main.run.clients.sink.row_count.return_value = None
    views = MagicMock()
    views.return_value.count.return_value = 40
    monkeypatch.setattr(behind, "pinned", views)
    assert main.reported(outcome(COPY, 30), MATCH).sink_rows == 40
    assert views.call_args.args[-1] == MAIN


def test_inv_35_what_apply_refuses_while_events_wait_is_not_compared() -> None:
    report = main_of(REFUSED).stands_still()
    assert report is not None
    assert (report.verdict, report.source_rows, report.sink_rows) == (Verdict.INCONCLUSIVE, 71, 41)
    assert report.compared_at.snapshot_id == MAIN
    (why,) = report.samples
    assert why == f"apply refuses the events that wait (30), so main will not become what they make of it: {REFUSED}"


def test_inv_35_a_refused_table_without_waiting_events_is_main_itself_and_compared() -> None:
    assert main_of(REFUSED, end=0).stands_still() is None
    assert main_of(REFUSED).caveats(outcome(MAIN, 0)) == ()
    assert main_of().stands_still() is None
    assert main_of().caveats(outcome(COPY, 30)) == ()
    (came,) = main_of(REFUSED).caveats(outcome(COPY, 5))
    assert came.startswith("apply refuses the events that wait (5)")


def test_inv_34_the_rows_that_were_compared_are_what_a_match_is_about() -> None:
    assert replace(MATCH, sink_rows=41, caught_up=CaughtUp(71, 30)).verdict is Verdict.MATCH
    with pytest.raises(Exception, match="71 rows in the source and 70 in the sink"):
        replace(MATCH, caught_up=CaughtUp(70, 30))
