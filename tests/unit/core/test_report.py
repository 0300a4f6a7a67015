from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.core import codec
from airflow_cdc.core.codec import sparse
from airflow_cdc.core.errors import VerificationError
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.core.report import (
    ComparedAt,
    DecisionReport,
    NotCompared,
    RecoveryReport,
    StepReport,
    TableReport,
    Verdict,
    overall,
)
from airflow_cdc.decisions.compare.row_diff import RowPair
from airflow_cdc.flows.close import told_of
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.kinds import read_position
from airflow_cdc.reports.bars import time_bars
from airflow_cdc.reports.page import heat_map, render_html
from tests.unit.builders import GTID_OFFSET, WATERMARK

TABLE = TableReport(
    table="shop.orders",
    source_rows=200_000,
    sink_rows=200_000,
    missing=0,
    ghosts=0,
    different=0,
    leaves=46,
    leaves_rechecked=2,
    columns_not_compared=(NotCompared("total", "generated"),),
    compared_at=ComparedAt(8123, "mysql-bin.000009:500"),
    verdict=Verdict.MATCH,
)
BAD = replace(TABLE, table="shop.events", ghosts=3, verdict=Verdict.MISMATCH, samples=("7", "<b>8</b>"))
REPORT = RecoveryReport(
    pipeline="shop",
    run_id="manual__1",
    problem="GTID_PURGED",
    evidence={"gtids missing": "x:1-3"},
    strategy="full_snapshot",
    data_loss="nothing",
    watermark=WATERMARK.to_json(),
    epoch=4,
    offset_before=GTID_OFFSET,
    offset_after=GTID_OFFSET,
    tables=(TABLE,),
    steps=(StepReport("open_recovery", 0.12345, "done"),),
)
KEYS = [
    "pipeline",
    "run_id",
    "problem",
    "evidence",
    "strategy",
    "data_loss",
    "watermark",
    "epoch",
    "offset_before",
    "offset_after",
    "tables",
    "steps",
    "verdict",
]
TABLE_KEYS = [
    "table",
    "source_rows",
    "sink_rows",
    "missing",
    "ghosts",
    "different",
    "leaves",
    "leaves_rechecked",
    "columns_not_compared",
    "compared_at",
    "verdict",
]


def test_keys_are_exactly_the_contract() -> None:
    value = json.loads(REPORT.to_text())
    assert list(value) == KEYS
    assert list(value["tables"][0]) == TABLE_KEYS
    assert value["tables"][0]["columns_not_compared"] == [{"column": "total", "reason": "generated"}]
    assert value["tables"][0]["compared_at"] == {"snapshot_id": 8123, "position": "mysql-bin.000009:500"}
    assert value["steps"] == [{"name": "open_recovery", "seconds": 0.123, "state": "done"}]
    assert value["verdict"] == "MATCH"


def test_optional_keys_only_when_given() -> None:
    more = replace(REPORT, peer={"seconds": 50.1, "ghosts": 1999}, writer={"recover": 900}).to_json()
    assert list(more) == [*KEYS, "peer", "writer"]
    assert "samples" in json.loads(json.dumps(replace(REPORT, tables=(BAD,), verdict=None).to_json()))["tables"][0]


def test_report_survives_json() -> None:
    for report in (REPORT, replace(REPORT, tables=(TABLE, BAD), verdict=None, peer={"ghosts": 1}, reason="x")):
        again = RecoveryReport.from_json(report.to_text())
        assert again.to_json() == report.to_json()


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ([], "INCONCLUSIVE"),
        (["MATCH"], "MATCH"),
        (["MATCH", "INCONCLUSIVE"], "INCONCLUSIVE"),
        (["INCONCLUSIVE", "MISMATCH", "MATCH"], "MISMATCH"),
    ],
)
def test_overall_is_the_worst(verdicts: list[str], worst: str) -> None:
    assert overall(Verdict(v) for v in verdicts) == worst


@pytest.mark.parametrize("count", ["missing", "ghosts", "different"])
def test_a_match_with_unequal_rows_cannot_be_reported(count: str) -> None:
    with pytest.raises(VerificationError, match=r"unequal rows \(shop\.orders\)"):
        codec.read(TableReport, {**sparse(TABLE), count: 1})


def test_a_run_cannot_be_better_than_its_tables() -> None:
    with pytest.raises(VerificationError, match="MATCH was reported while a table is MISMATCH"):
        replace(REPORT, tables=(TABLE, BAD), verdict=Verdict.MATCH)
    assert replace(REPORT, verdict=Verdict.INCONCLUSIVE).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("verdict", "status"), [("MATCH", 0), ("INCONCLUSIVE", 3), ("MISMATCH", 1)])
def test_exit_status(verdict: str, status: int) -> None:
    assert replace(REPORT, verdict=Verdict(verdict)).exit_status == status


# ---- assembled from the ledger -----------------------------------------------------------------

