"""Values that events don't carry as they are: what is refused, and what becomes a dead letter instead of a wrong row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.errors import ConnectorError, SchemaError, TransportError
from airflow_cdc.sinks.iceberg import dead_letters
from airflow_cdc.spark_apps.apply.batch import apply_batch
from tests.apply_support import ITEMS, Bench, Topic, column, settings, stamp_at, table

if TYPE_CHECKING:
    pass

SIGN = "\N{REPLACEMENT CHARACTER}"
NOTES = table(
    "notes", [column("id", "int", nullable=False), column("note", charset="latin1"), column("n", "int")], ("id",)
)
DOCS = table("docs", [column("id", "int", nullable=False), column("j", "json")], ("id",))
WORDS = table("words", [column("word", charset="latin1", nullable=False), column("n", "int")], ("word",))
WRAPS = table("wraps", [column("schema", nullable=False), column("payload", nullable=False), column("n", "int")],
              ("schema", "payload"))  # fmt: skip
JSON = "org.apache.kafka.connect.json.JsonConverter"


def test_inv_31_a_character_that_debezium_cannot_read_is_a_dead_letter_and_never_written(bench: Bench) -> None:
    topic = Topic(NOTES)
    topic.create(id=1, note="café", n=1)
    topic.update({"id": 2, "note": "old", "n": 2}, id=2, note=f"a{SIGN}b", n=3)
    target = bench.target(NOTES, stamp_at(topic), [(2, "old", 2)])
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(1, "café", 1), (2, "old", 2)]
    (letter,) = dead_letters.unresolved(bench.lake, bench.pipeline)
    assert letter.reason.startswith("the row's column note (latin1 text with a character")


def test_inv_31_a_row_that_never_rests_leaves_one_letter_however_often_it_changes(bench: Bench) -> None:
    topic = Topic(NOTES)
    topic.create(id=1, note="café", n=1)
    for number in range(9):
        topic.update({"id": 2, "note": f"a{SIGN}b", "n": number}, id=2, note=f"a{SIGN}b", n=number + 1)
    target = bench.target(NOTES, stamp_at(topic), [(2, "old", 2)])
    done = apply_batch(bench.context([topic], max_dead_letters=2), [target], topic.upto)[NOTES.full_name]
    assert bench.rows(target.stage) == [(1, "café", 1), (2, "old", 2)]
    assert [letter.offset for letter in dead_letters.unresolved(bench.lake, bench.pipeline)] == [9]
    assert done["dead_letters"] == 9


def test_inv_31_so_many_doubted_rows_that_a_person_must_know_are_refused_by_their_column(bench: Bench) -> None:
    topic = Topic(NOTES)
    for number in range(9):
        topic.create(id=number, note=f"a{SIGN}b", n=1)
    target = bench.target(NOTES, stamp_at(topic))
    with pytest.raises(SchemaError, match=r"about 9 rows cannot be trusted .*column note \(latin1.*utf8mb4"):
        apply_batch(bench.context([topic], max_dead_letters=2), [target], topic.upto)
    assert dead_letters.letters(bench.lake, bench.pipeline) == ()


def test_inv_31_such_a_key_is_a_dead_letter_and_no_row_of_another_key(bench: Bench) -> None:
    topic = Topic(WORDS)
    for number in range(3):  # bytes 81, 8D and 8F: three rows at the source
        topic.create(word=SIGN, n=number)
    plain = [
        (word, 9) for word in ("a", "b", "c", "d")
    ]  # more than those: a batch of garbled keys alone is not applied
    for word, number in plain:
        topic.create(word=word, n=number)
    target = bench.target(WORDS, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == plain
    letters = dead_letters.unresolved(bench.lake, bench.pipeline)
    assert [one.reason.partition(" (")[0] for one in letters] == ["the key's column word"] * 3


def test_the_very_character_is_text_where_the_column_can_hold_it(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name=f"a{SIGN}b", qty=1)
    target = bench.target(ITEMS, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(1, f"a{SIGN}b", 1)]


@pytest.mark.parametrize(
    "garbled",
    [
        '["11:0-30:00"]',
        *(pytest.param(text, marks=pytest.mark.slow) for text in ('{"a":"479:0-60:0-59"}', '"01:0-1:0-1.00000-5"')),
    ],
)
def test_inv_31_a_garbled_time_in_json_is_a_dead_letter(bench: Bench, garbled: str) -> None:
    topic = Topic(DOCS)
    topic.create(id=1, j=garbled)
    topic.create(id=2, j='{"a":["10:00:00","3:0-2","01:30-02:00"]}')
    target = bench.target(DOCS, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(2, '{"a":["10:00:00","3:0-2","01:30-02:00"]}')]
    (letter,) = dead_letters.unresolved(bench.lake, bench.pipeline)
    assert "column j (no JSON, or a negative TIME" in letter.reason


@pytest.mark.parametrize("default", ["NULL", pytest.param("CURRENT_TIMESTAMP", marks=pytest.mark.slow), "x"])
def test_inv_31_a_null_that_arrives_as_its_default_is_not_written(bench: Bench, default: str) -> None:
    """An event of a converter that writes defaults says snapshot "false", which one that does not leaves out."""
    topic = Topic(ITEMS)
    row = {"id": 1, "name": default, "qty": 1}
    topic.event("c", None, row, source=topic.source(snapshot="false"))
    target = replace(bench.target(ITEMS, stamp_at(topic)), defaults={"id": None, "name": default, "qty": None})
    with pytest.raises(ConnectorError, match="replaces NULL with the default: name"):
        apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == []
    other = Topic(ITEMS)
    other.event("c", None, row)
    target = replace(bench.target(ITEMS, stamp_at(other)), defaults=target.defaults)
    apply_batch(bench.context([other]), [target], other.upto)
    assert bench.rows(target.stage) == [(1, default, 1)]


def test_inv_33_events_of_one_key_in_two_partitions_are_refused(bench: Bench) -> None:
    """INT became BIGINT: with schemas in the keys their bytes changed, and with them the partition."""
    topic = Topic(ITEMS, partitions=2)
    topic.event("u", {"id": 1, "name": "a", "qty": 1}, {"id": 1, "name": "older", "qty": 1}, partition=1)
    topic.event("u", {"id": 1, "name": "a", "qty": 1}, {"id": 1, "name": "newer", "qty": 2}, partition=0)
    topic.event("c", None, {"id": 2, "name": "b", "qty": 1}, partition=0)
    target = bench.target(ITEMS, stamp_at(topic), [(1, "a", 1)])
    with pytest.raises(TransportError, match=r'several partitions of the topic.*\{"id":1\}'):
        apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(1, "a", 1)]


def test_inv_33_without_the_rule_the_older_event_wins(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_cdc.spark_apps.apply.batch._check_order", lambda *_: None)
    topic = Topic(ITEMS, partitions=2)
    topic.event("u", {"id": 1, "name": "a", "qty": 1}, {"id": 1, "name": "older", "qty": 1}, partition=1)
    topic.event("u", {"id": 1, "name": "a", "qty": 1}, {"id": 1, "name": "newer", "qty": 2}, partition=0)
    target = bench.target(ITEMS, stamp_at(topic), [(1, "a", 1)])
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(1, "older", 1)]


def test_keys_in_several_partitions_are_applied_when_each_stays_in_one(bench: Bench) -> None:
    topic = Topic(ITEMS, partitions=2)
    for number in range(4):
        topic.event("c", None, {"id": number, "name": "a", "qty": 1}, partition=number % 2)
        topic.event("u", {"id": number}, {"id": number, "name": "b", "qty": 2}, partition=number % 2)
    target = bench.target(ITEMS, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(number, "b", 2) for number in range(4)]


LOOKS_WRAPPED = {"schema": '{"type": "struct"}', "payload": '{"schema": "x", "payload": "y"}'}


@pytest.mark.parametrize("wrapped", [False, True])
def test_inv_33_key_columns_named_schema_and_payload_are_read_by_the_converters_setting(
    bench: Bench, *, wrapped: bool
) -> None:
    topic = Topic(WRAPS, schemas=wrapped)
    topic.create(**LOOKS_WRAPPED, n=1)
    made = settings(key__converter=JSON, **{"key.converter.schemas.enable": str(wrapped).lower()})
    target = bench.target(WRAPS, stamp_at(topic))
    apply_batch(bench.context([topic], made=made), [target], topic.upto)
    assert bench.rows(target.stage) == [(*LOOKS_WRAPPED.values(), 1)]
    assert dead_letters.unresolved(bench.lake, bench.pipeline) == ()


def test_inv_33_such_a_key_is_refused_where_only_the_worker_knows_the_setting(bench: Bench) -> None:
    topic = Topic(WRAPS)
    with pytest.raises(SchemaError, match=r"named schema and payload.*Set key.converter"):
        apply_batch(bench.context([topic]), [bench.target(WRAPS, stamp_at(topic))], topic.upto)
