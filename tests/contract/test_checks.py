"""Checks that cannot look, and what a run's last word is: no server and no Spark session is needed for that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_cdc.core.errors import SourceError, VerificationError
from airflow_cdc.core.report import CaughtUp, ComparedAt, RecoveryReport, TableReport, Verdict
from airflow_cdc.flows.checks import conclude, report_check
from airflow_cdc.flows.close import report_folder
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import BACKFILL, CHECK, REPAIR
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.spark_apps.nightly import nightly
from airflow_cdc.spark_apps.repair import repair
from tests.contract.lakes import run_on

TABLES = ("shop.orders", "shop.items")
CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "p",
    "database.include.list": "shop",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


class Connector:
    """A connector of which only the configuration is asked."""

    def raw_config(self, _name: str) -> dict[str, str]:
        return CONFIG


@pytest.fixture
def run(lake: Lake, tmp_path: Path) -> Run:
    """A run whose source is not there."""
    nowhere = MySqlSource(MySqlEndpoint("127.0.0.1", 1, "cdc", "", connect_timeout=1))
    return run_on(lake, tmp_path / "reports", *TABLES, source=nowhere, connector=cast("Any", Connector()))


def told(table: str, verdict: Verdict, *samples: str) -> TableReport:
    counts: dict[str, Any] = dict.fromkeys(
        ("source_rows", "sink_rows", "missing", "ghosts", "leaves", "leaves_rechecked"), 0
    )
    wrong = int(verdict is Verdict.MISMATCH)
    at = ComparedAt(1, "p")
    return TableReport(
        table, **counts, different=wrong, columns_not_compared=(), compared_at=at, verdict=verdict, samples=samples
    )


def stored(run: Run) -> RecoveryReport:
    return RecoveryReport.from_json((Path(report_folder(run)) / "report.json").read_text())


def listed(run: Run) -> tuple[str, tuple[str, ...]]:
    """The kind of the newest run in the pipeline's list, and the tables that are known to differ."""
    newest = ReportStore(run.report_dir).runs(run.pipeline.name)[0]
    return newest.kind, newest.differs


def asking(run: Run, **options: Any) -> Run:
    return Run(run.pipeline, run.clients, run.run_id, run.report_dir, RunOptions.from_json(options))


def test_a_night_that_cannot_reach_its_source_is_inconclusive(run: Run) -> None:
    facts = nightly(run, cast("Any", None))
    assert (facts["verdict"], facts["plans"], facts["needs_approval"]) == ("INCONCLUSIVE", {}, False)
    assert facts["tables"] == dict.fromkeys(TABLES, "INCONCLUSIVE")
    report = stored(run)
    assert (report.verdict, report.problem, report.exit_status) == (Verdict.INCONCLUSIVE, "UNKNOWN", 3)
    assert all("127.0.0.1:1" in table.samples[0] for table in report.tables)
    assert run.clients.control.checks() == {}
    with pytest.raises(
        VerificationError, match=r"INCONCLUSIVE: shop.items is INCONCLUSIVE.*nothing was changed"
    ) as caught:
        conclude(run)
    assert caught.value.verdict == "INCONCLUSIVE"


def test_a_repair_that_cannot_reach_its_source_says_so_and_fails(run: Run) -> None:
    facts = repair(asking(run, dry_run=True, tables=["shop.orders"]), cast("Any", None))
    assert (facts["verdict"], facts["plans"]) == ("INCONCLUSIVE", {})
    assert [table.table for table in stored(run).tables] == ["shop.orders"]
    with pytest.raises(SourceError):
        repair(asking(run), cast("Any", None))
    assert stored(run).verdict is Verdict.INCONCLUSIVE


def test_what_only_the_comparison_knew_is_not_told_of_the_repaired_table(run: Run) -> None:
    """The copy that the night compared had other rows than main has after the repair."""
    behind = CaughtUp(rows=4, events=1, since="2026-11-28T05:56:14+00:00")
    compared = replace(told("shop.orders", Verdict.MISMATCH, "ghosts: 1"), caught_up=behind, leaf_map="=~")
    report_check(run, {"shop.orders": compared}, evidence={"shop.orders": "1 ghost"})
    repaired = replace(told("shop.orders", Verdict.MATCH), source_rows=1, sink_rows=1)
    report_check(run, {"shop.orders": repaired}, evidence={}, kind=REPAIR)
    assert conclude(run) == {"verdict": "MATCH", "tables": 1}
    assert run.clients.control.entry(run.run_id).checked["shop.orders"].report == repaired


def test_the_last_word_is_the_worst_of_all_tasks_of_the_run(run: Run) -> None:
    with pytest.raises(VerificationError, match="nothing was compared"):
        conclude(run)
    reports = {
        "shop.orders": told("shop.orders", Verdict.MISMATCH, "different: 7"),
        "shop.items": told("shop.items", Verdict.MATCH),
    }
    report_check(run, reports, evidence={"shop.orders": "1 different"})
    assert listed(run) == ("check", ("shop.orders",))
    with pytest.raises(VerificationError, match=r"MISMATCH: shop.orders is MISMATCH: different: 7.*airflow cdc repair"):
        conclude(run)
    # a repair of the one table leaves what was said of the other
    report_check(
        run, {"shop.orders": told("shop.orders", Verdict.MATCH)}, evidence={"shop.orders": "1 row"}, kind=REPAIR
    )
    assert conclude(run) == {"verdict": "MATCH", "tables": 2}
    report = stored(run)
    assert [table.table for table in report.tables] == ["shop.items", "shop.orders"]
    assert (report.verdict, report.problem, report.strategy) == (Verdict.MATCH, "SINK_DIFFERS", "diff_repair")
    assert listed(run) == ("repair", ())
    page = (Path(report_folder(run)) / "report.html").read_text()
    assert "diff_repair" in page
    assert json.loads((Path(report_folder(run)) / "report.json").read_text())["evidence"] == {"shop.orders": "1 row"}


@pytest.mark.parametrize(
    ("kind", "compared", "left"),
    [
        (CHECK, "all rows", ()),
        (CHECK, "3 leaves", ("shop.orders",)),
        (REPAIR, "3 leaves", ()),
        (BACKFILL, "all rows", ("shop.orders",)),
    ],
)
def test_only_what_was_compared_whole_is_proven_equal(
    run: Run, kind: str, compared: str, left: tuple[str, ...]
) -> None:
    """A night compares leaves, and a backfill days: rows elsewhere stay as wrong as they were found."""
    before = replace(run, run_id="before")
    report_check(before, {"shop.orders": told("shop.orders", Verdict.MISMATCH, "different: 7")}, evidence={})
    run.clients.control.ledger_set(run.run_id, "check", {"shop.orders": {"compared": compared}})
    report_check(run, {"shop.orders": told("shop.orders", Verdict.MATCH)}, evidence={}, kind=kind)
    assert listed(run) == (kind, left)
