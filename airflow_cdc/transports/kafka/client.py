"""The Kafka transport: topic ids and ends, small topics as records, Debezium's schema history, consumer groups.

Every method opens short-lived clients with bounded timeouts, so a KafkaTransport may be shared by threads.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.text import read_json
from airflow_cdc.core.topics import Compaction, NewestRecord, TopicState
from airflow_cdc.transports.kafka.producer import KafkaProducer
from airflow_cdc.transports.kafka.wire import KafkaEndpoint, Record, admin, explaining, producer, read_all, read_newest

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

__all__ = ["KafkaEndpoint", "KafkaGroups", "KafkaTransport"]

_NO_ID: Final = uuid.UUID(int=0)
_MISSING: Final = 3  # UNKNOWN_TOPIC_OR_PARTITION
_ATTEMPTS: Final = 3
# of a topic: which of its records stay, and for how long
_SETTINGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms")


class KafkaTransport:
    """The topics between connector and sink."""

    def __init__(self, endpoint: KafkaEndpoint) -> None:
        self.endpoint = endpoint

    @property
    def where(self) -> str:
        """How messages name this cluster."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits))

    @property
    def producer(self) -> KafkaProducer:
        """Writes corrections into the topics."""
        return KafkaProducer(self.endpoint)

    @property
    def groups(self) -> KafkaGroups:
        """The consumer groups."""
        return KafkaGroups(self.endpoint)

    def reach(self) -> None:
        """Ask for the list of brokers. Raises TransportError if none answers."""
        with admin(self.endpoint) as client, explaining(self.where, "describe the cluster"):
            client.describe_cluster()

    def topic_states(self, names: Iterable[str]) -> dict[str, TopicState]:
        """Id and, per partition, first and next offset of each topic; topics that do not exist are absent.

        The id is Kafka's own text form ("" from brokers before 2.8). The ends are read between two equal
        reads of the ids, so they belong to the topic with that id. Raises TransportError.
        """
        wanted = sorted(set(names))
        if not wanted:
            return {}
        with admin(self.endpoint) as client, explaining(self.where, "read the topics"):
            for _ in range(_ATTEMPTS):
                before = _describe(client, wanted, self.where)
                ends = _ends(client, before)
                if _ids(_describe(client, wanted, self.where)) == _ids(before):
                    compactions = _compactions(client, ends, self.where)
                    return {n: TopicState(n, ident, ends[n], compactions.get(n)) for n, (ident, _) in before.items()}
        raise TransportError(
            "topics are being deleted and created right now",
            where=self.where,
            todo="Try again later.",
        )

    def end_offsets(self, names: Iterable[str]) -> dict[str, dict[int, int]]:
        """Topic → partition → next offset; topics that do not exist are absent. Raises TransportError."""
        states = self.topic_states(names)
        return {name: {p: end for p, (_, end) in state.partitions.items()} for name, state in states.items()}

    def offsets_since(self, parts: Mapping[str, Iterable[int]], at_ms: int) -> dict[str, dict[int, int | None]]:
        """Topic → partition → offset of the first record not older than `at_ms` (epoch); None: all records are older.

        Raises TransportError.
        """
        from kafka import TopicPartition

        wanted = {TopicPartition(topic, p): at_ms for topic, numbers in parts.items() for p in numbers}
        if not wanted:
            return {}
        with admin(self.endpoint) as client, explaining(self.where, "read the age of the events that wait"):
            answers = client.list_partition_offsets(wanted)
        offsets: dict[str, dict[int, int | None]] = {}
        for part, at in answers.items():
            offsets.setdefault(part.topic, {})[part.partition] = None if at.offset < 0 else at.offset
        return offsets

    def now_ms(self, names: Iterable[str]) -> int | None:
        """The time (epoch ms) of the newest record, by its producer's clock or the broker's; None without a record.

        A broker does not tell its own time. Raises TransportError.
        """
        return max((record.at_ms for record in self.newest(names).values()), default=0) or None

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Topic → those of its settings that say which records stay, for existing topics. Raises TransportError."""
        from kafka.admin import ConfigResource, ConfigResourceType

        wanted = sorted(set(names))
        if not wanted:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in wanted]
        with admin(self.endpoint) as client, explaining(self.where, "read the topics' settings"):
            described = client.describe_configs(resources, config_filter="all")
        topics: Mapping[str, Mapping[str, Mapping[str, object]]] = next(iter(described.values()), {})
        return {
            name: {key: str(values[key]["value"]) for key in _SETTINGS if key in values}
            for name, values in topics.items()
        }

    def gathered(self, names: Iterable[str]) -> dict[str, TopicState]:
        """The states: nothing waits in front of a topic. Raises TransportError."""
        return self.topic_states(names)

    def topic_names(self) -> list[str]:
        """All topics that the user may see. Raises TransportError."""
        with admin(self.endpoint) as client, explaining(self.where, "list the topics"):
            return list(client.list_topics())

    def send(self, topic: str, key: bytes, value: bytes | None, partition: int | None = None) -> tuple[int, int]:
        """Write one record, wait for its acknowledgement, and return its partition and offset.

        `partition` None: Kafka's own partitioning. Raises TransportError.
        """
        with producer(self.endpoint) as client, explaining(self.where, f"write to {topic}"):
            sent = client.send(topic, key=key, value=value, partition=partition)
            client.flush(self.endpoint.timeout)
            meta = sent.get(self.endpoint.timeout)
        return meta.partition, meta.offset

    def records(self, topic: str, ranges: Mapping[int, tuple[int, int]] | None = None) -> list[Record]:
        """The committed records, in order within a partition: all, or those in `ranges` (partition → first offset, end).

        For small topics. Raises TransportError if there is no such topic or the ends are not reached in time.
        """
        return read_all(self.endpoint, topic, ranges)

    def newest(self, names: Iterable[str]) -> dict[str, NewestRecord]:
        """The newest committed record of each topic that has one: by its time, rather one with a value.

        What is not read within the endpoint's timeout is absent. Raises TransportError.
        """
        states = self.topic_states(names)
        parts = {(name, p): bounds for name, state in states.items() for p, bounds in state.partitions.items()}
        return read_newest(self.endpoint, {part: (begin, end) for part, (begin, end) in parts.items() if begin < end})

    def history_records(self, topic: str) -> list[dict[str, object]]:
        """All records of a schema history topic, oldest first.

        Raises TransportError if there is no such topic, if it has several partitions (their order would be undefined),
        or if a record is not schema history.
        """
        records = read_all(self.endpoint, topic)
        if len({record.partition for record in records}) > 1:
            raise TransportError(
                "the schema history has records in several partitions, so their order is unknown",
                where=f"{self.where}, topic {topic}",
                todo="A schema history topic must have one partition; rebuild it in a new topic.",
            )
        where = f"{self.where}, topic {topic}"
        return [_json_record(record.value, record.offset, where) for record in records if record.value]


def _json_record(value: bytes, offset: int, where: str) -> dict[str, object]:
    try:
        record = read_json(value)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise _foreign(offset, where)
    return record


def _foreign(offset: int, where: str) -> TransportError:
    return TransportError(
        f"the record at offset {offset} is not a schema history record",
        where=where,
        todo="Check topic.prefix and schema.history.internal.kafka.topic of the connector, and who writes there.",
    )


def _describe(client: KafkaAdminClient, names: list[str], where: str) -> dict[str, tuple[str, list[int]]]:
    """Topic → (id, partitions), for existing topics."""
    topics_by_name: dict[str, tuple[str, list[int]]] = {}
    for topic in client.describe_topics(names):
        if topic["error_code"] == _MISSING:
            continue
        if topic["error_code"]:
            raise TransportError(
                f"topic {topic['name']} cannot be read: Kafka error {topic['error_code']}",
                where=where,
                todo="Check that the user may DESCRIBE the topic.",
            )
        parts = sorted(int(part["partition_index"]) for part in topic["partitions"])
        topics_by_name[topic["name"]] = (_topic_id(topic.get("topic_id")), parts)
    return topics_by_name


def _ids(described: Mapping[str, tuple[str, list[int]]]) -> dict[str, tuple[str, int]]:
    return {name: (ident, len(parts)) for name, (ident, parts) in described.items()}


def _topic_id(ident: object) -> str:
    """Kafka's own text form of a topic id: URL-safe base64 of its 16 bytes, without padding."""
    value = ident if isinstance(ident, uuid.UUID) else uuid.UUID(str(ident)) if ident else _NO_ID
    return "" if value == _NO_ID else base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def _ends(
    client: KafkaAdminClient, described: Mapping[str, tuple[str, list[int]]]
) -> dict[str, dict[int, tuple[int, int]]]:
    """Reads first offsets before next offsets, so that begin <= end however fast retention runs."""
    from kafka import OffsetSpec, TopicPartition

    parts = [TopicPartition(name, p) for name, (_, numbers) in described.items() for p in numbers]
    begin = client.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.EARLIEST)) if parts else {}
    end = client.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.LATEST)) if parts else {}
    return {
        name: {p: (begin[name, p].offset, end[name, p].offset) for p in numbers}
        for name, (_, numbers) in described.items()
    }


