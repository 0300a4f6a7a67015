"""The whole stack in one folder: start, health, stop, wipe, and `stack.json`, which describes it."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from stack import airflow, connect, fetch, kafka, mysql, postgres, versions
from stack.airflow import AirflowServer, AirflowSettings
from stack.connect import ConnectWorker
from stack.errors import StackError, UnavailableError, log_tail
from stack.kafka import KafkaBroker
from stack.mysql import MySqlServer, MySqlSettings
from stack.postgres import PostgresServer, PostgresSettings
from stack.process import Child, end

T = TypeVar("T")

ALL = ("mysql", "kafka", "connect")  # what is started unless named otherwise
KNOWN = (*ALL, "postgres")
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
    airflow: AirflowServer | None = None
    postgres: dict[str, PostgresServer] = field(default_factory=dict)
    others: dict[str, Child] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def children(self) -> tuple[Child, ...]:
        """All servers, those that depend on others first."""
        return tuple(child for layer in self._layers() for child in layer)

    def _layers(self) -> tuple[tuple[Child, ...], ...]:
        """Servers in the order in which they end; those of one layer end at the same time."""
        return (
            (*self.others.values(), *(self.airflow.children.values() if self.airflow else ())),
            (self.connect.child,) if self.connect else (),
            (*(one.child for one in self.databases.values()), *((self.kafka.child,) if self.kafka else ())),
        )

    @property
    def databases(self) -> dict[str, MySqlServer | PostgresServer]:
        """Every database server by its name."""
        return {**self.mysql, **self.postgres}

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

    def add_connect(self, plugins: Sequence[str] = ("debezium",)) -> ConnectWorker:
        """Start the Connect worker and wait for it; needs the broker. `plugins`: see connect.start_connect."""
        fetch.fetch_all(["kafka", *plugins])
        broker = _there(self.kafka, "kafka")
        self.connect = connect.start_connect(self.folder, self.logs, broker.bootstrap, keep=self.keep, plugins=plugins)
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

    def restart_mysql(self, name: str = "mysql", more: Sequence[str] = ()) -> MySqlServer:
        """End a MySQL server (if it runs) and start it on its data again; `more`: options of this start only."""
        return self.set_mysql(mysql.restart_mysql(self.mysql[name], keep=self.keep, more=more)).mysql[name]

    def add_postgres(self, settings: PostgresSettings) -> PostgresServer:
        """Start one more PostgreSQL server under its own name and wait for it."""
        if settings.name in self.postgres:
            raise StackError(f"a server named {settings.name!r} runs already")
        server = postgres.start_postgres(self.folder, self.logs, settings, keep=self.keep)
        return self.set_postgres(server).postgres_ready(settings.name)

    def set_postgres(self, server: PostgresServer) -> Stack:
        """Remember a server (also after a restart) in stack.json."""
        self.postgres[server.settings.name] = server
        self.save()
        return self

    def postgres_ready(self, name: str) -> PostgresServer:
        """Wait for a server that was started."""
        return self.set_postgres(postgres.wait_ready(self.postgres[name])).postgres[name]

    def restart_postgres(self, name: str = "postgres") -> PostgresServer:
        """End a PostgreSQL server (if it runs) and start it on its data again."""
        return self.set_postgres(postgres.restart_postgres(self.postgres[name], keep=self.keep)).postgres[name]

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

    def add_airflow(self, settings: AirflowSettings) -> AirflowServer:
        """Start Airflow and wait until every component is healthy."""
        server, migration = airflow.prepare(self.folder, self.logs, settings)
        self.others[migration.name] = migration
        self.airflow = airflow.launch(server, migration, self.logs, keep=self.keep)
        self.others.pop(migration.name)
        self.save()
        airflow.wait_ready(self.airflow)
        return self.airflow

    def restart_airflow(self, component: str) -> AirflowServer:
        """End one component of Airflow (if it runs) and start it again: a key of airflow.COMPONENTS."""
        server = _there(self.airflow, "airflow")
        self.airflow = airflow.restart_component(server, component, self.logs, keep=self.keep)
        self.save()
        return airflow.wait_ready(self.airflow)

    def health(self) -> tuple[Health, ...]:
        """Ask every server once."""
        probes: list[tuple[Child, Callable[[], str | None]]] = [
            (server.child, partial(mysql.server_version, server)) for server in self.mysql.values()
        ]
        probes += [(one.child, partial(postgres.server_version, one)) for one in self.postgres.values()]
        if self.kafka:
            probes.append((self.kafka.child, partial(kafka.said, self.kafka)))
        if self.connect:
            probes.append((self.connect.child, partial(connect.said, self.connect)))
        if self.airflow:
            probes += [
                (child, partial(airflow.said, self.airflow, name)) for name, child in self.airflow.children.items()
            ]
        probes += [(child, lambda: "process runs") for child in self.others.values()]
        return tuple(_probe(child, probe) for child, probe in probes)

    def wait_healthy(self, timeout: float) -> tuple[Health, ...]:
        """Ask until every server answers or the deadline has passed; the last answers."""
        deadline = time.monotonic() + timeout
        while True:
            answers = self.health()
            if all(answer.ok for answer in answers) or time.monotonic() > deadline:
                return answers
            threading.Event().wait(0.5)

    def down(self) -> None:
        """End every server this stack started, clients first."""
        *clients, databases = self._layers()
        for layer in clients:
            end(*layer)
        for server in self.mysql.values():
            if server.child.alive:
                mysql.hang_up(server)
        for one in self.postgres.values():
            postgres.hang_up(one)
        end(*databases)

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
                "postgres": {name: server.version for name, server in self.postgres.items()},
                "kafka": versions.KAFKA,
                "debezium": versions.DEBEZIUM_OF[_plugin([server.settings for server in self.mysql.values()])],
                "spark": versions.SPARK,
                "iceberg": versions.ICEBERG,
            },
            "mysql": {name: server.to_json() for name, server in self.mysql.items()},
            "postgres": {name: server.to_json() for name, server in self.postgres.items()},
            "kafka": self.kafka.to_json() if self.kafka else None,
            "connect": self.connect.to_json() if self.connect else None,
            "airflow": self.airflow.to_json() if self.airflow else None,
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
            postgres={name: PostgresServer.from_json(server) for name, server in value.get("postgres", {}).items()},
            kafka=KafkaBroker.from_json(value["kafka"]) if value["kafka"] else None,
            connect=ConnectWorker.from_json(value["connect"]) if value["connect"] else None,
            airflow=AirflowServer.from_json(value["airflow"]) if value["airflow"] else None,
            others={name: Child.from_json(child) for name, child in value["others"].items()},
            seconds=dict(value["seconds"]),
        )

    def __enter__(self) -> Self:
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
    postgres_settings: Sequence[PostgresSettings] | None = None,
    airflow_settings: Callable[[Stack], AirflowSettings] | None = None,
    meanwhile: Callable[[Stack], None] = lambda _stack: None,
    connect_java: tuple[str, ...] = connect.QUICK,
    connect_plugins: tuple[str, ...] = (),
) -> Stack:
    """Start servers under a folder and wait until all answer. On any failure everything started is ended again.

    `services` from KNOWN; Connect needs Kafka, and gets the connectors of the databases that are started with it.
    `mysql_settings` and `postgres_settings` name one or more servers.
    `airflow_settings` starts Airflow too; it is called with the stack when every address and password is known.
    `meanwhile` is called when all others answer: Airflow takes the longest.
    `connect_java`: options of Connect's JVM. `connect_plugins`: sets of jars beside those of the databases.
    """
    _check(folder, services)
    stack, begun = Stack(folder.absolute(), keep), time.monotonic()
    beside = ThreadPoolExecutor(1)
    try:
        wanted = Databases(
            tuple(mysql_settings or (MySqlSettings(),)) if "mysql" in services else (),
            tuple(postgres_settings or (PostgresSettings(),)) if "postgres" in services else (),
            connect_plugins,
        )
        _start_all(stack, services, wanted, connect_java)
        coming = beside.submit(stack.add_airflow, airflow_settings(stack)) if airflow_settings else None
        _wait_all(stack)
        meanwhile(stack)
        if coming:
            coming.result()
    except BaseException:
        stack.down()  # now, so that the other thread need not wait for Airflow
        beside.shutdown()
        stack.down()  # what it started at that moment
        raise
    beside.shutdown()
    stack.seconds["ready"] = round(time.monotonic() - begun, 2)
    stack.save()
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
    unknown = [name for name in services if name not in KNOWN]
    if unknown:
        raise UnavailableError(f"unknown service {unknown[0]!r}; known are {', '.join(KNOWN)}")
    if "connect" in services and "kafka" not in services:
        raise UnavailableError("connect needs kafka: name both")
    if (folder / _STATE).exists():
        if any(child.alive for child in Stack.load(folder).children):
            raise UnavailableError(f"a stack runs in {folder} already; end it with `down`")
        raise UnavailableError(f"{folder} holds an ended stack; remove it with `wipe`")


@dataclass(frozen=True, slots=True)
class Databases:
    """The database servers to start."""

    mysql: tuple[MySqlSettings, ...]
    postgres: tuple[PostgresSettings, ...]
    more_plugins: tuple[str, ...] = ()

    @property
    def plugins(self) -> tuple[str, ...]:
        """The sets of jars with the connectors for these servers; MySQL's where there is none."""
        of_mysql = (_plugin(self.mysql),) if self.mysql or not self.postgres else ()
        return (*of_mysql, *(("debezium-postgres",) if self.postgres else ()), *self.more_plugins)

    @property
    def programs(self) -> set[str]:
        """The sets of jars that hold the servers themselves; the others come from Debian."""
        of_mysql = {"mysql8015" for one in self.mysql if one.series == "8.0"}
        return of_mysql | {f"postgres{one.series}" for one in self.postgres}


