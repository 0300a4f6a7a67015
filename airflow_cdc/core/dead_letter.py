"""A record that could not be applied, as the dead-letter table stores it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_cdc.core.topics import Fence

# after this many tries only a person can ask for another
MAX_ATTEMPTS = 5

# part of the reason of every letter about a character that arrives differently from the row's own
MISREAD = "not read as the server does"

# topic, the topic's id, partition, offset
Place = tuple[str, str, int, int]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record that was not applied. `key` and `value` are the record's bytes; None if it had none.

    `headers`: the record's, where its connector writes into them what its key is read with; else ().
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    table: str
    reason: str
    attempts: int
    first_seen: datetime
    resolved_at: datetime | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def place(self) -> tuple[str, str, int, int]:
        """Where the record is: topic, the topic's id, partition, offset."""
        return self.topic, self.topic_id, self.partition, self.offset


def data_text(data: bytes | None) -> str | None:
    """Bytes as a sink stores them, in base64; None for none."""
    return None if data is None else base64.b64encode(data).decode("ascii")


def data_in(text: str | None) -> bytes | None:
    """The bytes in such a text."""
    return None if text is None else base64.b64decode(text)


def headers_text(headers: Sequence[tuple[str, bytes]]) -> str | None:
    """Headers as a sink stores them, [[name, base64], …] in JSON; None for none."""
    pairs = [[name, data_text(data)] for name, data in headers]
    return json.dumps(pairs, ensure_ascii=False, separators=(",", ":")) if pairs else None


def headers_in(text: str | None) -> tuple[tuple[str, bytes], ...]:
    """The headers in such a text. Raises ValueError, or TypeError, for another."""
    return () if text is None else tuple((str(name), base64.b64decode(data)) for name, data in json.loads(text))


def is_before(place: Place, since: Fence) -> bool:
    """Whether a record is before `since`, a fence or a stamp's offsets.

    A topic that is absent from `since` did not exist then, so none of its records is before it. A record of an earlier
    topic with the same name is before it.
    """
    topic, topic_id, partition, offset = place
    known = since.get(topic)
    return known is not None and known.is_past_record(topic_id, partition, offset)
