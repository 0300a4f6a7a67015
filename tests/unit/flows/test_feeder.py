"""Waiting until a sink connector has written everything: by its group's offsets, which prove it only up to a topic's end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.core.errors import ConfigError, ConnectorError, DeadlineError, UnknownStateError
from airflow_cdc.core.feeder import FeederFacts
from airflow_cdc.core.observation import ConnectorState, TaskState
from airflow_cdc.core.topics import TopicState
from airflow_cdc.flows import feeder as filling
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from tests.unit.builders import PIPELINE
from tests.unit.clocks import waiting

TOPIC = "shop.shop.orders"
RUNNING = ConnectorState("RUNNING", (TaskState(0, "RUNNING"),))


@dataclass
class Topics:
    """A topic of one partition, its records by offset, and what a group has committed at each look."""

    end: int
    records_at: frozenset[int]
    looks: list[dict[str, dict[int, int]]]
    first: int = 0

    @property
    def groups(self) -> Topics:
        return self

    def committed(self, group: str) -> dict[str, dict[int, int]]:
        assert group == "connect-copy"
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def topic_states(self, names: Any) -> dict[str, TopicState]:
        return {name: TopicState(name, "id", {0: (self.first, self.end)}) for name in names}

    def records(self, topic: str, ranges: dict[int, tuple[int, int]]) -> list[int]:
        assert topic == TOPIC
        return [offset for begin, end in ranges.values() for offset in range(begin, end) if offset in self.records_at]


@dataclass
class Feeder:
    """A sink connector in one state."""

    current: ConnectorState = RUNNING
    name: str = "copy"
    asked: list[str] = field(default_factory=list)

    def state(self) -> ConnectorState:
        return self.current

    def settings(self) -> dict[str, str]:
        return {}

    def group(self, _settings: Any) -> str:
        return "connect-copy"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits by a clock of their own."""
    waiting(monkeypatch, filling)


def waited(topics: Topics, feeder: Feeder | None = None, end: int | None = None, sink: Any = None) -> None:
    nobody = cast("Any", None)
    clients = Parts(nobody, nobody, cast("Any", topics), sink, nobody, feeder=cast("Any", feeder or Feeder()))
    run = Run(replace(PIPELINE), clients, "run-1", "/tmp")  # noqa: S108 - nothing is written
    filling.wait_filled(run, {TOPIC: {0: topics.end if end is None else end}}, standstill=0.6)


def at(*offsets: int) -> list[dict[str, dict[int, int]]]:
    return [{TOPIC: {0: offset}} for offset in offsets]


def test_it_waits_until_the_group_has_consumed_everything() -> None:
    topics = Topics(5, frozenset(range(5)), at(3, 5))
    waited(topics)
    assert topics.looks == at(5)


def test_the_mark_at_a_transactions_end_is_never_consumed_and_is_no_record() -> None:
    waited(Topics(5, frozenset(range(4)), at(4)))


def test_a_record_behind_the_group_is_waited_for_in_vain() -> None:
    with pytest.raises(DeadlineError, match=f"{TOPIC}/0: 1 left"):
        waited(Topics(5, frozenset(range(5)), at(4)))


def test_a_group_without_offsets_has_written_nothing_yet() -> None:
    with pytest.raises(DeadlineError, match="5 left"):
        waited(Topics(5, frozenset(range(5)), [{}]))
    waited(Topics(0, frozenset(), [{}]))


def test_a_group_beyond_the_topics_end_proves_nothing() -> None:
    with pytest.raises(UnknownStateError, match="beyond its end 5"):
        waited(Topics(5, frozenset(range(5)), at(1_000)))


def test_a_failed_sink_connector_ends_the_wait_with_its_reason() -> None:
    failed = ConnectorState("RUNNING", (TaskState(0, "FAILED", "java.time.DateTimeException: Invalid value"),))
    with pytest.raises(ConnectorError, match="Invalid value"):
        waited(Topics(5, frozenset(range(5)), at(4)), Feeder(failed))


@dataclass
class Files:
    """A sink into which files are committed behind the group: how many wait at each look."""

    looks: list[int]
    topics: dict[str, str] = field(default_factory=dict)

    def uncommitted(self, _transport: Any, topics: dict[str, str]) -> dict[str, int]:
        self.topics = dict(topics)
        count = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return {"shop.orders": count} if count else {}


@pytest.fixture
def two_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"shop.orders": TOPIC, "shop.customers": "another"}
    monkeypatch.setattr(filling, "topic_names", lambda _run, _tables: names)


@pytest.mark.usefixtures("two_topics")
def test_inv_48_a_group_that_has_consumed_everything_proves_nothing_of_files() -> None:
    topics = Topics(5, frozenset(range(5)), at(5))
    with pytest.raises(DeadlineError, match=r"shop\.orders: 2 files not committed"):
        waited(topics, sink=Files([2]))
    files = Files([2, 1, 0])
    waited(topics, sink=files)
    assert (files.looks, files.topics) == ([0], {"shop.orders": TOPIC})


