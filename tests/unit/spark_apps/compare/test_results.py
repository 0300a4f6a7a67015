"""What a comparison reports: why a table is not called equal whatever its rows are, and when the task fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.core.dead_letter import DeadLetter
from airflow_cdc.core.errors import SourceError, VerificationError
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.decisions.compare.expectations import Judged
from airflow_cdc.decisions.compare.part import WHOLE, OneValue, Part
from airflow_cdc.decisions.compare.verdict import KeyVerdict, Tally
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.compare import results
from airflow_cdc.spark_apps.compare.caveats import letter_caveats, wait_for_xa
from airflow_cdc.spark_apps.compare.scan import Outcome, Subject
from tests.unit.builders import WATERMARK
from tests.unit.flows.recovering import recovering
from tests.unit.tables import column, table

TABLE = table(column("id", "bigint", nullable=False), column("shape", "json"), key=("id",))
NAME = TABLE.full_name
TOPIC = "shop.shop.t"
GOOD = Judged(NAME, 3)


def outcome(tally: Tally | None = None, part: Part = WHOLE, **more: Any) -> Outcome:
    """A comparison of ten rows with ten rows, at version 7 of the sink."""
    subject = Subject(TABLE, cast("Any", SimpleNamespace(version=7)), None, {}, WATERMARK, part=part)
    rows = {"source_rows": 10, "sink_rows": 10, "leaves": 4, "leaves_rechecked": 1}
    return Outcome(subject, tally or Tally(), **(rows | more))


def different(**counts: int) -> Tally:
    """A tally of so many keys of each verdict."""
    tally = Tally()
    for name, count in counts.items():
        for number in range(count):
            tally.add(KeyVerdict[name.upper()], f"{name}-{number}")
    return tally


def letter(offset: int, reason: str = "no JSON", of: str = NAME, topic_id: str = "id") -> DeadLetter:
    return DeadLetter(TOPIC, topic_id, 0, offset, b"k", b"v", of, reason, 1, datetime(2026, 1, 1, tzinfo=UTC))


# ---- caveats -------------------------------------------------------------------------------------------------------------------


def with_letters(*letters: DeadLetter) -> Run:
    run = recovering()
    sink: Any = run.clients.sink
    sink.unresolved_letters.return_value = list(letters)
    return run


def test_inv_42_a_table_with_records_that_were_never_applied_is_no_match() -> None:
    told = letter_caveats(with_letters(letter(5, "the first"), letter(6)), {})(outcome())
    assert told == ("2 records are in the dead-letter table, the first for the first",)


def test_records_before_the_watermark_were_read_again_with_the_whole_table() -> None:
    fence = {TOPIC: TopicOffsets("id", {0: 6})}
    assert letter_caveats(with_letters(letter(5)), fence)(outcome()) == ()
    assert letter_caveats(with_letters(letter(6)), fence)(outcome()) != ()


def test_records_whose_rows_were_read_again_one_by_one_do_not_count() -> None:
    right = [letter(5).place]
    assert letter_caveats(with_letters(letter(5)), {}, right)(outcome()) == ()
    assert letter_caveats(with_letters(letter(5), letter(6)), {}, right)(outcome()) != ()


def test_records_of_another_table_say_nothing_of_this_one() -> None:
    assert letter_caveats(with_letters(letter(5, of="shop.other")), {})(outcome()) == ()


def prepared(answer: Any) -> Run:
    run = recovering()
    source: Any = run.clients.source
    source.xa_pending.side_effect = [answer]
    return run


def test_inv_32_a_difference_while_a_prepared_transaction_is_open_is_not_settled_yet() -> None:
    """Its changes are in the log, and so in the sink, and in no row of the source."""
    one = outcome(different(missing=2, ghost=1, unsettled=1))
    wait_for_xa(prepared(["xa"]), one)
    assert (one.tally.wrong, one.tally.unsettled) == (0, 4)
    assert one.verdict is Verdict.INCONCLUSIVE
    assert one.caveats == ("prepared XA transactions are open on the source",)


@pytest.mark.parametrize("answer", [[], SourceError("XA RECOVER needs a privilege")], ids=["none is open", "not told"])
def test_a_difference_without_an_open_transaction_counts(answer: Any) -> None:
    one = outcome(different(missing=2))
    wait_for_xa(prepared(answer), one)
    assert (one.tally.missing, one.caveats) == (2, ())


def test_equal_tables_are_not_asked_about() -> None:
    run = prepared(["xa"])
    wait_for_xa(run, outcome())
    source: Any = run.clients.source
    source.xa_pending.assert_not_called()


# ---- the report ---------------------------------------------------------------------------------------------------------------


def test_a_report_says_what_was_compared_with_what_and_at_which_version() -> None:
    report = results.make_report(outcome(leaf_map="=#", losses=(("shape", "the sink has no such type"),)), GOOD)
    assert (report.table, report.source_rows, report.sink_rows) == (NAME, 10, 10)
    assert (report.leaves, report.leaves_rechecked, report.leaf_map, report.part) == (4, 1, "=#", "")
    assert (report.compared_at.snapshot_id, report.compared_at.position) == (7, str(WATERMARK))
    assert ("shape", "the sink has no such type") in [(c.column, c.reason) for c in report.columns_not_compared]
    assert report.verdict is Verdict.MATCH


def test_a_report_of_differences_names_their_keys_first_and_one_of_doubts_the_doubts() -> None:
    wrong = results.make_report(outcome(different(missing=1), source_rows=11, caveats=("a doubt",)), GOOD)
    assert (wrong.verdict, wrong.missing, wrong.ghosts, wrong.different) == (Verdict.MISMATCH, 1, 0, 0)
    assert wrong.samples == ("missing: missing-0", "a doubt")
    doubted = results.make_report(outcome(different(unsettled=1), caveats=("a doubt",)), GOOD)
    assert doubted.verdict is Verdict.INCONCLUSIVE
    assert doubted.samples[0] == "a doubt"


def test_rows_that_are_equal_and_not_as_expected_are_a_mismatch_because_readers_would_see_them() -> None:
    failed = Judged(NAME, 3, ("qty has 2 NULLs",))
    report = results.make_report(outcome(), failed)
    assert report.verdict is Verdict.MISMATCH
    assert "qty has 2 NULLs" in report.samples


def test_a_part_of_a_table_is_named_in_its_report() -> None:
    day = Part(OneValue("id", 20261003), "2026-10-03")
    assert results.make_report(outcome(part=day), GOOD).part == "2026-10-03"


def test_a_table_that_could_not_be_compared_is_never_equal() -> None:
    report = results.unproven(NAME, "the source does not answer")
    assert (report.verdict, report.samples) == (Verdict.INCONCLUSIVE, ("the source does not answer",))
    assert report.compared_at.snapshot_id is None


def test_the_log_line_names_the_counts_and_every_doubt() -> None:
    line = results.summary(outcome(different(missing=2, ghost=1), source_rows=11, in_flight=3, caveats=("a doubt",)))
    assert line.startswith(
        f"{NAME}: 11 source rows, 10 compared with them, 2 missing, 1 ghosts, 0 different, 0 unsettled"
    )
    assert "3 in flight; a doubt" in line


# ---- whether the task fails -----------------------------------------------------------------------------------------------------


def reports(*verdicts: Verdict) -> list[Any]:
    base = results.make_report(outcome(), GOOD)
    return [
        replace(base, table=f"shop.t{number}", verdict=verdict, samples=(f"key of t{number}",))
        for number, verdict in enumerate(verdicts)
    ]


def publishing(policy: Any, writer: str = "cdc_apply") -> Run:
    run = recovering()
    pipeline = replace(
        run.pipeline,
        policy=replace(run.pipeline.policy, publish=policy),
        sink=replace(run.pipeline.sink, writer=writer),
    )
    return replace(run, pipeline=pipeline)


OK, BAD, OPEN = Verdict.MATCH, Verdict.MISMATCH, Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("policy", "verdicts"),
    [("all", (OK, OK)), ("each", (OK, OK)), ("each", (OK, BAD)), ("each", (OPEN, OK))],
)
def test_verify_ends_well_where_something_may_be_published(policy: str, verdicts: tuple[Verdict, ...]) -> None:
    results.refuse(publishing(policy), reports(*verdicts))


@pytest.mark.parametrize(
    ("policy", "verdicts", "told"),
    [
        ("all", (OK, BAD), BAD),
        ("all", (OK, OPEN), OPEN),
        ("all", (OPEN, BAD), BAD),
        ("each", (BAD,), BAD),
        ("each", (OPEN, BAD), BAD),
    ],
)
def test_verify_fails_with_the_worst_verdict_where_nothing_may_be_published(
    policy: str, verdicts: tuple[Verdict, ...], told: Verdict
) -> None:
    with pytest.raises(VerificationError) as refused:
        results.refuse(publishing(policy), reports(*verdicts))
    assert refused.value.verdict == str(told)
    assert "Main is as it was." in refused.value.todo
    assert ("a new watermark" in refused.value.todo) is (BAD in verdicts)


def test_a_refusal_names_the_tables_that_are_not_equal_and_a_key_of_the_first() -> None:
    with pytest.raises(VerificationError) as refused:
        results.refuse(publishing("all"), reports(OK, BAD))
    assert "shop.t1 is MISMATCH" in str(refused.value)
    assert "shop.t0" not in str(refused.value)
    assert "first: key of t1" in str(refused.value)


def test_readers_see_differences_in_tables_that_the_connector_writes_itself() -> None:
    with pytest.raises(VerificationError) as refused:
        results.refuse(publishing("all", writer="connector"), reports(BAD))
    assert "Readers see them" in refused.value.todo
