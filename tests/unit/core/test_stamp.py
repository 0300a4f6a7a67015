"""Stamps and chunk ledgers as snapshot-summary properties."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.errors import UnknownStateError
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.topics import TopicOffsets, fence_from_json

OFFSETS = fence_from_json({"shop.orders": {"id": "Qx1", "partitions": {"10": 5, "2": "7"}}})

topics = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.builds(TopicOffsets, st.text(max_size=6), st.dictionaries(st.integers(0, 99), st.integers(0, 2**62))),
    max_size=3,
)
watermarks = st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=9) | st.integers(), max_size=3)


@given(epoch=st.integers(0, 10**6), watermark=watermarks, offsets=topics)
def test_a_stamp_survives_the_summary_and_json(
    epoch: int, watermark: dict[str, object] | None, offsets: dict[str, TopicOffsets]
) -> None:
    stamp = Stamp(epoch, watermark, offsets, 7)
    summary = stamp.to_summary()
    assert all(isinstance(value, str) for value in summary.values())
    assert Stamp.from_summary({**summary, "total-records": "3"}, 7) == stamp
    assert Stamp.from_json(stamp.to_json()) == stamp
    assert pickle.loads(pickle.dumps(stamp)) == stamp  # noqa: S301


def test_offsets_are_numbers_in_numeric_order() -> None:
    stamp = Stamp(1, offsets=OFFSETS)
    assert list(stamp.offsets["shop.orders"].next.items()) == [(2, 7), (10, 5)]
    assert list(json.loads(json.dumps(stamp.to_json()))["offsets"]["shop.orders"]["partitions"]) == ["2", "10"]
    assert stamp.next_offset("shop.orders", 10) == 5
    assert stamp.next_offset("shop.orders", 3) is None
    assert stamp.next_offset("other", 0) is None


def test_at_names_the_snapshot_that_carries_it() -> None:
    assert Stamp(1).at(99).snapshot_id == 99
    assert Stamp(1).at(99).epoch == 1


def test_a_summary_without_an_epoch_has_no_stamp() -> None:
    assert Stamp.from_summary({"total-records": "3", "cdc.offsets": "{}"}) is None


@pytest.mark.parametrize(
    "broken",
    [
        {"cdc.epoch": "x"},
        {"cdc.epoch": "-1"},
        {"cdc.epoch": "1", "cdc.offsets": "{"},
        {"cdc.epoch": "1", "cdc.offsets": '{"t": {"partitions": {"0": 1}}}'},
        {"cdc.epoch": "1", "cdc.offsets": '{"t": {"id": "a", "partitions": {"0": -4}}}'},
        {"cdc.epoch": "1", "cdc.offsets": '{"t": {"id": "a", "partitions": {"0": 1.5}}}'},
        {"cdc.epoch": "1", "cdc.offsets": "[1]"},
        {"cdc.epoch": "1", "cdc.watermark": "7"},
    ],
)
def test_a_stamp_that_cannot_be_read_is_unknown_not_absent(broken: dict[str, str]) -> None:
    with pytest.raises(UnknownStateError, match=r"snapshot 5.*diff_repair"):
        Stamp.from_summary(broken, 5)


@pytest.mark.parametrize("broken", [{}, {"epoch": True}, {"epoch": 1, "offsets": {"t": 3}}])
def test_a_mirrored_stamp_that_cannot_be_read_is_unknown(broken: dict[str, object]) -> None:
    with pytest.raises(UnknownStateError):
        Stamp.from_json(broken)


@given(
    done_to=st.none() | st.lists(st.integers() | st.text(max_size=5), min_size=1, max_size=3),
    rows=st.integers(0, 10**12),
    complete=st.booleans(),
)
def test_a_ledger_survives_the_summary(done_to: list[object] | None, rows: int, complete: bool) -> None:
    ledger = ChunkLedger("w", "uuid", "f", None if done_to is None else tuple(done_to), rows, complete)
    assert ChunkLedger.from_summary(ledger.to_summary()) == ledger


def test_no_ledger_and_a_broken_ledger_differ() -> None:
    assert ChunkLedger.from_summary({"cdc.epoch": "1"}) is None
    for text in ('{"w": "a"}', "[]", "{", '{"w":"a","server_uuid":"b","fingerprint":"c","rows":-1}'):
        with pytest.raises(UnknownStateError):
            ChunkLedger.from_summary({"cdc.ledger": text})


@pytest.mark.parametrize(("field", "value"), [("w", "other"), ("server_uuid", "other"), ("fingerprint", "other")])
def test_inv_03_a_ledger_belongs_to_its_watermark_server_and_definition(field: str, value: str) -> None:
    one = ChunkLedger("w1", "s1", "f1", done_to=(5,), rows=5)
    assert one.same_read(replace(one, done_to=(9,), rows=9, complete=True))
    assert not one.same_read(replace(one, **{field: value}))  # type: ignore[arg-type]