def _start_all(
    stack: Stack, services: Sequence[str], wanted: Databases, connect_java: tuple[str, ...] = connect.QUICK
) -> None:
    """Everything at once, without waiting: Connect needs only the broker, the databases nothing."""
    begun = time.monotonic()
    stack.save()
    fetch.fetch_all(sorted(wanted.programs | ({"kafka", *wanted.plugins} if "kafka" in services else set())))
    stack.seconds["fetch"] = round(time.monotonic() - begun, 2)
    if "kafka" in services:
        stack.kafka = kafka.start_kafka(stack.folder, stack.logs, keep=stack.keep)
        stack.save()
    for one in wanted.mysql:
        stack.set_mysql(mysql.start_mysql(stack.folder, stack.logs, one, keep=stack.keep))
    for other in wanted.postgres:
        stack.set_postgres(postgres.start_postgres(stack.folder, stack.logs, other, keep=stack.keep))
    if stack.kafka:
        kafka.wait_ready(stack.kafka)
    if stack.kafka and "connect" in services:
        bootstrap = stack.kafka.bootstrap
        stack.connect = connect.start_connect(
            stack.folder, stack.logs, bootstrap, keep=stack.keep, plugins=wanted.plugins, java=connect_java
        )
        stack.save()


def _wait_all(stack: Stack) -> None:
    for name in tuple(stack.mysql):
        stack.mysql_ready(name)
    for name in tuple(stack.postgres):
        stack.postgres_ready(name)
    if stack.connect:
        connect.wait_ready(stack.connect)


def _plugin(settings: Sequence[MySqlSettings]) -> str:
    """The set of jars with the connector for these servers: MariaDB's if all of them are MariaDB."""
    mariadb = bool(settings) and all(one.series in versions.MARIADB for one in settings)
    return "debezium-mariadb" if mariadb else "debezium"


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
