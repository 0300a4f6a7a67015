"""Records that could not be applied, in files."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_cdc.core.dead_letter import DeadLetter
from airflow_cdc.core.errors import UnknownStateError
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.sinks.hudi.endpoint import HudiEndpoint
from airflow_cdc.sinks.hudi.letters import FOLDER, Letters

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LETTERS = [DeadLetter("t", "T1", 0, offset, b"\xff", None, "shop.orders", "bad", 1, NOW) for offset in (4, 5)]


@pytest.fixture
def letters(tmp_path: Path) -> Letters:
    return Letters(HudiEndpoint(str(tmp_path)))


def test_letters_are_kept_once_counted_and_resolved_by_a_fence(letters: Letters) -> None:
    letters.record("p", LETTERS)
    letters.record("p", [replace(LETTERS[0], reason="worse")])
    assert letters.unresolved("p") == (replace(LETTERS[0], reason="worse", attempts=2), LETTERS[1])
    assert letters.unresolved("another") == ()
    fence = {"shop.orders": {"t": TopicOffsets("T1", {0: 5})}}
    assert letters.resolve_before("p", fence) == 1
    assert letters.unresolved("p", "shop.orders") == (LETTERS[1],)
    letters.count_attempt("p", [LETTERS[1]] * 4)
    assert letters.unresolved("p")[0].attempts == 2
    assert letters.waiting("p") == 1


def test_a_letter_that_cannot_be_read_is_unknown_and_not_none(letters: Letters, tmp_path: Path) -> None:
    letters.record("p", LETTERS)
    next((tmp_path / FOLDER / "p").iterdir()).write_text("{")
    with pytest.raises(UnknownStateError, match="dead letter"):
        letters.waiting("p")
