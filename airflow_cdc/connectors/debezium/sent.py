"""The transactions of the last events in a connector's topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_cdc.core.observation import Capture
from airflow_cdc.core.ports import Transport
from airflow_cdc.read_json import read_json

MOST_TOPICS: Final = 50
# a delete is followed by its tombstone
_LAST: Final = 2


def last_sent(capture: Capture, topics: Transport) -> tuple[str, ...]:
    """The GTIDs of the newest records of each partition, sorted; () where there are too many topics to read.

    Routed topics are not read. Raises TransportError.
    """
    own = (capture.prefix, f"{capture.prefix}.")
    names = [name for name in topics.topic_names() if name == own[0] or name.startswith(own[1])]
    names = [name for name in names if name not in (capture.history_topic, capture.heartbeat_topic)]
    if len(names) > MOST_TOPICS:
        return ()
    return tuple(sorted({gtid for name in names for gtid in _newest(name, topics)}))


def _newest(name: str, topics: Transport) -> Iterator[str]:
    state = topics.topic_states([name]).get(name)
    partitions = {} if state is None else state.partitions
    ranges = {p: (max(begin, end - _LAST), end) for p, (begin, end) in partitions.items() if end > begin}
    for record in topics.records(name, ranges) if ranges else ():
        if record.value and (gtid := _gtid(record.value)):
            yield gtid


def _gtid(value: bytes) -> str:
    try:
        record = read_json(value)
        source = record.get("payload", record).get("source")
        return str(source.get("gtid") or "")
    except (ValueError, AttributeError):
        return ""
