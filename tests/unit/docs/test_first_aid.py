"""First aid without an installation: its table is the code's own, and its words lead where they say."""

from __future__ import annotations

import pytest

from airflow_cdc.cli.explain import BY_HAND
from airflow_cdc.core.problem import LOST as RANKS_OF_LOSS
from airflow_cdc.decisions.diagnosis.first_aid import LOST, rows
from airflow_cdc.kinds import CONNECTORS, SOURCES, all_texts
from tests.diagnosing import explain
from tests.paths import ROOT
from tests.unit.builders import ALL_CODES

PAGE = ROOT / "docs" / "connector-failed.md"
ROWS = list(rows(all_texts()))
PROBLEMS = [
    row
    for kinds in (SOURCES, CONNECTORS)
    for kind in kinds.values()
    if kind.rules is not None
    for row in kind.rules.load().problems
]


@pytest.mark.parametrize(("says", "code", "lost"), ROWS, ids=[says[:40] for says, _, _ in ROWS])
def test_explain_finds_the_code_that_the_page_gives_for_the_words_of_an_error(says: str, code: str, lost: str) -> None:
    assert explain(says).code == code
    assert lost == LOST[code]


def test_the_page_lists_every_row_of_the_codes_own_table() -> None:
    text = PAGE.read_text()
    assert len(ROWS) >= 30
    assert [code for says, code, _ in ROWS if f"| `{says}` | [{code}](" not in text] == []


def test_whatever_a_text_can_name_has_an_answer_to_the_first_question() -> None:
    named = {code for text in all_texts() for code in (text.code, *(other for other, _ in text.otherwise))}
    assert named <= set(LOST) <= ALL_CODES


def test_no_lost_position_is_called_a_log_that_waits() -> None:
    lost = {row.code for row in PROBLEMS if row.rank in RANKS_OF_LOSS}
    assert {code for code in lost & set(LOST) if LOST[code].startswith("Not yet")} == set()


def test_the_page_that_explain_names_is_there_and_says_first_what_not_to_do() -> None:
    text = PAGE.read_text()
    title = text.splitlines()[0].removeprefix("# ")
    assert BY_HAND.startswith(f'the page "{title}"')
    assert text.index("What not to do") < text.index("Save what you have") < text.index("Which of these is it?")
    assert "snapshot.mode=when_needed" in text[: text.index("Save what you have")]
