"""The runbook's sentences that `airflow cdc explain` prints, and the rows that it looks through."""

from __future__ import annotations

import re

import pytest

from airflow_cdc.core.error_texts import KnownText, match
from airflow_cdc.decisions.diagnosis.screen import Screen, needed
from airflow_cdc.kinds import all_texts
from airflow_cdc.reports.runbook import first_aid
from tests.unit.core.test_pasted_texts import TEXTS

CODES = sorted({code for text in all_texts() for code in (text.code, *(other for other, _ in text.otherwise))})


@pytest.mark.parametrize("code", CODES)
def test_the_runbook_says_in_two_sentences_what_to_do_about_every_problem_that_a_text_can_name(code: str) -> None:
    sentences = first_aid(code)
    assert 10 < len(sentences) < 500
    assert not re.search(r"\*\*|`|\]\(", sentences)


def test_a_code_without_a_runbook_has_no_first_aid() -> None:
    assert first_aid("NO_SUCH_CODE") == ""


def test_the_screen_hides_no_row_that_matches() -> None:
    screen = Screen(all_texts())
    for code, origin, text in TEXTS:
        assert screen.first(text) == match(all_texts(), text), f"{code} {origin}"


def test_every_row_can_be_screened() -> None:
    """Without words to look for first, a row would be matched against each of a log's thousands of entries."""
    assert [row.pattern for row in all_texts() if not needed(row.pattern)] == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("log .* purged", "The log mysql-bin.000004 was PURGED"),
        ("the log.file is gone", "the log-file is gone"),
        ("behaviou?r unknown", "behavior unknown"),
        ("re(?:ad|write)s fail", "all rewrites fail"),
        ("(?:cannot|could not) read", "it could not read"),
        (r"error \d{4} of", "error 1236 of the server"),
        ("[Aa]ccess denied", "Access denied"),
        (r"position \(pos\) lost", "position (pos) lost"),
        ("^first|last$", "at last"),
        ("begin (?!never)now", "begin now"),
        ("wait+ing for", "waitttting for"),
        (r"log\nlost", "log\nlost"),
    ],
)
def test_no_text_that_a_pattern_matches_is_passed_over(pattern: str, text: str) -> None:
    """Whatever stands in a pattern for more than itself is no word to look for first."""
    row = KnownText("CODE", 1, pattern, "a meaning")
    assert row.named_in(text) is not None
    assert Screen([row]).first(text) == row.named_in(text)
