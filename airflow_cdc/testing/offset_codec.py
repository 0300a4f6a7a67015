"""What every codec of stored offsets must do; no server is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pytest

from airflow_cdc.core.errors import OffsetRejectedError
from airflow_cdc.core.offset import OffsetCodec
from airflow_cdc.kinds import read_position

ODD: tuple[object, ...] = (None, True, -1, 1.5, "", "x", [], [[]], {}, {"a": 1}, 10**40, "\x00")
"""JSON values of a wrong type, to put in place of right ones."""


def damaged(value: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """The value with each of its keys in turn removed or set to something odd; and an empty value."""
    yield {}
    for key in value:
        yield {name: held for name, held in value.items() if name != key}
        yield from ({**value, key: odd} for odd in ODD)


class OffsetCodecContract:
    """Subclass it and provide the fixtures:

    * `codec`: the codec under test;
    * `source`: the kind of source whose positions it reads, by name;
    * `stored`: values as the connector really stores them, each at a later position than the one before;
    * `malformed`: values that it must not accept as an offset.
    """

    def test_what_is_stored_is_kept_and_means_a_position(
        self, codec: OffsetCodec, source: str, stored: Sequence[dict[str, object]]
    ) -> None:
        for raw in stored:
            before, key = json.dumps(raw), {"server": "shop"}
            offset = codec.read(raw, key)
            assert (offset.fault, codec.faults(raw)) == ("", ())
            assert offset.position is not None
            assert offset.position.kind == source
            assert read_position(offset.position.to_json()) == offset.position
            assert (json.dumps(offset.raw), offset.key, json.dumps(raw)) == (before, key, before)
            assert offset.place

    def test_a_later_offset_covers_an_earlier_one(
        self, codec: OffsetCodec, stored: Sequence[dict[str, object]]
    ) -> None:
        positions = [position for raw in stored if (position := codec.read(raw, {}).position) is not None]
        assert len(positions) > 1
        for earlier, later in pairwise(positions):
            assert later.covers(earlier) is True
            assert earlier.covers(later) is False

    def test_what_is_malformed_is_a_fault_and_no_position(
        self, codec: OffsetCodec, malformed: Sequence[dict[str, object]]
    ) -> None:
        for raw in malformed:
            offset = codec.read(raw, {})
            assert offset.position is None, raw
            assert offset.fault, raw
            assert codec.faults(raw), raw

    def test_reading_never_raises_and_faults_and_position_agree(
        self, codec: OffsetCodec, stored: Sequence[dict[str, object]]
    ) -> None:
        for raw in stored:
            for value in damaged(raw):
                offset = codec.read(value, {})
                assert (offset.position is None) == bool(offset.fault), value
                assert codec.faults(value) or not offset.fault, value

    def test_an_unknown_key_is_not_written(self, codec: OffsetCodec, stored: Sequence[dict[str, object]]) -> None:
        for raw in stored:
            assert any("no_such_key" in fault for fault in codec.faults({**raw, "no_such_key": 1}))

    def test_a_move_is_told_in_words(self, codec: OffsetCodec, stored: Sequence[dict[str, object]]) -> None:
        first, *_, last = stored
        texts = [codec.moved(None, last), codec.moved(first, last), codec.moved(last, first), codec.moved(last, last)]
        assert all(texts)
        assert len(set(texts)) == len(texts)

    def test_a_move_to_what_is_malformed_is_refused(
        self, codec: OffsetCodec, stored: Sequence[dict[str, object]], malformed: Sequence[dict[str, object]]
    ) -> None:
        for raw in malformed:
            with pytest.raises(OffsetRejectedError):
                codec.moved(stored[0], raw)
