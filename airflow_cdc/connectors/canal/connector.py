"""A Canal server: one reading of its state, its settings and its cursors; stopping, starting, and moving the cursor."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from airflow_cdc.connectors.canal.capture import (
    ADDRESS,
    GTID,
    STANDBY,
    CanalCapture,
    captured,
    interval_ms,
    is_on,
    kept_elsewhere,
    read_config,
    start_of,
)
from airflow_cdc.connectors.canal.cursor import CursorCodec
from airflow_cdc.connectors.canal.endpoint import ZOOKEEPER, CanalEndpoint
from airflow_cdc.connectors.canal.events.mysql import TIME_ZONE
from airflow_cdc.connectors.canal.log import LogState, read_log
from airflow_cdc.connectors.canal.stores.cursors import CLIENT, Cursors, CursorStore
from airflow_cdc.connectors.canal.stores.file import FileCursors
from airflow_cdc.connectors.canal.stores.zookeeper import ZooKeeperCursors
from airflow_cdc.connectors.commands import Commands
from airflow_cdc.connectors.without import NoTopics, TheirSettings
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import CdcError, ConnectorError
from airflow_cdc.core.observation import ConnectorFacts, ConnectorState, TaskState
from airflow_cdc.core.offset import OffsetCodec, OffsetEntry, OffsetStore, RawOffset
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.secrets import mask_config
from airflow_cdc.core.text import number_in, root_cause

RUNNING: Final = "RUNNING"
STOPPED: Final = "STOPPED"
START_SECONDS: Final = 120.0
_PORT: Final = 3306


@dataclass(frozen=True, slots=True)
class CanalFacts(ConnectorFacts):
    """What a diagnosis knows of a Canal server beside what it knows of any connector.

    Attributes:
        stranger: host:port in the cursor's identity, where that is not the server which Canal reads; else "".
        begins: where it would begin without a cursor, in words.
    """

    stranger: str = ""
    begins: str = ""


class CanalConnector(TheirSettings):
    """The destinations of one Canal server."""

    unchanged = ("the settings of destination {name}", "Change instance.properties by hand and restart Canal.")

    def __init__(self, endpoint: CanalEndpoint, codec: CursorCodec) -> None:
        self.endpoint = endpoint
        self._codec = codec
        self._commands = Commands(endpoint)

    @property
    def where(self) -> str:
        """How messages name the server."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits), self._codec)

    def reach(self) -> None:
        """Raises ConnectorError if there is a ZooKeeper and it does not answer."""
        if self.endpoint.names_zookeeper:
            ZooKeeperCursors(self.endpoint, self.endpoint.destination).reach()

    @property
    def codec(self) -> OffsetCodec:
        """How its cursors are read and made, by what its settings say of the server. Raises ConnectorError."""
        return self._bound(self.raw_config(self.endpoint.destination))

    @property
    def own_topics(self) -> NoTopics:
        """See NoTopics."""
        return NoTopics()

    # ---- what is known

    def raw_config(self, name: str) -> Mapping[str, str]:
        """The settings with their secrets, of both files. Raises ConnectorError."""
        zone = {TIME_ZONE: self.endpoint.time_zone} if self.endpoint.time_zone else {}
        return {**read_config(self.endpoint.conf, name, self.where), **zone}

    def state(self, name: str) -> ConnectorState:
        """RUNNING with one task, which is FAILED while Canal's log says that it cannot read on; or STOPPED."""
        if not self._runs(name):
            return ConnectorState(STOPPED)
        failure = self._log().failure
        return ConnectorState(RUNNING, (TaskState(0, "FAILED" if failure else RUNNING, failure),))

    def facts(self, name: str) -> CanalFacts:
        """State, settings and cursors. Raises ConnectorError."""
        state, config = self.state(name), self.raw_config(name)
        unseen = kept_elsewhere(config, self.endpoint.cursor)
        entries = () if unseen else self.entries(name)
        own = next((entry for entry in entries if "client" not in entry.key), None)
        value = own.value if own else None
        capture, fault = _captured(config)
        codec = self._bound(config)
        return CanalFacts(
            state=state.state,
            tasks=state.tasks,
            config=mask_config(config),
            offset=codec.read(value, own.key) if own and value else None,
            key=own.key if own else None,
            offsets_count=len(entries),
            other_keys=tuple(
                {**one.key, "cursor": codec.read(one.value, {}).place}
                for one in entries
                if one is not own and one.value
            ),
            address=config.get(ADDRESS, ""),
            heartbeats=interval_ms(config) > 0,
            capture=capture,
            capture_fault=fault,
            offset_unseen=unseen,
            stranger=codec.stranger(value) if value else "",
            begins=start_of(config),
        )

    # ---- stop and start

    def stop(self, name: str, *, timeout: float = 60.0) -> None:
        """Stop the server and wait until it is gone, and no other one runs the destination. Raises DeadlineError."""
        deadline = time.monotonic() + timeout
        if self._commands.running():
            self._commands.stop(timeout)
        left = max(0.0, deadline - time.monotonic())
        poll_until(lambda: self._gone(name), timeout=left, interval=0.2, what=f"Canal to stop destination {name}")

    def resume(self, name: str) -> None:  # noqa: ARG002
        """Start the server."""
        self._commands.start(START_SECONDS)

    def wait_running(self, name: str, *, timeout: float = 120.0) -> None:
        """Return when it runs and, by its log, has found its position; raise with what the log says, or DeadlineError."""

        def running() -> bool:
            if not self._runs(name):
                raise NotYet("it does not run")
            log = self._log()
            if log.failure:
                raise ConnectorError(
                    f"destination {name} does not read: {root_cause(log.failure)}",
                    where=self.where,
                    todo="See Canal's log of the destination; `airflow cdc diagnose` says what it means.",
                )
            if self.endpoint.log and not log.reads:
                raise NotYet("it has not found its position yet")
            return True

        poll_until(running, timeout=timeout, interval=0.3, what=f"Canal to read destination {name}")

    def restart(self, name: str) -> None:
        """Stop and start the server."""
        self.stop(name)
        self.resume(name)

    # ---- cursors

    def entries(self, name: str) -> tuple[OffsetEntry, ...]:
        """Our client's cursor, and those of others, each with `client` in its key."""
        cursors = self._cursors(name).read()
        own = (OffsetEntry({"server": name}, cursors[CLIENT]),) if CLIENT in cursors else ()
        others = (OffsetEntry({"server": name, "client": n}, one) for n, one in cursors.items() if n != CLIENT)
        return (*own, *others)

    def committed_offset(self, name: str, server: str) -> RawOffset | None:  # noqa: ARG002
        """Our client's cursor."""
        return self._cursors(name).read().get(CLIENT)

    def offset_store(self, name: str, key: RawOffset) -> OffsetStore:  # noqa: ARG002
        """The cursors of the destination."""
        return CursorStore(self._cursors(name), lambda: self._check_stopped(name))

    # ---- inside

    def _cursors(self, name: str) -> Cursors:
        if self.endpoint.cursor == ZOOKEEPER:
            return ZooKeeperCursors(self.endpoint, name)
        return FileCursors(Path(self.endpoint.conf) / name / "meta.dat", name)

    def _bound(self, config: Mapping[str, str]) -> CursorCodec:
        """The codec of the server that these settings describe."""
        address = config.get(ADDRESS, "")
        homes = tuple(_host_port(one) for one in (address, config.get(STANDBY, "")) if one)
        return replace(
            self._codec,
            by_gtid=is_on(config, GTID),
            typed=self.endpoint.cursor == ZOOKEEPER,
            recognises=lambda host, port: _is_among(homes, host, port),
            address=_host_port(address) if address else None,
        )

    def _log(self) -> LogState:
        return read_log(self.endpoint.log, self.where) if self.endpoint.log else LogState()

    def _holder(self, name: str) -> str:
        """The server of a cluster that runs the destination, by ZooKeeper; "" where none does."""
        return ZooKeeperCursors(self.endpoint, name).holder() if self.endpoint.cursor == ZOOKEEPER else ""

    def _runs(self, name: str) -> bool:
        return self._commands.running() or bool(self._holder(name))

    def _gone(self, name: str) -> bool:
        if self._commands.running():
            raise NotYet("the server runs")
        if holder := self._holder(name):
            raise NotYet(f"the server {holder} of the cluster has the destination: stop that one, too")
        return True

    def _check_stopped(self, name: str) -> None:
        if self._runs(name):
            raise ConnectorError(
                f"Canal runs destination {name}, and would write over the cursor when it ends",
                where=self.where,
                todo="Stop it first.",
            )


def _host_port(address: str) -> tuple[str, int]:
    host, _, port = address.strip().rpartition(":")
    number = number_in(port)
    return (host, number) if host and number is not None else (address.strip(), _PORT)


def _is_among(homes: tuple[tuple[str, int], ...], host: str, port: int) -> bool | None:
    """Canal compares resolved addresses; a name that cannot be resolved here says nothing."""
    answers = [_same(home, host) for home, number in homes if number == port]
    if True in answers:
        return True
    return None if None in answers or not homes else False


def _same(one: str, other: str) -> bool | None:
    if one.lower() == other.lower():
        return True
    here, there = set(_resolved(one)), set(_resolved(other))
    return bool(here & there) if here and there else None


def _resolved(host: str) -> Iterator[str]:
    try:
        yield from (str(info[4][0]) for info in socket.getaddrinfo(host, None))
    except OSError:
        return


def _captured(config: Mapping[str, str]) -> tuple[CanalCapture | None, CdcError | None]:
    try:
        return captured(config), None
    except CdcError as error:
        return None, error
