"""A record that could not be applied, as a document of the search engine; the engine itself: tests/integration."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from airflow_cdc.core.dead_letter import DeadLetter
from airflow_cdc.sinks.opensearch.dead_letters import _document, _id, _letter

SEEN = datetime(2026, 1, 1, 9, 30, 0, 123_456, tzinfo=UTC)
LETTER = DeadLetter("shop.shop.orders", "T1", 3, 41, b"\xff\x00", b'{"a":1}', "shop.orders", "bad", 1, SEEN)


@pytest.mark.parametrize(
    "letter",
    [
        LETTER,
        replace(LETTER, key=None, value=None),
        replace(LETTER, key=b"", value=b""),
        replace(LETTER, headers=(("h", b"\x01"), ("h", b""))),
        replace(LETTER, attempts=7, reason="it is \u00fcber"),
    ],
    ids=["bytes", "nothing", "empty", "headers", "tried again"],
)
def test_a_record_comes_back_to_the_byte(letter: DeadLetter) -> None:
    """It is tried again from here, and the topic may have forgotten it."""
    assert _letter(json.loads(json.dumps(_document("p", letter)))) == letter


@pytest.mark.parametrize(
    "other",
    [
        replace(LETTER, topic="other"),
        replace(LETTER, topic_id="T2"),
        replace(LETTER, partition=4),
        replace(LETTER, offset=42),
        replace(LETTER, table="shop.items"),
    ],
    ids=["topic", "a topic made anew", "partition", "offset", "table"],
)
def test_each_record_of_each_table_is_a_document_of_its_own(other: DeadLetter) -> None:
    assert _id("p", other) != _id("p", LETTER)
    assert _id("q", LETTER) != _id("p", LETTER)


def test_one_that_is_tried_again_is_the_same_document() -> None:
    again = replace(LETTER, attempts=9, reason="worse", first_seen=SEEN + timedelta(days=1), value=None)
    assert _id("p", again) == _id("p", LETTER)