DECISION = {
    "diagnosis": {"code": "GTID_PURGED", "evidence": {"a": "b"}},
    "plan": {"strategy": "full_snapshot", "data_loss": "nothing", "reason": "GTID_PURGED: read again."},
}
VERIFIED = {**sparse(TABLE), "snapshot_id": 8123}
DOCUMENT: dict[str, Any] = {
    "epoch": 4,
    "tables": ["shop.orders"],
    "watermark": WATERMARK.to_json(),
    "verified": {"shop.orders": VERIFIED},
    "published": {"shop.orders": 8123},
}
STEPS = [StepReport("open_recovery", 1.5, "done", "t")]


def assembled(decision: dict[str, Any], recovery: dict[str, Any]) -> RecoveryReport:
    """Of a run that took STEPS if it had a recovery, and none otherwise."""
    opened = OpenRecovery.from_json({"run_id": "r1", **recovery}, read_position)
    return opened.report("shop", "r1", DecisionReport.from_json(decision), STEPS if recovery else [])


def test_assembled_report_of_a_finished_run() -> None:
    report = assembled(DECISION, DOCUMENT)
    # W is before all that was compared, so main is equal at least up to it
    assert report.tables == (replace(TABLE, verified_through=WATERMARK.taken_at.isoformat()),)
    assert report.steps == (StepReport("open_recovery", 1.5, "done", "t"),)
    assert (report.problem, report.strategy, report.epoch, report.verdict) == (
        "GTID_PURGED",
        "full_snapshot",
        4,
        "MATCH",
    )


@pytest.mark.parametrize(
    "decision",
    [
        {},  # the diagnosis itself failed
        {**DECISION, "diagnosis": {"code": "UNKNOWN"}},
        {"diagnosis": {"code": "GTID_PURGED"}},
    ],
)
def test_a_loss_that_nobody_could_tell_is_unknown_and_not_nothing(decision: dict[str, Any]) -> None:
    report = assembled(decision, {})
    assert report.data_loss == "unknown: no conclusion was possible"
    assert assembled(DECISION, DOCUMENT).data_loss == "nothing"


@pytest.mark.parametrize(
    "change",
    [
        {"published": {}},
        {"published": None},
        {"tables": ["shop.orders", "shop.customers"]},
        {"verified": {}},
        {"verified": {"shop.orders": {"snapshot_id": 1}}},
    ],
)
def test_an_unfinished_run_is_inconclusive(change: dict[str, Any]) -> None:
    report = assembled(DECISION, {**DOCUMENT, **change})
    assert report.verdict is Verdict.INCONCLUSIVE


def test_a_mismatch_stays_one_though_nothing_was_published() -> None:
    document = {
        **DOCUMENT,
        "published": {},
        "verified": {"shop.orders": {**VERIFIED, "missing": 1, "verdict": "MISMATCH"}},
    }
    assert assembled(DECISION, document).verdict is Verdict.MISMATCH


def test_a_run_that_never_started_has_a_report() -> None:
    report = assembled({}, {})
    assert (report.problem, report.strategy, report.verdict) == ("UNKNOWN", "none", "INCONCLUSIVE")
    assert set(KEYS) <= set(report.to_json())


# ---- the page ----------------------------------------------------------------------------------


def test_page_shows_the_numbers() -> None:
    page = render_html(replace(REPORT, tables=(TABLE, BAD), verdict=None, peer={"ghosts": 1999}))
    for text in ("MISMATCH", "shop.orders", "shop.events", "200\u202f000", "GTID_PURGED", "1999", "open_recovery"):
        assert text in page


PAIR = RowPair(
    "different",
    "7",
    {"id": "7", "name": "<b>ann</b>", "note": None},
    {"id": "7", "name": "bob", "note": None},
    ("name",),
    "2026-11-21T10:00:00+00:00",
)
GHOST = RowPair("ghosts", "8", None, {"id": "8", "name": "eve", "note": "x"})


def test_page_shows_both_rows_with_the_columns_that_differ_first() -> None:
    bad = replace(BAD, samples=(PAIR.sample, GHOST.sample))
    page = render_html(replace(REPORT, tables=(bad,), verdict=None), {"shop.events": [PAIR, GHOST]})
    assert re.findall(r"<th>(name|id|note)</th>", page) == ["name", "id", "note", "id", "name", "note"]
    assert page.count('<td class="bad"><code>') == 2  # the name, on both sides
    assert "&lt;b&gt;ann&lt;/b&gt;" in page
    assert "<b>" not in page
    assert page.count("no such row") == 1
    assert all(said in page for said in ("differs in name", "only in the sink"))
    twice = replace(GHOST, source=GHOST.sink)
    assert twice.finding == "more often in the sink than in the source"
    assert replace(PAIR, differ=()).finding == "differed, and is equal in the source by now"
    assert page.count(">NULL<") == 2
    assert "read at 2026-11-21T10:00:00+00:00, after the comparison" in page


def test_page_is_self_contained_and_follows_the_readers_colours() -> None:
    page = render_html(REPORT)
    assert "prefers-color-scheme: dark" in page
    for outside in ("http://", "https://", "<script", "src=", "@import", "url(", "<link"):
        assert outside not in page