def _compactions(
    client: KafkaAdminClient, ends: Mapping[str, dict[int, tuple[int, int]]], where: str
) -> dict[str, Compaction]:
    """For each compacted topic: the time, and the offsets, from which on all tombstones are still there."""
    from kafka import TopicPartition

    times = {}
    for name, (policy, retention_ms) in _policies(client, ends, where).items():
        if "compact" not in policy:
            continue
        # no broker tells its clock; a worker's that is behind would hide what is gone, but not behind the newest record's time
        now = max(int(time.time() * 1000), _newest_ms(client, name, ends[name]))
        since = max(0, now - retention_ms)
        offsets = client.list_partition_offsets({TopicPartition(name, p): since for p in ends[name]})
        first = {part.partition: at.offset for part, at in offsets.items()}
        times[name] = Compaction(now, since, {p: ends[name][p][1] if at < 0 else at for p, at in first.items()})
    return times


def _newest_ms(client: KafkaAdminClient, name: str, ends: Mapping[int, tuple[int, int]]) -> int:
    """The time of the topic's newest record; 0 without one, or from a broker before 3.0, which does not say it."""
    from kafka import OffsetSpec, TopicPartition
    from kafka.errors import UnsupportedVersionError

    parts = {TopicPartition(name, p): OffsetSpec.MAX_TIMESTAMP for p, (begin, end) in ends.items() if begin < end}
    try:
        newest = client.list_partition_offsets(parts) if parts else {}
    except UnsupportedVersionError:
        return 0
    return max((at.timestamp for at in newest.values()), default=0)


