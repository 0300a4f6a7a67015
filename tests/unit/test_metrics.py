"""Metrics through Airflow's own stats: what is known is sent, what is unknown is not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc import metrics
from airflow_cdc.airflow_version import stats
from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.forecast import Retention
from airflow_cdc.core.observation import (
    Unknown,
)
from airflow_cdc.reports.stored import StoredObservation
from tests.diagnosing import diagnose
from tests.paths import ROOT
from tests.unit.builders import HEALTHY, seen, with_source
from tests.unit.core.test_report import BAD, REPORT, TABLE
from tests.unit.faults import waits

DASHBOARD = ROOT / "docs" / "grafana" / "cdc.json"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, dict[str, str]]]:
    """Everything that goes to Airflow's stats: name, value, tags."""
    metrics_sent: list[tuple[str, Any, dict[str, str]]] = []
    for kind in ("gauge", "timing"):
        monkeypatch.setattr(stats(), kind, lambda name, value, *, tags: metrics_sent.append((name, value, tags)))
    return metrics_sent


def test_an_observation(sent: list[Any]) -> None:
    metrics.of_observation(StoredObservation.of(HEALTHY, diagnose(HEALTHY)))
    values = {name: value for name, value, _ in sent}
    assert values.pop("cdc.position_age") > 1_000_000
    assert values == {
        "cdc.healthy": 1,
        "cdc.transactions_behind": 20,
        "cdc.events_waiting": 0,
        "cdc.retention_left": 1500,
    }
    assert {tags["pipeline"] for *_, tags in sent} == {"shop"}


def test_events_that_wait_are_sent_where_they_are_known(sent: list[Any]) -> None:
    metrics.of_observation(StoredObservation.of(waits(), diagnose(waits())))
    assert [value for name, value, _ in sent if name == "cdc.events_waiting"] == [6]


def test_the_time_to_purge(sent: list[Any]) -> None:
    soon = with_source(retention=Retention(expire_s=9000, now=1_000_000, written_until=998_300.0))
    metrics.of_observation(StoredObservation.of(soon, diagnose(soon)))
    never = with_source(retention=Retention(expire_s=0, now=1_000_000, written_until=998_300.0))
    metrics.of_observation(StoredObservation.of(never, diagnose(never)))
    assert [value for name, value, _ in sent if name == "cdc.time_to_purge"] == [7300]


def test_what_is_unknown_is_not_sent_as_a_number(sent: list[Any]) -> None:
    blind = seen(source=Unknown("refused"), connector=Unknown("refused"), transport=Unknown("refused"))
    metrics.of_observation(StoredObservation.of(blind, diagnose(blind)))
    assert sent == [("cdc.healthy", 0, {"pipeline": "shop", "problem": "UNKNOWN"})]


def test_a_report(sent: list[Any]) -> None:
    metrics.of_report(replace(REPORT, tables=(TABLE, BAD), verdict=None))
    assert {name: value for name, value, _ in sent} == {"cdc.rows_verified": 400_000, "cdc.rows_unequal": 3}
    metrics.of_report(replace(REPORT, tables=(), verdict=None))
    assert len(sent) == 2


def test_inv_35_up_to_when_main_is_equal_is_sent_for_each_table(sent: list[Any]) -> None:
    known = replace(TABLE, verified_through="2026-11-21T02:00:00.500+00:00")
    metrics.of_report(replace(REPORT, tables=(known, BAD), verdict=None))
    told = [(value, tags["table"]) for name, value, tags in sent if name == "cdc.verified_through"]
    assert told == [(1795226400.5, TABLE.table)]


def test_a_table_of_any_name_has_a_tag_that_no_format_of_metrics_cuts(sent: list[Any]) -> None:
    """In StatsD's formats a comma, a bar or a space ends a tag."""
    odd = replace(TABLE, table="shop.a,b|c d", verified_through="2026-11-21T02:00:00+00:00")
    metrics.of_report(replace(REPORT, tables=(odd,), verdict=None))
    assert [tags["table"] for name, _, tags in sent if name == "cdc.verified_through"] == ["shop.a%2Cb%7Cc%20d"]


def test_a_step_is_timed_however_it_ends(sent: list[Any]) -> None:
    with metrics.timed_step("shop", "publish"):
        pass
    with pytest.raises(SourceError), metrics.timed_step("shop", "verify"):
        raise SourceError("gone")
    assert [(name, tags["step"], tags["state"]) for name, _, tags in sent] == [
        ("cdc.step", "publish", "done"),
        ("cdc.step", "verify", "failed"),
    ]


def test_the_dashboard_asks_for_metrics_that_are_sent() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"airflow_(cdc_[a-z_]+?)(?:_count|_sum)?\b", target["expr"])
    }
    assert asked == {name.replace(".", "_") for name in re.findall(r"`(cdc\.[a-z_]+)`", metrics.__doc__ or "")}
    assert all(panel["title"] and panel["description"] for panel in dashboard["panels"])
