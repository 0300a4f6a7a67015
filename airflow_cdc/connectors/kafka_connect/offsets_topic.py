"""The layout of Connect's offsets topic: key `["<connector>",{"server":"<prefix>"}]`, value the offset as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.ports import TopicRecord, Transport
from airflow_cdc.core.text import read_json


@dataclass(frozen=True, slots=True)
class RawOffset:
    """A record of the offsets topic, with its Kafka partition and offset. `value` None: a tombstone."""

    connector: str
    partition: Mapping[str, object]
    value: Mapping[str, object] | None
    kafka_partition: int
    kafka_offset: int


def offset_key(connector: str, partition: Mapping[str, object]) -> str:
    """The key's text, byte for byte as Connect's schemaless JsonConverter writes it (no spaces)."""
    return json.dumps([connector, dict(partition)], separators=(",", ":"), ensure_ascii=False)


def parse_key(key: str) -> tuple[str, dict[str, object]] | None:
    """(connector, partition) of a key, or None when it is not an offset's key."""
    try:
        parsed = read_json(key)
    except ValueError:
        return None
    if isinstance(parsed, list) and len(parsed) == 2 and isinstance(parsed[1], dict):
        return str(parsed[0]), parsed[1]
    return None


def fold_offsets(records: Iterable[TopicRecord]) -> dict[str, RawOffset]:
    """The newest record per key. Records of other kinds are skipped."""
    newest: dict[str, RawOffset] = {}
    for record in records:
        key = (record.key or b"").decode("utf-8", "replace")
        if (parsed := parse_key(key)) is None:
            continue
        newest[key] = RawOffset(*parsed, _value(record.value), record.partition, record.offset)
    return newest


def _value(raw: bytes | None) -> dict[str, object] | None:
    if raw is None:
        return None
    try:
        value = read_json(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class WritableTopics(Transport, Protocol):
    """A transport whose topics can be written to. Raises TransportError."""

    def send(self, topic: str, key: bytes, value: bytes | None, partition: int | None = None) -> tuple[int, int]: ...


def offsets_elsewhere(
    topics: Transport, connector: str, partition: Mapping[str, object], own: str
) -> dict[str, Mapping[str, object]]:
    """Topic → the offset stored there for a connector's partition, for offsets topics other than its `own`."""
    key = offset_key(connector, partition)
    names = [name for name in topics.topic_names() if "offset" in name and not name.startswith("__")]
    by_topic = {name: read_raw_offsets(topics, name, connector).get(key) for name in names if name != own}
    return {name: dict(offset.value) for name, offset in by_topic.items() if offset is not None and offset.value}


def read_raw_offsets(topics: Transport, topic: str, connector: str | None = None) -> dict[str, RawOffset]:
    """The newest record per key of Connect's offsets topic, by the key's text.

    `connector`: only its records. A record without a value (a tombstone) means: no offset.
    """
    offsets = fold_offsets(topics.records(topic))
    return {key: offset for key, offset in offsets.items() if connector is None or offset.connector == connector}


def write_raw_offset(
    topics: WritableTopics,
    topic: str,
    connector: str,
    partition: Mapping[str, object],
    value: Mapping[str, object] | None,
    *,
    create: bool = False,
) -> RawOffset:
    """Write an offset record for a connector that is NOT running, and return the record with its place in the topic.

    It goes to the partition of the existing record, because readers keep the last record per key and
    order exists only within a partition. Without an existing record it is refused, as a mistyped
    topic.prefix would write a key that nobody reads, unless `create`.
    """
    key = offset_key(connector, partition)
    old = read_raw_offsets(topics, topic).get(key)
    if old is None and not create:
        raise TransportError(
            f"there is no offset record with the key {key}",
            where=f"{topics.where}, topic {topic}",
            todo="Check the connector's name and its topic.prefix.",
        )
    payload = None if value is None else json.dumps(dict(value), separators=(",", ":")).encode()
    at = topics.send(topic, key.encode(), payload, None if old is None else old.kafka_partition)
    name, server = parse_key(key) or (connector, dict(partition))
    return RawOffset(name, server, None if value is None else dict(value), *at)
