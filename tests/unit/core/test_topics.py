"""How far topics were read, as a value."""

from __future__ import annotations

import pytest

from airflow_cdc.core.topics import TopicOffsets, TopicState, fence_from_json, fence_to_json

ENDS = TopicOffsets("id", {0: 5, 1: 7})


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        (ENDS, True),
        (TopicOffsets("id", {0: 6, 1: 7}), True),
        (TopicOffsets("id", {0: 5, 1: 6}), False),
        (TopicOffsets("id", {0: 5}), False),
        (TopicOffsets("other", {0: 9, 1: 9}), False),
    ],
)
def test_when_ends_are_reached(mine: TopicOffsets, expected: bool) -> None:
    assert mine.reached(ENDS) is expected


@pytest.mark.parametrize(("mine", "theirs", "expected"), [("a", "a", True), ("a", "b", False), ("", "b", None)])
def test_whether_it_is_the_topic_of_that_id(mine: str, theirs: str, expected: bool | None) -> None:
    assert TopicOffsets(mine, {}).is_of(theirs) is expected
    assert TopicOffsets(theirs, {}).is_of(mine) is expected


@pytest.mark.parametrize(
    ("topic_id", "partition", "offset", "expected"),
    [("id", 0, 4, True), ("id", 0, 5, False), ("id", 2, 0, False), ("older", 0, 99, True)],
)
def test_which_records_lie_before(topic_id: str, partition: int, offset: int, expected: bool) -> None:
    assert ENDS.is_past_record(topic_id, partition, offset) is expected


def test_a_fence_survives_json_and_is_taken_at_the_ends() -> None:
    fence = {"t": TopicOffsets.end_of(TopicState("t", "id", {1: (0, 7), 0: (2, 5)}))}
    assert fence == {"t": ENDS}
    assert fence_from_json(fence_to_json(fence)) == fence
    assert fence_to_json(fence) == {"t": {"id": "id", "partitions": {"0": 5, "1": 7}}}


def test_what_was_read_never_goes_back_behind_where_it_began() -> None:
    assert TopicOffsets.after("id", {0: (9, 5), 1: (0, 7)}).next == {0: 9, 1: 7}


@pytest.mark.parametrize("bad", [{0: -1}, {0: 1.5}, {-1: 0}, {0: True}, {"x": 1}])
def test_what_is_no_offset_is_refused(bad: dict[object, object]) -> None:
    with pytest.raises(ValueError, match=r"whole number|invalid literal"):
        TopicOffsets("id", bad)  # type: ignore[arg-type]
