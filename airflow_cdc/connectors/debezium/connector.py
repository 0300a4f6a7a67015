"""A Debezium connector on Kafka Connect: one reading of its state, its settings and its stored offset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.history import compare_history, fold_history, newest_snapshot_ms
from airflow_cdc.connectors.debezium.names import SNAPSHOT_MODE, by_todays_names, rebuilding_mode, server_of
from airflow_cdc.connectors.debezium.plugin_names import POSTGRES
from airflow_cdc.connectors.debezium.sent import last_sent
from airflow_cdc.connectors.kafka_connect import offsets_topic
from airflow_cdc.connectors.kafka_connect.client import KafkaConnect
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.endpoint import CallLimits, Login
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.observation import Capture, ConnectorFacts, ConnectorState, HistoryFacts
from airflow_cdc.core.offset import Inside, OffsetCodec, OffsetEntry, OffsetStore, RawOffset
from airflow_cdc.core.ports import SchemaTexts, Transport
from airflow_cdc.core.position import JsonObject
from airflow_cdc.core.secrets import mask_config
from airflow_cdc.core.table import Table

# topic settings that a diagnosis examines
_OWN_OFFSETS = "offsets.storage.topic"
# the default port of a connector that sets none
_PORTS = {POSTGRES: "5432"}
# A detour stores the old values in the same configuration, under this prefix: backup and change are written together,
# and a password is not copied elsewhere. A connector ignores settings that it does not know.
WAS = "cdc.detour.was."
_ADDRESS = ("database.hostname", "database.port")
_LOGIN = ("database.user", "database.password")


class OwnTopics:
    """What a Debezium connector stores in topics: offsets, and its table definitions. Nothing here calls Connect."""

    def with_elsewhere(
        self, name: str, facts: ConnectorFacts, topics: Transport, texts: SchemaTexts | None = None
    ) -> ConnectorFacts:
        """Add to the facts the offsets in other offsets topics, for a connector that names an offsets topic of its own.

        Also add the transactions of its last events if it stopped inside one: its offset does not contain that one yet.
        """
        facts = _with_sent(facts, topics, texts)
        own = facts.config.get(_OWN_OFFSETS)
        if not own or facts.key is None or facts.state == "RUNNING":
            return facts  # the two topics are written one after the other, so they need to agree only at rest
        elsewhere = offsets_topic.offsets_elsewhere(topics, name, facts.key, own)
        stored = None if facts.offset is None else facts.offset.raw
        return replace(facts, elsewhere={topic: value for topic, value in elsewhere.items() if value != stored})

    def history(self, capture: Capture, topics: Transport, definitions: Mapping[str, Table]) -> HistoryFacts | None:
        """The connector's schema history and its differences from `definitions`; None if it is stored elsewhere."""
        topic = capture.history_topic
        if topic is None:
            return None
        state = topics.topic_states([topic]).get(topic)
        if state is None:
            return HistoryFacts(topic)
        known = HistoryFacts(topic, state, config=topics.topic_configs([topic]).get(topic, {}))
        if len(state.partitions) > 1:  # without an order nothing can be compared
            return replace(known, records=sum(end - begin for begin, end in state.partitions.values()))
        records = topics.history_records(topic)
        newest = fold_history(records, capture.prefix)
        differences = {
            name: d for name, table in definitions.items() if (d := compare_history(table, newest.get(name)))
        }
        snapshot_ms = newest_snapshot_ms(records)
        at = datetime.fromtimestamp(snapshot_ms / 1000, UTC).isoformat(timespec="milliseconds") if snapshot_ms else ""
        return replace(known, records=len(records), differences=differences, snapshot_at=at)


