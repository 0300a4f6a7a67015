"""Connect's topic of offsets: which record counts, where a new one goes, and when none is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_cdc.connectors.kafka_connect.offsets_topic import (
    WritableTopics,
    offset_key,
    offsets_elsewhere,
    read_raw_offsets,
    write_raw_offset,
)
from airflow_cdc.core.errors import TransportError

KEY = '["shop",{"server":"shop"}]'
SERVER = {"server": "shop"}


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None
    partition: int = 0
    offset: int = 0


@dataclass
class Topics:
    """Topics of records; `sent`: what was written to which partition."""

    topics: dict[str, list[Record]]
    sent: list[tuple[bytes, bytes | None, int | None]] = field(default_factory=list)
    where: str = "Kafka"

    def topic_names(self) -> list[str]:
        return list(self.topics)

    def records(self, topic: str) -> list[Record]:
        return self.topics[topic]

    def send(self, _topic: str, key: bytes, value: bytes | None, partition: int | None = None) -> tuple[int, int]:
        self.sent.append((key, value, partition))
        return partition or 0, 77


def topics(*records: Record, **others: list[Record]) -> Any:
    made: WritableTopics = Topics({"offsets": list(records), **others})  # type: ignore[assignment]
    return made


def test_a_key_is_written_to_the_byte_as_connect_writes_it() -> None:
    """Another byte is another key, which nobody reads."""
    assert offset_key("shop", {"server": "sh\u00f6p"}) == '["shop",{"server":"sh\u00f6p"}]'


def test_the_newest_record_of_a_key_counts_and_what_is_no_offset_is_passed_over() -> None:
    found = read_raw_offsets(
        topics(
            Record(KEY.encode(), b'{"pos":1}', 3, 0),
            Record(b"session-key", b"{}"),
            Record(None, b'{"pos":9}'),
            Record(b'["other",{"server":"o"}]', b'{"pos":5}'),
            Record(b'["odd",7]', b'{"pos":5}'),
            Record(KEY.encode(), b'{"pos":2}', 3, 8),
        ),
        "offsets",
    )
    assert set(found) == {KEY, '["other",{"server":"o"}]'}
    assert (found[KEY].value, found[KEY].kafka_partition, found[KEY].kafka_offset) == ({"pos": 2}, 3, 8)


@pytest.mark.parametrize("value", [None, b"not JSON", b"[1]", b"7"])
def test_a_tombstone_and_what_cannot_be_read_is_no_offset(value: bytes | None) -> None:
    found = read_raw_offsets(topics(Record(KEY.encode(), b'{"pos":1}'), Record(KEY.encode(), value)), "offsets", "shop")
    assert found[KEY].value is None


def test_an_offset_goes_to_the_partition_of_the_one_before() -> None:
    """Order exists only within a partition, and readers keep the last."""
    made = topics(Record(KEY.encode(), b'{"pos":1}', 21, 4))
    written = write_raw_offset(made, "offsets", "shop", SERVER, {"pos": 9, "file": "b"})
    assert made.sent == [(KEY.encode(), b'{"pos":9,"file":"b"}', 21)]
    assert (written.value, written.kafka_partition, written.kafka_offset) == ({"pos": 9, "file": "b"}, 21, 77)
    write_raw_offset(made, "offsets", "shop", SERVER, None)
    assert made.sent[-1] == (KEY.encode(), None, 21)


def test_a_key_that_nobody_wrote_before_is_written_only_when_it_is_asked_for() -> None:
    """A mistyped topic.prefix would write a key that nobody reads."""
    made = topics(Record(KEY.encode(), b'{"pos":1}'))
    with pytest.raises(TransportError, match="no offset record with the key") as refused:
        write_raw_offset(made, "offsets", "shop", {"server": "shpo"}, {"pos": 9})
    assert "topic.prefix" in refused.value.todo
    assert made.sent == []
    write_raw_offset(made, "offsets", "shop", {"server": "shpo"}, {"pos": 9}, create=True)
    assert made.sent == [(b'["shop",{"server":"shpo"}]', b'{"pos":9}', None)]


def test_an_offset_that_a_second_worker_group_keeps_is_found_by_its_topic() -> None:
    mine, gone = [Record(KEY.encode(), b'{"pos":5}')], [Record(KEY.encode(), None)]
    made = topics(*mine, **{"connect_offsets": mine, "old-offsets": gone, "__consumer_offsets": mine, "shop.t": mine})
    assert offsets_elsewhere(made, "shop", SERVER, "offsets") == {"connect_offsets": {"pos": 5}}
    assert offsets_elsewhere(made, "another", SERVER, "offsets") == {}
