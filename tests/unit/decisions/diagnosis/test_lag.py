"""How far main is behind its topic, from its stamp and the age of what waits (INV 35)."""

from __future__ import annotations

import pytest

from airflow_cdc.core.observation import SinkTableFacts, TransportFacts
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.decisions.diagnosis.lag import late_events, waiting_of

TOPIC = TopicState("p.shop.orders", "id1", {0: (3, 10), 1: (0, 5)})
TRANSPORT = TransportFacts({TOPIC.name: TOPIC}, {"shop.orders": TOPIC.name})


def sink(nexts: dict[str, int], topic_id: str = "id1") -> SinkTableFacts:
    return SinkTableFacts(
        True, 7, Stamp(1, None, {TOPIC.name: TopicOffsets(topic_id, {int(p): n for p, n in nexts.items()})})
    )


@pytest.mark.parametrize(
    ("facts", "waiting"),
    [
        (sink({"0": 10, "1": 5}), {}),
        (sink({"0": 8, "1": 5}), {0: (8, 10)}),
        (sink({"0": 1, "1": 0}), {0: (3, 10), 1: (0, 5)}),  # what retention took waits no more
        (sink({"0": 10}), {1: (0, 5)}),  # a partition that was not there
        (sink({"0": 0, "1": 0}, "another"), {}),  # a problem of its own
        (SinkTableFacts(True, 7), {}),
    ],
)
def test_what_waits_is_what_the_stamp_does_not_name(facts: SinkTableFacts, waiting: dict[int, tuple[int, int]]) -> None:
    assert waiting_of("shop.orders", facts, TRANSPORT) == waiting


@pytest.mark.parametrize(
    ("young", "late"),
    [
        ({0: 8, 1: 0}, 0),
        ({0: 9, 1: 0}, 1),
        ({0: 2, 1: 3}, 3),
        ({0: None, 1: 0}, 2),  # no record is young
        ({}, 7),
    ],
)
def test_inv_35_events_that_wait_for_too_long_are_counted(young: dict[int, int | None], late: int) -> None:
    assert late_events({0: (8, 10), 1: (0, 5)}, young) == late