def _policies(client: KafkaAdminClient, names: Iterable[str], where: str) -> dict[str, tuple[str, int]]:
    """Topic → its cleanup.policy and delete.retention.ms."""
    from kafka.admin import ConfigResource, ConfigResourceType

    wanted = {"cleanup.policy": None, "delete.retention.ms": None}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, configs=dict(wanted)) for name in names]
    described = client.describe_configs(resources, config_filter="all").get("topic", {}) if resources else {}
    # a refusal shows as a topic without settings, not as an error
    if bare := sorted(name for name, settings in described.items() if not wanted.keys() <= settings.keys()):
        raise TransportError(
            f"the settings of topic {bare[0]} cannot be read",
            where=where,
            todo="Grant DESCRIBE_CONFIGS on it: apply must know whether it is compacted.",
        )
    return {
        name: (str(settings["cleanup.policy"]["value"]), int(settings["delete.retention.ms"]["value"]))
        for name, settings in described.items()
    }


@dataclass(frozen=True, slots=True)
class KafkaGroups:
    """The groups of one cluster, as core.ports.Groups. They are asked for by name: kafka-python cannot read those of Connect's own workers."""

    endpoint: KafkaEndpoint

    def members(self, group: str) -> tuple[str, ...]:
        """See core.ports.Groups. Raises TransportError, also where the user may not describe the group."""
        with admin(self.endpoint) as client, explaining(self.endpoint.where, f"describe the consumer group {group}"):
            description = client.describe_groups([group])[group]
        return tuple(sorted(str(member["client_id"]) for member in description.get("members") or ()))

    def committed(self, group: str) -> dict[str, dict[int, int]]:
        """See core.ports.Groups."""
        where = self.endpoint.where
        with admin(self.endpoint) as client, explaining(where, f"read the offsets of the consumer group {group}"):
            answers = client.list_group_offsets({group: None}).get(group, {})
        offsets: dict[str, dict[int, int]] = {}
        for part, at in answers.items():
            if at.offset >= 0:  # else nothing was committed
                offsets.setdefault(part.topic, {})[part.partition] = at.offset
        return offsets
