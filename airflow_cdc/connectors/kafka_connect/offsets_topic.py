"""The layout of Connect's offsets topic: key `["<connector>",{"server":"<prefix>"}]`, value the offset as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_cdc.transports.kafka.wire import Record


@dataclass(frozen=True, slots=True)
class RawOffset:
    """A record of the offsets topic. `value` None: a tombstone. Where it stands: Kafka partition and offset."""

    connector: str
    partition: Mapping[str, Any]
    value: Mapping[str, Any] | None
    kafka_partition: int
    kafka_offset: int


def offset_key(connector: str, partition: Mapping[str, Any]) -> str:
    """The key's text, byte for byte as Connect's schemaless JsonConverter writes it (no spaces)."""
    return json.dumps([connector, dict(partition)], separators=(",", ":"), ensure_ascii=False)


def parse_key(key: str) -> tuple[str, dict[str, Any]] | None:
    """(connector, partition) of a key, or None when it is not an offset's key."""
    try:
        parsed = json.loads(key)
    except ValueError:
        return None
    if isinstance(parsed, list) and len(parsed) == 2 and isinstance(parsed[1], dict):
        return str(parsed[0]), parsed[1]
    return None


def fold_offsets(records: Iterable[Record]) -> dict[str, RawOffset]:
    """The newest record per key. Records of other kinds are passed over."""
    newest: dict[str, RawOffset] = {}
    for record in records:
        key = (record.key or b"").decode("utf-8", "replace")
        if (parsed := parse_key(key)) is None:
            continue
        newest[key] = RawOffset(*parsed, _value(record.value), record.partition, record.offset)
    return newest


def _value(raw: bytes | None) -> dict[str, Any] | None:
    if raw is None:
        return None
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