def test_page_escapes_everything() -> None:
    evil = "<script>alert(1)</script>"
    page = render_html(
        replace(
            REPORT,
            pipeline=evil,
            run_id=evil,
            problem=evil,
            strategy=evil,
            data_loss=evil,
            reason=evil,
            evidence={evil: evil},
            offset_before={evil: evil},
            watermark={evil: evil},
            peer={evil: evil},
            writer={evil: evil},
            links={evil: evil},
            steps=(StepReport(evil, 1, evil),),
            tables=(replace(BAD, table=evil, samples=(evil,), columns_not_compared=(NotCompared(evil, evil),)),),
            verdict=None,
        )
    )
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_page_of_an_empty_run() -> None:
    page = render_html(assembled({}, {}))
    assert "No table was compared" in page


def test_bars_of_steps_that_ran_side_by_side() -> None:
    at = "2026-11-21T09:00:0{}+00:00"
    steps = [StepReport("a", 2.0, "done", at.format(0)), StepReport("b", 8.0, "done", at.format(2))]
    assert [(round(bar.left), round(bar.width)) for bar in time_bars(steps)] == [(0, 20), (20, 80)]
    plain = [StepReport("a", 2.0, "done"), StepReport("b", 8.0, "done")]
    assert [(round(bar.left), round(bar.width)) for bar in time_bars(plain)] == [(0, 25), (0, 100)]
    assert time_bars([]) == []
    assert "started" not in sparse(plain[0])
    assert "parts" not in sparse(plain[0])
    assert codec.read(StepReport, sparse(steps[0])) == steps[0]


@pytest.mark.parametrize(("leaves", "squares"), [(0, 0), (3, 3), (600, 600), (601, 301), (5000, 556)])
def test_the_heat_map_of_many_leaves_has_few_squares(leaves: int, squares: int) -> None:
    made = heat_map("=" * (leaves - 1) + "~" if leaves else "")
    assert len(made) == squares
    assert sum(last - first + 1 for first, last, _ in made) == leaves
    assert [open_ for *_, open_ in made] == [False] * (squares - 1) + [True] * bool(squares)


@pytest.mark.parametrize(
    "changes",
    [
        {"sink_rows": 199_999},
        {"verdict": Verdict.MISMATCH},
    ],
)
def test_inv_34_no_report_says_match_of_unequal_counts_or_mismatch_without_a_reason(changes: dict[str, Any]) -> None:
    with pytest.raises(VerificationError):
        replace(TABLE, **changes)


def test_inv_34_counts_of_the_whole_table_say_nothing_of_a_part() -> None:
    part = replace(TABLE, sink_rows=199_999, part="2026-11-01")
    assert codec.read(TableReport, sparse(part)) == part
    assert TableReport.verified_from_json(part.table, sparse(part)) == part
    assert "part" not in sparse(TABLE)


def test_inv_34_a_mismatch_without_rows_names_its_reason() -> None:
    assert replace(TABLE, verdict=Verdict.MISMATCH, samples=("a suite failed",)).unequal_rows == 0


def test_a_report_says_who_started_and_approved_it_and_when_it_began_and_ended() -> None:
    run = create_autospec(Run, instance=True, options=RunOptions(started_by="bob"))
    made = told_of(run, replace(REPORT, steps=(StepReport("a", 1, "done", "2026-11-23T10:00:00+00:00"),)), "by ann")
    assert (made.started_by, made.approved, made.began) == ("bob", "by ann", "2026-11-23T10:00:00+00:00")
    assert made.ended is not None
    again = RecoveryReport.from_json(made.to_text())
    assert again == made
    page = render_html(made)
    assert all(text in page for text in ("bob", "by ann", "2026-11-23 10:00:00", made.ended[:19].replace("T", " ")))
    in_advance = create_autospec(Run, instance=True, options=RunOptions(approved=True))
    assert told_of(in_advance, REPORT, "").approved == "in advance, by who triggered the run"


def test_a_run_begins_with_its_first_step_that_began_and_not_with_one_that_is_still_to_come() -> None:
    run = create_autospec(Run, instance=True, options=RunOptions())
    steps = (
        StepReport("later", 1, "done", "2026-11-23T10:00:09+00:00"),
        StepReport("first", 1, "done", "2026-11-23T10:00:00+00:00"),
        StepReport("to come", 0, "pending"),
    )
    assert told_of(run, replace(REPORT, steps=steps), "").began == "2026-11-23T10:00:00+00:00"
    assert told_of(run, replace(REPORT, steps=steps[2:]), "").began is None


def test_a_match_has_no_alarm_colours() -> None:
    pair = RowPair("different", "7", {"id": "7", "name": "a"}, {"id": "7", "name": "b"}, ("name",), "t")
    match = replace(REPORT, tables=(replace(TABLE, samples=("different: 7",), leaf_map="=~"),))
    page = render_html(match, {"shop.orders": [pair]}).partition("</style>")[2]
    assert 'class="hot"' not in page
    assert 'class="bad"' not in page
    assert 'class="looked"' in page
