"""Debezium's engine without Kafka Connect: its settings in a file, its offsets in a file or a table, its state by commands."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from airflow_cdc.connectors.commands import Commands
from airflow_cdc.connectors.debezium.connector import AnyDebezium
from airflow_cdc.connectors.debezium.names import server_of
from airflow_cdc.connectors.debezium_engine.config import EngineConfig, change_config, read_config
from airflow_cdc.connectors.debezium_engine.endpoint import EngineEndpoint
from airflow_cdc.connectors.debezium_engine.log import failure_in, size_of
from airflow_cdc.connectors.debezium_engine.stores.file import FileOffsets
from airflow_cdc.connectors.debezium_engine.stores.offsets import EngineOffsetStore, Offsets, value_of
from airflow_cdc.connectors.debezium_engine.stores.table import TableOffsets
from airflow_cdc.connectors.kafka_connect.offsets_topic import offset_key, parse_key
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.observation import ConnectorState, TaskState
from airflow_cdc.core.offset import OffsetCodec, OffsetEntry, OffsetStore, RawOffset
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.secrets import mask_config
from airflow_cdc.core.text import root_cause

RUNNING: Final = "RUNNING"
STOPPED: Final = "STOPPED"
FAILED: Final = "FAILED"
START_SECONDS: Final = 120.0
_STORAGE: Final = "offset.storage"
_FILE: Final = "FileOffsetBackingStore"
_TABLE: Final = "JdbcOffsetBackingStore"
_FILE_NAME: Final = "offset.storage.file.filename"
# as Debezium's documentation and its older versions call it
_TABLE_NAMES: Final = ("offset.storage.jdbc.table.name", "offset.storage.jdbc.offset.table.name")
_DEFAULT_TABLE: Final = "debezium_offset_storage"
_OWN_SQL: Final = tuple(
    f"offset.storage.jdbc.{table}.{word}"
    for table in ("table", "offset.table")
    for word in ("select", "insert", "delete")
)


class DebeziumEngine(AnyDebezium):
    """One engine with one connector."""

    def __init__(self, endpoint: EngineEndpoint, codec: OffsetCodec) -> None:
        self.endpoint = endpoint
        self._codec = codec
        self._commands = Commands(endpoint)
        self._begun = 0

    @property
    def where(self) -> str:
        """How messages name the engine."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits), self._codec)

    def reach(self) -> None:
        """Raises ConnectorError if its offsets are in a database that does not answer."""
        if self.endpoint.database is not None:
            TableOffsets(self.endpoint.database, _DEFAULT_TABLE).read()

    @property
    def codec(self) -> OffsetCodec:
        """How its stored offsets are read."""
        return self._codec

    # ---- stop and start

    def state(self, name: str) -> ConnectorState:  # noqa: ARG002
        """RUNNING with one task; or STOPPED, for nothing runs, with a FAILED task if the log says why it has ended."""
        if self._commands.running():
            return ConnectorState(RUNNING, (TaskState(0, RUNNING),))
        failure = failure_in(self.endpoint.log, self.where)
        return ConnectorState(STOPPED, (TaskState(0, FAILED, failure),) if failure else ())

    def stop(self, name: str, *, timeout: float = 60.0) -> None:
        """Stop it and wait until it is gone: it stores its offset once more when it ends. Raises DeadlineError."""
        deadline = time.monotonic() + timeout
        if self._commands.running():
            self._commands.stop(timeout)
        left = max(0.0, deadline - time.monotonic())
        poll_until(self._gone, timeout=left, interval=0.2, what=f"Debezium's engine of {name} to end")

    def resume(self, name: str) -> None:  # noqa: ARG002
        """Start it."""
        self._begun = size_of(self.endpoint.log)
        self._commands.start(START_SECONDS)

    def wait_running(self, name: str, *, timeout: float = 120.0) -> None:
        """Return when it runs; raise with what its log says since `resume` if it has ended, or DeadlineError."""

        def running() -> bool:
            if self._commands.running():
                return True
            if failure := failure_in(self.endpoint.log, self.where, since=self._begun):
                raise ConnectorError(
                    f"Debezium's engine of {name} has ended: {root_cause(failure)}",
                    where=self.where,
                    todo="See its log; `airflow cdc diagnose` says what it means.",
                )
            raise NotYet("it does not run")

        poll_until(running, timeout=timeout, interval=0.3, what=f"Debezium's engine of {name} to run")

    def restart(self, name: str) -> None:
        """Stop and start it."""
        self.stop(name)
        self.resume(name)

    # ---- its offsets

    def entries(self, name: str) -> tuple[OffsetEntry, ...]:  # noqa: ARG002
        """The offsets of this engine. Raises ConnectorError."""
        place = self._place()
        values = place.offsets.read()
        keys = {key: parts for key in values if (parts := parse_key(key)) and parts[0] == place.engine}
        return tuple(
            OffsetEntry(partition, value_of(values[key], place.offsets.where)) for key, (_, partition) in keys.items()
        )

    def offset_unseen(self) -> str:
        """See AnyDebezium: it is kept by another class than those read here, or the file leaves open where."""
        try:
            self._place()
        except ConnectorError as error:
            return str(error)
        return ""

    def committed_offset(self, name: str, server: str) -> RawOffset | None:
        """The value stored for the topic prefix `server`."""
        return next((one.value for one in self.entries(name) if one.key.get("server") == server), None)

    def offset_store(self, name: str, key: RawOffset) -> OffsetStore:
        """The store of the offset under `key`, which is written only while the engine is stopped."""
        place = self._place()
        texts = (one for one in place.offsets.read() if parse_key(one) == (place.engine, dict(key)))
        text = next(texts, None) or offset_key(place.engine, key)
        return EngineOffsetStore(place.offsets, text, lambda: self._check_stopped(name))

    # ---- its settings

    def raw_config(self, name: str) -> Mapping[str, str]:  # noqa: ARG002
        """The settings with their secrets, as Kafka Connect would call them. Raises ConnectorError."""
        return self._config().connector

    def change_config(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Change them in the properties file, for the next start. Raises ConnectorError, with the file as it was."""
        prefix = self._config().prefix
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        path = Path(self.endpoint.config)
        try:
            change_config(path, {f"{prefix}{key}": after.get(key) for key in keys}, self.where)
        except ConnectorError as error:
            values = mask_config({key: after.get(key, "") for key in keys})
            lines = ", ".join(f"{prefix}{key}={value}" for key, value in values.items())
            raise ConnectorError(
                error.what, where=error.where, todo=f"{error.todo} Or set by hand: {lines}; then clear this task."
            ) from None
        if dict(self.raw_config(name)) != dict(after):
            change_config(path, {f"{prefix}{key}": before.get(key) for key in keys}, self.where)
            raise ConnectorError(
                f"the settings of Debezium's engine of {name} read back differ from what was written; the old ones were"
                " restored",
                where=self.where,
                todo="Set by hand what this names, then do this again: " + ", ".join(f"{prefix}{key}" for key in keys),
            )

    # ---- inside

    def _config(self) -> EngineConfig:
        return read_config(Path(self.endpoint.config), self.where)

    def _place(self) -> _Place:
        config = self._config()
        if not config.engine:
            raise self._misconfigured("does not name the engine", "Set `name`, as the engine's own code does.")
        if not server_of(config.connector):
            raise self._misconfigured("has no topic.prefix", "Check connector.config in pipelines.yaml.")
        return _Place(config.engine, self._offsets(config.connector))

    def _offsets(self, config: Mapping[str, str]) -> Offsets:
        """The place that `offset.storage` names. Raises ConnectorError for another one."""
        storage = (config.get(_STORAGE) or _FILE).rpartition(".")[2]
        if storage == _FILE:
            return FileOffsets(self._file(config))
        if storage != _TABLE:
            raise self._misconfigured(
                f"keeps the connector's position by {storage}, which can't be read from here",
                f"To have it judged and moved, keep it by {_FILE} or, in MySQL or PostgreSQL, by {_TABLE}.",
            )
        if self.endpoint.database is None:
            raise self._misconfigured(
                "keeps its offsets in a database, and connector.conn_id names none",
                "Name an Airflow connection of type postgres or mysql that leads to it.",
            )
        if any(config.get(one) for one in _OWN_SQL):
            raise self._misconfigured(
                "has SQL of its own for its table of offsets", "Only Debezium's own table is read."
            )
        names = (config.get(name) for name in _TABLE_NAMES)
        return TableOffsets(self.endpoint.database, next(filter(None, names), _DEFAULT_TABLE))

    def _file(self, config: Mapping[str, str]) -> Path:
        path = Path(self.endpoint.offsets_file or config.get(_FILE_NAME, ""))
        if not path.is_absolute():
            raise self._misconfigured(
                f"names the file of its offsets as {str(path)!r}, which depends on where it was started",
                "Write the whole path as connector.offsets_file in pipelines.yaml.",
            )
        return path

    def _misconfigured(self, what: str, todo: str) -> ConnectorError:
        return ConnectorError(f"the properties file {what}", where=f"{self.where}, {self.endpoint.config}", todo=todo)

    def _gone(self) -> bool | None:
        return not self._commands.running() or None

    def _check_stopped(self, name: str) -> None:
        """Raises ConnectorError if the engine runs: it would write its own offset over ours."""
        if self._commands.running():
            raise ConnectorError(
                f"Debezium's engine of {name} runs, and would write over the offset",
                where=self.where,
                todo="Stop it, and see to it that nothing starts it again, then do this again.",
            )


@dataclass(frozen=True, slots=True)
class _Place:
    """The engine's name, and where its offsets are."""

    engine: str
    offsets: Offsets = field(repr=False)
