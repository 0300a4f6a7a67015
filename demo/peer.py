"""What Debezium's own re-snapshot leaves: the peer's topics folded by key, against the keys of the source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, TopicPartition

from stack.shop.dataset import SCHEMA

if TYPE_CHECKING:
    from demo.make import Make

# the events table has no key, so its topic can't be folded; all_types is small
KEYED = {"customers": ("code",), "orders": ("id",), "order_items": ("order_id", "line"), "all_types": ("id",)}


def ghosts(bootstrap: str, shop: Make, prefix: str = "peer") -> dict[str, int]:
    """Table → keys that live in the topic and not in the source. Call it with the writer stopped and drained."""
    return {
        table: len(_live_keys(bootstrap, f"{prefix}.{SCHEMA}.{table}", key) - shop.keys(table, key))
        for table, key in KEYED.items()
    }


def _live_keys(bootstrap: str, topic: str, key: tuple[str, ...]) -> set[tuple[str, ...]]:
    live: set[tuple[str, ...]] = set()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        consumer_timeout_ms=15_000,
        max_poll_records=10_000,
        max_partition_fetch_bytes=16 << 20,
    )
    try:
        parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        ends = consumer.end_offsets(parts)
        while any(consumer.position(part) < ends[part] for part in parts):
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    _fold(live, _key(record.key, key), record.value)
    finally:
        consumer.close()
    return live


def _fold(live: set[tuple[str, ...]], key: tuple[str, ...], value: bytes | None) -> None:
    if value is None or b'"op":"d"' in value:
        live.discard(key)
    else:
        live.add(key)


def _key(raw: bytes, names: tuple[str, ...]) -> tuple[str, ...]:
    key = json.loads(raw)
    payload = key.get("payload", key)
    return tuple(str(payload[name]) for name in names)