@pytest.mark.usefixtures("two_topics")
def test_inv_48_a_failed_sink_connector_commits_nothing_more() -> None:
    failed = ConnectorState("RUNNING", (TaskState(0, "FAILED", "CommitFailedException: stale offsets"),))
    with pytest.raises(ConnectorError, match="stale offsets"):
        waited(Topics(5, frozenset(range(5)), at(5)), Feeder(failed), sink=Files([1]))


# --- what is known of a sink connector -----------------------------------------------------------------------------------------


@dataclass
class Lettered(Feeder):
    """One that writes what it can't apply to a topic ("" for none)."""

    letters: str = ""

    def letters_topic(self, _settings: Any) -> str:
        return self.letters

    def own_member(self, member: str) -> bool:
        return member.startswith("own")


@dataclass
class Grouped(Topics):
    """Also who reads with the group, and how much is younger than the lag that is allowed."""

    def members(self, _group: str) -> list[str]:
        return ["own-1", "theirs"]

    def now_ms(self, _topics: Any) -> int:
        return 100_000_000

    def offsets_since(self, waiting: Any, since: int) -> dict[str, dict[int, int]]:
        """Record 4 is the first that is young enough, by the clock of the events."""
        assert since == 100_000_000 - PIPELINE.policy.max_lag * 1000
        return {name: dict.fromkeys(spans, 4) for name, spans in waiting.items()}


@dataclass
class AtWork(Grouped):
    """Each look finds one record more, which the group has consumed at once."""

    def committed(self, _group: str) -> dict[str, dict[int, int]]:
        self.end += 1
        return {"t.shop.a": {0: self.end}}

    def topic_states(self, names: Any) -> dict[str, TopicState]:
        self.end += 1
        return Topics.topic_states(self, names)


def known(letters: str, *tables: str, unknown: Any = None, topics: Topics | None = None) -> FeederFacts:
    """The facts of a sink connector of these topics; each holds records 2 to 5."""
    capture = SimpleNamespace(topic_of=lambda table: f"t.{table}", heartbeat_topic="")
    clients = Parts(*cast("Any", (None, None, topics or Grouped(5, frozenset(), [{}], first=2), None, None)))
    clients = replace(clients, feeder=cast("Any", Lettered(letters=letters)))
    pipeline = replace(PIPELINE, source=replace(PIPELINE.source, tables=tables))
    run = Run(pipeline, clients, "run-1", "/nowhere")
    facts = filling.feeder_facts(run, cast("Any", unknown or SimpleNamespace(capture=capture, capture_fault=None)))
    assert facts is not None
    return facts


@pytest.mark.parametrize(
    ("topic", "letters", "topics"),
    [
        ("", 0, {"t.shop.a", "t.shop.b"}),
        ("dead", 3, {"t.shop.a", "t.shop.b"}),
        ("t.shop.a", 0, {"t.shop.a", "t.shop.b"}),  # its records are events, and count as those
    ],
    ids=["none", "its own", "a table's"],
)
def test_rows_that_a_sink_connector_set_aside_are_counted_and_are_no_events_that_wait(
    topic: str, letters: int, topics: set[str]
) -> None:
    facts = known(topic, "shop.a", "shop.b")
    assert (facts.letters, set(facts.topics)) == (letters, topics)


def test_records_that_wait_for_longer_than_the_policy_allows_are_late_by_the_clock_of_the_events() -> None:
    """INV 46: a worker's clock may be hours off."""
    assert dict(known("", "shop.a", "shop.b").late) == {"t.shop.a": 2, "t.shop.b": 2}


def test_a_group_that_is_at_work_is_never_beyond_the_ends_of_the_same_look() -> None:
    """Seen as SINK_GROUP_LOST under writes, when the ends were read first."""
    facts = known("", "shop.a", topics=AtWork(5, frozenset(), [{}], first=2))
    assert [at is not None and at <= end for _, _, at, (_, end) in facts.partitions] == [True]


def test_only_members_that_are_not_its_own_tasks_share_its_group() -> None:
    assert known("", "shop.a").strangers == ("theirs",)


def test_settings_of_the_source_connector_that_make_no_sense_are_the_error_of_its_sink_connectors_look() -> None:
    fault = ConfigError("transforms.r.type is unknown")
    for capture_fault, said in ((fault, "transforms.r.type is unknown"), (None, "settings were not read")):
        with pytest.raises((ConfigError, ConnectorError), match=said):
            known("", "shop.a", unknown=SimpleNamespace(capture=None, capture_fault=capture_fault))
