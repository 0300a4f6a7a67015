"""What every transport whose events can be read again must do, on a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Protocol

import pytest

from airflow_cdc.core.endpoint import CallLimits, Endpoint
from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.kind import TransportKind
from airflow_cdc.core.observation import Observation, SinkFacts, SinkTableFacts, TransportFacts, Unknown
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.ports import Transport
from airflow_cdc.core.problem import AnyCase, Case
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.decisions.diagnosis.topic_rows import transport_gap, transport_replaced

TABLE = "shop.orders"
REMOVED_SECONDS = 120.0


class TransportBench(Protocol):
    """Writes to and damages the topics of one kind of transport for a test."""

    @property
    def kind(self) -> TransportKind: ...

    @property
    def endpoint(self) -> Endpoint: ...

    def topic(self) -> str:
        """A new, empty topic with one partition."""
        ...

    def removing_topic(self) -> str:
        """A new, empty topic from which remove() can remove records when some hundred of 100 bytes are in it."""
        ...

    def remove(self, topic: str) -> None:
        """Let the server remove the oldest records of a removing_topic(); it may do so a little later."""
        ...

    def make_anew(self, topic: str) -> None:
        """Delete the topic and create it, empty, under the same name."""
        ...

    def send(self, topic: str, values: list[bytes]) -> None:
        """Write records in this order, and wait until the server has them."""
        ...

    def unreachable(self) -> Endpoint:
        """An endpoint of the same kind where no server answers."""
        ...


class TransportContract:
    """Subclass it and provide the fixture `bench`, a TransportBench."""

    @pytest.fixture
    def transport(self, bench: TransportBench) -> Transport:
        """The client under test."""
        return bench.kind.client.load()(bench.endpoint)

    # ---- reaching it ---------------------------------------------------------------------------------

    def test_it_is_reached(self, transport: Any) -> None:
        transport.reach()
        transport.limited(CallLimits.waited_for(10)).reach()

    def test_a_server_that_does_not_answer_is_an_error_that_says_where(self, bench: TransportBench) -> None:
        transport: Any = bench.kind.client.load()(bench.unreachable()).limited(CallLimits.waited_for(2))
        for ask in (transport.reach, lambda: transport.topic_states(["t"]), lambda: transport.gathered(["t"])):
            with pytest.raises(TransportError) as error:
                ask()
            assert error.value.where
            assert error.value.todo

    # ---- ends ----------------------------------------------------------------------------------------

    def test_a_topic_that_does_not_exist_is_absent(self, transport: Transport) -> None:
        for ask in (transport.topic_states, transport.gathered, transport.end_offsets):
            assert ask(["no_such_topic"]) == {}
            assert ask([]) == {}
        assert not transport.topic_configs(["no_such_topic"]).get("no_such_topic")

    def test_an_empty_topic_begins_and_ends_at_0(self, bench: TransportBench, transport: Transport) -> None:
        topic = bench.topic()
        assert transport.gathered([topic])[topic].partitions == {0: (0, 0)}
        assert transport.records(topic, {0: (0, 0)}) == []
        assert topic in transport.topic_names()

    def test_every_answer_has_one_end_and_it_grows_by_what_is_sent(
        self, bench: TransportBench, transport: Transport
    ) -> None:
        topic = bench.topic()
        bench.send(topic, [b"a", b"b"])
        state = transport.gathered([topic])[topic]
        assert (state.name, state.partitions) == (topic, {0: (0, 2)})
        assert transport.topic_states([topic])[topic] == state
        assert transport.end_offsets([topic]) == {topic: {0: 2}}
        bench.send(topic, [b"c"])
        assert transport.gathered([topic])[topic].partitions == {0: (0, 3)}

    def test_settings_are_text(self, bench: TransportBench, transport: Transport) -> None:
        topic = bench.topic()
        configs = transport.topic_configs([topic])
        assert json.loads(json.dumps(configs)) == configs
        assert all(isinstance(value, str) for value in configs[topic].values())

    # ---- records -------------------------------------------------------------------------------------

    def test_a_range_is_read_exactly_and_again(self, bench: TransportBench, transport: Transport) -> None:
        topic = bench.topic()
        sent = [b"record %d" % number for number in range(700)]
        bench.send(topic, sent)
        transport.gathered([topic])
        for _ in range(2):
            records = transport.records(topic, {0: (130, 641)})
            assert [(one.partition, one.offset, one.value) for one in records] == [
                (0, number, sent[number]) for number in range(130, 641)
            ]
        assert [one.value for one in transport.records(topic)] == sent

    def test_values_are_bytes_as_they_were_sent(self, bench: TransportBench, transport: Transport) -> None:
        topic, odd = bench.topic(), [bytes(range(256)), "ž漢😀".encode(), b"x" * 200_000]
        bench.send(topic, odd)
        transport.gathered([topic])
        assert [one.value for one in transport.records(topic)] == odd

    def test_the_newest_record_tells_how_records_are_written(self, bench: TransportBench, transport: Transport) -> None:
        topic, empty = bench.topic(), bench.topic()
        assert transport.newest([empty, "no_such_topic"]) == {}
        bench.send(topic, [b"older", b"{}", bytes(range(256))])
        transport.gathered([topic])
        assert transport.newest([topic, empty])[topic].value == bytes(range(256))
        bench.send(topic, [b"{}"])
        transport.gathered([topic])
        assert transport.newest([topic])[topic].value == b"{}"

    def test_the_age_of_records(self, bench: TransportBench, transport: Transport) -> None:
        topic = bench.topic()
        bench.send(topic, [b"a"])
        transport.gathered([topic])
        now = int(time.time() * 1000)
        assert transport.offsets_since({topic: [0]}, now - 600_000) == {topic: {0: 0}}
        assert transport.offsets_since({topic: [0]}, now + 600_000) == {topic: {0: None}}
        # the clock that gives records their times is one of this machine here, and is told without ours
        assert abs((transport.now_ms([topic]) or 0) - now) < 600_000

    # ---- what is not there any more ------------------------------------------------------------------

    def test_a_topic_that_was_applied_from_is_as_it_was(self, bench: TransportBench, transport: Transport) -> None:
        topic = bench.topic()
        bench.send(topic, [b"a", b"b"])
        applied = transport.gathered([topic])[topic]
        bench.send(topic, [b"c"])
        case = judged(applied, transport.gathered([topic]))
        assert (transport_replaced(case), transport_gap(case)) == (None, None)

    def test_removed_records_are_an_error_and_a_gap(self, bench: TransportBench, transport: Transport) -> None:
        topic = bench.removing_topic()
        bench.send(topic, [b"applied"])
        applied = transport.gathered([topic])[topic]
        bench.send(topic, [b"%0100d" % number for number in range(400)])
        transport.gathered([topic])
        bench.remove(topic)

        def removed() -> TopicState | None:
            state: TopicState = transport.gathered([topic])[topic]
            return state if state.partitions[0][0] > 1 else None

        state = poll_until(removed, timeout=REMOVED_SECONDS, what="the oldest records to be removed")
        with pytest.raises(TransportError):
            transport.records(topic, {0: (0, state.partitions[0][1])})
        case = judged(applied, {topic: state})
        assert "applied up to 1" in (transport_gap(case) or {})[f"{topic}/0"]
        assert transport_replaced(case) is None

    def test_a_topic_made_anew_is_another(self, bench: TransportBench, transport: Transport) -> None:
        topic = bench.topic()
        bench.send(topic, [b"a", b"b"])
        applied = transport.gathered([topic])[topic]
        bench.make_anew(topic)
        for sent in ([], [b"other"]):
            bench.send(topic, sent)
            assert topic in (transport_replaced(judged(applied, transport.gathered([topic]))) or {})


def judged(applied: TopicState, states: Mapping[str, TopicState]) -> AnyCase:
    """A case in which a table was applied up to a topic's end, and topics are as given now."""
    stamp = Stamp(1, None, {applied.name: TopicOffsets.end_of(applied)})
    unread = Unknown("not read")
    pipeline: Any = None
    seen = Observation(
        pipeline,
        "2026-11-24T00:00:00+00:00",
        unread,
        unread,
        TransportFacts(states, {TABLE: applied.name}),
        SinkFacts({TABLE: SinkTableFacts(exists=True, stamp=stamp)}),
        unread,
    )
    return Case(seen, None, None, None, None, (), streams=False, same_server=False)
