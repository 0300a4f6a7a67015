"""How far main is behind its topic, from its stamp and the age of what waits (INV 35)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_cdc.core.observation import Ahead, SinkTableFacts, TransportFacts, Unknown
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.decisions.diagnosis.lag import ahead_of, events_waiting, late_ahead, late_events, waiting_of
from tests.unit.builders import HEALTHY
from tests.unit.faults import applied, waits

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


NINE, LATER, END = "2026-11-24T09:00:00+00:00", "2026-11-24T10:00:01+00:00", TopicOffsets("", {0: 7})


@pytest.mark.parametrize(
    ("count", "earlier", "ahead", "late"),
    [
        (0, None, None, 0),
        (0, Ahead(4, 4, NINE, END), None, 0),
        (4, None, Ahead(4, 4, LATER, END), 0),
        (6, Ahead(4, 4, NINE, END), Ahead(6, 4, NINE, END), 4),  # two came since
        (3, Ahead(4, 4, NINE, END), Ahead(3, 3, NINE, END), 3),  # another reader took one
        (4, Ahead(4, 4, NINE, TopicOffsets("", {0: 3})), Ahead(4, 4, LATER, END), 0),  # those of nine were moved
    ],
)
def test_inv_35_messages_in_front_of_a_topic_that_stays_where_it_ended_have_waited_since(
    count: int, earlier: Ahead | None, ahead: Ahead | None, late: int
) -> None:
    state = TopicState("shop", "", {0: (2, 7)}, ahead=count)
    assert ahead_of(state, earlier, LATER) == ahead
    assert late_ahead(ahead, 3600, LATER) == late
    assert late_ahead(ahead, 3601, LATER) == 0


def test_inv_35_all_that_waits_is_counted_once_for_a_topic_of_several_tables() -> None:
    (state,) = waits().transport.topics.values()  # type: ignore[union-attr]
    sink = applied("id1", 4)
    shared = replace(sink, tables={**sink.tables, "shop.items": sink.tables["shop.orders"]})
    of_table = dict.fromkeys(shared.tables, state.name)
    transport = TransportFacts({state.name: replace(state, ahead=5)}, of_table)
    assert events_waiting(replace(waits(), transport=transport, sink=shared)) == 6 + 5
    assert events_waiting(HEALTHY) == 0
    assert events_waiting(replace(HEALTHY, transport=Unknown("refused"))) is None
