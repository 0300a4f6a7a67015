"""The whole stack in one folder: start, health, stop, wipe, and `stack.json`, which describes it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from stack import connect, fetch, kafka, mysql, versions
from stack.connect import ConnectWorker
from stack.errors import StackError, UnavailableError, log_tail
from stack.kafka import KafkaBroker
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import Child, end

T = TypeVar("T")

ALL = ("mysql", "kafka", "connect")
_STATE = "stack.json"


@dataclass(frozen=True, slots=True)
class Health:
    """One server's answer: `ok`, and in words what was seen; `tail` holds the end of its log when it failed."""

    name: str
    ok: bool
    said: str
    tail: str = ""


@dataclass(slots=True)
class Stack:
    """Servers running under one folder. `keep`: they outlive this process until `down`."""

    folder: Path
    keep: bool = False
    mysql: dict[str, MySqlServer] = field(default_factory=dict)
    kafka: KafkaBroker | None = None
    connect: ConnectWorker | None = None
    others: dict[str, Child] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def children(self) -> tuple[Child, ...]:
        """All servers, those that depend on others first."""
        clients = [*self.others.values(), *([self.connect.child] if self.connect else [])]
        return (
            *clients,
            *([self.kafka.child] if self.kafka else []),
            *(server.child for server in self.mysql.values()),
        )

    def add_mysql(self, settings: MySqlSettings) -> MySqlServer:
        """Start one more MySQL server under its own name and wait for it."""
        if settings.name in self.mysql:
            raise StackError(f"a server named {settings.name!r} runs already")
        server = mysql.start_mysql(self.folder, self.logs, settings, keep=self.keep)
        return self.set_mysql(server).mysql_ready(settings.name)

    def add_kafka(self) -> KafkaBroker:
        """Start the broker and wait for it."""
        fetch.fetch_all(["kafka"])
        self.kafka = kafka.wait_ready(kafka.start_kafka(self.folder, self.logs, keep=self.keep))
        self.save()
        return self.kafka

    def add_connect(self) -> ConnectWorker:
        """Start the Connect worker and wait for it; needs the broker."""
        fetch.fetch_all(["kafka", "debezium"])
        broker = _there(self.kafka, "kafka")
        self.connect = connect.start_connect(self.folder, self.logs, broker.bootstrap, keep=self.keep)
        connect.wait_ready(self.connect)
        self.save()
        return self.connect

    def set_mysql(self, server: MySqlServer) -> Stack:
        """Remember a server (also after a restart) in stack.json."""
        self.mysql[server.settings.name] = server
        self.save()
        return self

    def mysql_ready(self, name: str) -> MySqlServer:
        """Wait for a server that was started."""
        return self.set_mysql(mysql.wait_ready(self.mysql[name])).mysql[name]

    def restart_mysql(self, name: str = "mysql") -> MySqlServer:
        """End a MySQL server (if it runs) and start it on its data again."""
        return self.set_mysql(mysql.restart_mysql(self.mysql[name], keep=self.keep)).mysql[name]

    def restart_connect(self) -> ConnectWorker:
        """End the Connect worker (if it runs) and start it again on its port."""
        self.connect = connect.restart_connect(_there(self.connect, "connect"), keep=self.keep)
        self.save()
        return self.connect

    def restart_kafka(self) -> KafkaBroker:
        """End the broker (if it runs) and start it on its data again."""
        broker = _there(self.kafka, "kafka")
        end(broker.child)
        self.kafka = kafka.restart_kafka(broker, keep=self.keep)
        self.save()
        return self.kafka

    def health(self) -> tuple[Health, ...]:
        """Ask every server once."""
        probes: list[tuple[Child, Callable[[], str | None]]] = []
        for server in self.mysql.values():
            probes.append((server.child, lambda server=server: mysql.server_version(server)))  # type: ignore[misc]
        if broker := self.kafka:
            probes.append((broker.child, lambda: broker.bootstrap if kafka.is_open(broker.bootstrap) else None))
        if worker := self.connect:
            probes.append((worker.child, lambda: worker.url if connect.has_debezium(worker) else None))
        probes += [(child, lambda: "process runs") for child in self.others.values()]
        return tuple(_probe(child, probe) for child, probe in probes)

    def down(self) -> None:
        """End every server this stack started, clients first."""
        clients = tuple(self.others.values()) + ((self.connect.child,) if self.connect else ())
        end(*clients)
        servers = tuple(server.child for server in self.mysql.values())
        end(*servers, *((self.kafka.child,) if self.kafka else ()))

    def save(self) -> None:
        """Write stack.json (0600: it holds the passwords of these servers)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{_STATE}.part"
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            json.dump(self.to_json(), out, indent=2)
        part.replace(self.folder / _STATE)

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "keep": self.keep,
            "versions": {
                "mysql": {name: server.version for name, server in self.mysql.items()},
                "kafka": versions.KAFKA,
                "debezium": versions.DEBEZIUM,
                "spark": versions.SPARK,
                "iceberg": versions.ICEBERG,
            },
            "mysql": {name: server.to_json() for name, server in self.mysql.items()},
            "kafka": self.kafka.to_json() if self.kafka else None,
            "connect": self.connect.to_json() if self.connect else None,
            "others": {name: child.to_json() for name, child in self.others.items()},
            "seconds": self.seconds,
        }

    @classmethod
    def load(cls, folder: Path) -> Stack:
        """The stack that `stack.json` in a folder describes."""
        path = folder / _STATE
        try:
            value: Mapping[str, Any] = json.loads(path.read_text())
        except FileNotFoundError as error:
            raise UnavailableError(f"no stack in {folder} ({path} does not exist); start one with `up`") from error
        return cls(
            folder=folder,
            keep=value["keep"],
            mysql={name: MySqlServer.from_json(server) for name, server in value["mysql"].items()},
            kafka=KafkaBroker.from_json(value["kafka"]) if value["kafka"] else None,
            connect=ConnectWorker.from_json(value["connect"]) if value["connect"] else None,
            others={name: Child.from_json(child) for name, child in value["others"].items()},
            seconds=dict(value["seconds"]),
        )

    def __enter__(self) -> Stack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.keep:
            self.down()


def start(
    folder: Path,
    services: Sequence[str] = ALL,
    *,
    keep: bool = False,
    mysql_settings: Sequence[MySqlSettings] | None = None,
) -> Stack:
    """Start servers under a folder and wait until all answer. On any failure everything started is ended again.

    `services` from ALL; Connect needs Kafka. `mysql_settings` names one or more MySQL servers.
    """
    _check(folder, services)
    stack = Stack(folder.absolute(), keep)
    try:
        _start_all(stack, services, tuple(mysql_settings or (MySqlSettings(),)))
    except BaseException:
        stack.down()
        raise
    return stack


def down(folder: Path) -> Stack:
    """End the servers that stack.json names, by pid and start time."""
    stack = Stack.load(folder)
    stack.down()
    return stack


def wipe(folder: Path) -> None:
    """End what runs and remove the folder; only a folder that holds a stack.json is removed."""
    with suppress(UnavailableError):
        down(folder)
        shutil.rmtree(folder)


def _check(folder: Path, services: Sequence[str]) -> None:
    unknown = [name for name in services if name not in ALL]
    if unknown:
        raise UnavailableError(f"unknown service {unknown[0]!r}; known are {', '.join(ALL)}")
    if "connect" in services and "kafka" not in services:
        raise UnavailableError("connect needs kafka: name both")
    if (folder / _STATE).exists():
        if any(child.alive for child in Stack.load(folder).children):
            raise UnavailableError(f"a stack runs in {folder} already; end it with `down`")
        raise UnavailableError(f"{folder} holds an ended stack; remove it with `wipe`")


def _start_all(stack: Stack, services: Sequence[str], settings: Sequence[MySqlSettings]) -> None:
    """Everything at once: Connect needs only the broker, the MySQL servers nothing."""
    begun = time.monotonic()
    _fetch(services, settings)
    stack.seconds["fetch"] = round(time.monotonic() - begun, 2)
    if "kafka" in services:
        stack.kafka = kafka.start_kafka(stack.folder, stack.logs, keep=stack.keep)
    if "mysql" in services:
        for one in settings:
            stack.set_mysql(mysql.start_mysql(stack.folder, stack.logs, one, keep=stack.keep))
    if stack.kafka:
        kafka.wait_ready(stack.kafka)
    if stack.kafka and "connect" in services:
        stack.connect = connect.start_connect(stack.folder, stack.logs, stack.kafka.bootstrap, keep=stack.keep)
    stack.save()
    for name in tuple(stack.mysql):
        stack.mysql_ready(name)
    if stack.connect:
        connect.wait_ready(stack.connect)
    stack.seconds["ready"] = round(time.monotonic() - begun, 2)
    stack.save()


def _fetch(services: Sequence[str], settings: Sequence[MySqlSettings]) -> None:
    names = {"kafka", "debezium"} if "kafka" in services else set()
    if "mysql" in services and any(one.series == "8.0" for one in settings):
        names.add("mysql8015")
    fetch.fetch_all(sorted(names))


def _probe(child: Child, probe: Callable[[], str | None]) -> Health:
    said = probe() if child.alive else None
    if said is not None:
        return Health(child.name, ok=True, said=said)
    state = "does not answer" if child.alive else "has ended"
    return Health(child.name, ok=False, said=state, tail=log_tail(Path(child.log)))


def _there(value: T | None, name: str) -> T:
    if value is None:
        raise StackError(f"{name} was not started in this stack")
    return value