class AnyDebezium(ABC):
    """What is the same of every Debezium connector, whatever runs it."""

    @property
    @abstractmethod
    def codec(self) -> OffsetCodec:
        """How its stored offsets are read."""

    @abstractmethod
    def state(self, name: str) -> ConnectorState:
        """The current state of the connector and its tasks. Raises ConnectorError."""

    @abstractmethod
    def entries(self, name: str) -> tuple[OffsetEntry, ...]:
        """All offsets that are stored for the connector. Raises ConnectorError."""

    def offset_unseen(self) -> str:
        """Why its offset can't be read where it is kept, by its settings; "" if it can be."""
        return ""

    @abstractmethod
    def raw_config(self, name: str) -> Mapping[str, str]:
        """The settings with their secrets. Raises ConnectorError."""

    @abstractmethod
    def change_config(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Replace the settings. Raises ConnectorError."""

    def version(self, config: Mapping[str, str]) -> str:  # noqa: ARG002 - of an engine nobody can ask it
        """The version of the connector with these settings, such as 2.5.4.Final; "" where it cannot be seen."""
        return ""

    def rebuilding(self, name: str) -> Mapping[str, str]:
        """The snapshot mode in which each start reads all table definitions again, as its version calls it."""
        config = self.raw_config(name)
        return {SNAPSHOT_MODE: rebuilding_mode(config, self.version(config))}

    @property
    def own_topics(self) -> OwnTopics:
        """What it stores in topics, read through the transport: a hanging broker says nothing about Connect."""
        return OwnTopics()

    def is_away(self, name: str) -> bool:
        """Whether `point_at` sent it elsewhere and `point_back` has not yet returned it."""
        return is_away(self.raw_config(name))

    def point_at(self, name: str, there: Login, home: Login) -> None:
        """Let it read from a server other than `home`; its settings keep the old address.

        Connect makes the connector try the new address before it accepts the settings. Raises ConnectorError.
        """
        other = (there.user, there.password) != (home.user, home.password)
        login = (there.user, there.password) if other else None
        self._change(name, lambda config: pointed_at(config, (there.host, there.port), login))

    def point_back(self, name: str) -> None:
        """Let it read from the address before `point_at` again. Idempotent. Raises ConnectorError."""
        self._change(name, lambda config: pointed_back(config) if is_away(config) else config)

    def _change(self, name: str, by: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        config = self.raw_config(name)
        if (changed := by(config)) != config:
            self.change_config(name, config, changed)

    def facts(self, name: str) -> ConnectorFacts:
        """What diagnosis needs to know about the connector, read and parsed once. Raises ConnectorError."""
        state = self.state(name)
        raw = self.raw_config(name)
        unseen = self.offset_unseen()
        entries = () if unseen else self.entries(name)
        mine = _own_entry(entries, server_of(raw))
        key, value = (mine.key, mine.value) if mine else (None, None)
        capture = ConnectorSettings.from_config(raw)
        return ConnectorFacts(
            state=state.state,
            tasks=state.tasks,
            config=mask_config(raw),
            offset=self.codec.read(value, key or {}) if value else None,
            key=key,
            offsets_count=len(entries),
            other_keys=tuple(entry.key for entry in entries if entry is not mine and entry.value),
            address=address_in(raw),
            heartbeats=capture.heartbeat_ms > 0,
            capture=capture,
            offset_unseen=unseen,
        )


def _own_entry(entries: Sequence[OffsetEntry], server: str) -> OffsetEntry | None:
    """The entry of this server; without a name, the only entry there is."""
    if not server:
        return entries[0] if len(entries) == 1 else None
    return next((entry for entry in entries if entry.key.get("server") == server), None)


@dataclass(frozen=True, slots=True)
class ConnectOffsetStore:
    """One connector's offset on a Kafka Connect cluster, under one key ({"server": topic prefix}). Raises ConnectorError."""

    connect: KafkaConnect
    connector: str
    key: RawOffset

    def read(self) -> RawOffset | None:
        """The value as Connect returns it.

        Connect lists a partition's first offset only once its own reader of the topic has reached the record: seen on
        4.3.1 after a DELETE, where a GET some milliseconds after the PATCH still returned none.
        """
        return self.connect.committed_offset(self.connector, str(self.key["server"]))

    def write(self, raw: RawOffset | None) -> None:
        """Replace the value of the stopped connector; None removes it."""
        self.connect.alter_offsets(self.connector, self.key, raw)


class DebeziumConnector(KafkaConnect, AnyDebezium):
    """The Debezium connectors of one Connect cluster. `codec` reads the offsets that they store for this source."""

    def __init__(self, endpoint: ConnectEndpoint, codec: OffsetCodec) -> None:
        super().__init__(endpoint)
        self._codec = codec

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits), self._codec)

    @property
    def codec(self) -> OffsetCodec:
        """How its stored offsets are read."""
        return self._codec

    def entries(self, name: str) -> tuple[OffsetEntry, ...]:
        """All offsets that are stored for the connector. Raises ConnectorError."""
        return tuple(OffsetEntry(entry["partition"], entry["offset"]) for entry in self.offsets(name))

    def offset_store(self, name: str, key: JsonObject) -> OffsetStore:
        """Where the connector `name` keeps the offset of `key`."""
        return ConnectOffsetStore(self, name, key)

    def version(self, config: Mapping[str, str]) -> str:
        """The version of the worker's plugin. Raises ConnectorError."""
        return self.plugins().get(by_todays_names(config).known.get("connector.class", "").strip(), "")

    def state(self, name: str) -> ConnectorState:
        """The current state of the connector and its tasks; traces without secrets. Raises ConnectorError."""
        return self.reported(name)


def _with_sent(facts: ConnectorFacts, topics: Transport, texts: SchemaTexts | None) -> ConnectorFacts:
    rests = facts.state in ("STOPPED", "PAUSED") or (facts.tasks and all(t.state == "FAILED" for t in facts.tasks))
    inside = facts.offset is not None and facts.offset.inside is Inside.TRANSACTION
    if not isinstance(facts.capture, ConnectorSettings) or not rests or not inside:
        return facts
    with suppress(CdcError):  # an unreadable topic proves nothing, and what Connect returned is still valid
        return replace(facts, sent=last_sent(facts.capture, topics, texts))
    return facts


def address_in(config: Mapping[str, str]) -> str:
    """host:port that the connector is configured with; "" where only Connect's own machine knows it."""
    settings = by_todays_names(config)
    if {"database.hostname", "database.port"} & {*settings.unseen}:
        return ""
    port = config.get("database.port") or _PORTS.get(settings.known.get("connector.class", "").strip(), "3306")
    return f"{config.get('database.hostname', '')}:{port}"


def is_away(config: Mapping[str, str]) -> bool:
    """Whether this configuration is one that a detour changed."""
    return any(key.startswith(WAS) for key in config)


def pointed_at(config: Mapping[str, str], address: tuple[str, int], login: tuple[str, str] | None) -> dict[str, str]:
    """The configuration with another address, and another login if one is given; it also keeps the old values."""
    values = dict(zip(_ADDRESS, (address[0], str(address[1])), strict=True))
    values |= dict(zip(_LOGIN, login, strict=True)) if login else {}
    home = pointed_back(config)
    return {**home, **values, **{WAS + key: home.get(key, "") for key in values}}


def pointed_back(config: Mapping[str, str]) -> dict[str, str]:
    """The configuration as it was before the detour. A setting that was absent is left out again."""
    settings = {key.removeprefix(WAS): value for key, value in config.items() if key.startswith(WAS)}
    rest = {key: value for key, value in config.items() if not key.startswith(WAS) and key not in settings}
    return {**rest, **{key: value for key, value in settings.items() if value}}
