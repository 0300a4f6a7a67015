"""A real Canal server that writes to Kafka or RabbitMQ, and ZooKeeper for its cursor.

Canal's distribution is in no Maven repository, so its launcher is a few lines of our own (`canal_files/CanalMain.java`)
around Canal's own jars; everything that reads the log, keeps the cursor and writes events is Canal's.

    python -m stack.canal start|stop|status FOLDER

is how a command of a user would start and stop it: `status` ends with 0 while it runs and with 3 when it does not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from stack import fetch
from stack.errors import StackError, log_tail
from stack.installation import User
from stack.kafka import is_open, properties, quick
from stack.ports import HOST, free_port
from stack.process import Child, end, spawn, start_time, wait_until

FILES: Final = Path(__file__).with_name("canal_files")
HEAP: Final = "128m"
START_TIMEOUT_S: Final = 120.0
UP: Final = "canal is up"
NOT_RUNNING: Final = 3  # what `status` of a service ends with
# two more bindings of slf4j come with Canal; with them its log goes where nobody configured it
_OTHER_LOGGING: Final = ("slf4j-log4j12", "log4j-1.2")
_CURSORS: Final = {
    "file": (
        '<bean id="metaManager" class="CanalMain$Cursors"'
        ' p:dataDir="${canal.file.data.dir}" p:period="${canal.file.flush.period:1000}"/>'
    ),
    "zookeeper": (
        '<bean id="zkClientx" class="com.alibaba.otter.canal.common.zookeeper.ZkClientx" factory-method="getZkClient">'
        '<constructor-arg value="${canal.zkServers}"/></bean>'
        '<bean id="metaManager" class="com.alibaba.otter.canal.meta.PeriodMixedMetaManager"'
        ' p:period="${canal.zookeeper.flush.period:1000}"><property name="zooKeeperMetaManager">'
        '<bean class="com.alibaba.otter.canal.meta.ZooKeeperMetaManager" p:zkClientx-ref="zkClientx"/></property></bean>'
    ),
}


@dataclass(frozen=True, slots=True)
class CanalSettings:
    """What one server reads and writes.

    Attributes:
        mysql: host:port of the server whose log it reads, and the login there.
        kafka: bootstrap servers; "": it writes to RabbitMQ, as `server` says.
        start: file and position at which it begins without a cursor.
        zookeeper: host:port of where the cursor is kept; "": in meta.dat.
        more: further lines of instance.properties, name → value.
        server: further lines of canal.properties.
    """

    destination: str
    mysql: str
    login: User
    kafka: str
    topic: str
    start: tuple[str, int]
    zookeeper: str = ""
    more: Mapping[str, str] | None = None
    server: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CanalServer:
    """A Canal server in its folder: conf/, logs/ and canal.json, which says what runs."""

    folder: Path
    destination: str

    @property
    def conf(self) -> Path:
        """Where canal.properties is, and DESTINATION/instance.properties and meta.dat."""
        return self.folder / "conf"

    @property
    def meta(self) -> Path:
        """The file of the cursor."""
        return self.conf / self.destination / "meta.dat"

    @property
    def log(self) -> Path:
        """What Canal itself logs of the destination."""
        return self.folder / "logs" / self.destination / f"{self.destination}.log"

    @property
    def child(self) -> Child | None:
        """The process that was started last."""
        value = json.loads((self.folder / "canal.json").read_text())["child"]
        return Child.from_json(value) if value else None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        child = self.child
        return child is not None and child.alive

    def commands(self) -> dict[str, list[str]]:
        """Word → the command that does it."""
        words = ("start", "stop", "status")
        return {word: [sys.executable, "-m", "stack.canal", word, str(self.folder)] for word in words}

    def start(self) -> CanalServer:
        """Start it unless it runs, and wait until it is up."""
        if self.alive:
            return self
        written = json.loads((self.folder / "canal.json").read_text())
        argv = [
            fetch.java(), *quick(HEAP), "-Duser.timezone=UTC", f"-Dcanal.log={self.log}", f"-Dlogback.configurationFile={FILES / 'logback.xml'}",
            "-cp", ":".join((str(self.conf), *_jars())), str(FILES / "CanalMain.java"), self.destination,
        ]  # fmt: skip
        out = self.folder / "logs" / "canal.out"
        size = out.stat().st_size if out.exists() else 0
        owner = Owner(**written["owner"])
        child = spawn(f"canal-{self.destination}", argv, log=out, owner=owner.pid if owner.alive else None)
        self._note(child, owner)
        wait_until(
            lambda: UP in out.read_text()[size:] or None, timeout=START_TIMEOUT_S, what="Canal to start", child=child
        )
        return self

    def stop(self) -> None:
        """End it and wait until it is gone; it stores its cursor first."""
        if (child := self.child) is not None:
            end(child)

    def _note(self, child: Child | None, owner: Owner) -> None:
        part = self.folder / "canal.part"
        part.write_text(json.dumps({"child": child and child.to_json(), "owner": owner.to_json()}))
        part.replace(self.folder / "canal.json")


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that a server must not outlive, whoever started it."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it is still this process."""
        return start_time(self.pid) == self.started

    def to_json(self) -> dict[str, Any]:
        return {"pid": self.pid, "started": self.started}


def make_canal(folder: Path, settings: CanalSettings) -> CanalServer:
    """Write the files of a Canal server; it ends with the calling process at the latest."""
    server = CanalServer(folder, settings.destination)
    for place in (server.meta.parent, server.log.parent):
        place.mkdir(parents=True, exist_ok=True)
    _write(server.conf / "canal.properties", _server_properties(server, settings))
    _write(server.meta.with_name("instance.properties"), _instance_properties(settings))
    cursor: Literal["zookeeper", "file"] = "zookeeper" if settings.zookeeper else "file"
    xml = (FILES / "instance.xml").read_text().replace("@CURSOR@", _CURSORS[cursor])
    (server.conf / "instance.xml").write_text(xml)
    pid = os.getpid()
    server._note(None, Owner(pid, start_time(pid) or 0))  # noqa: SLF001
    return server


def _server_properties(server: CanalServer, settings: CanalSettings) -> dict[str, str]:
    where = {"canal.zkServers": settings.zookeeper} if settings.zookeeper else {}
    to = {"canal.serverMode": "kafka", "kafka.bootstrap.servers": settings.kafka, "kafka.acks": "all"}
    return {
        **(to if settings.kafka else {"canal.serverMode": "rabbitMQ"}),
        "canal.destinations": settings.destination,
        "canal.file.data.dir": str(server.conf),
        "canal.file.flush.period": "200",
        "canal.zookeeper.flush.period": "200",
        "canal.instance.tsdb.enable": "false",
        "canal.instance.parser.parallel": "false",
        "canal.mq.flatMessage": "true",
        "canal.mq.canalBatchSize": "50",
        "canal.mq.canalGetTimeout": "100",
        **where,
        **(settings.server or {}),
    }


def _instance_properties(settings: CanalSettings) -> dict[str, str]:
    file, position = settings.start
    return {
        "canal.instance.master.address": settings.mysql,
        "canal.instance.master.journal.name": file,
        "canal.instance.master.position": str(position),
        "canal.instance.dbUsername": settings.login.user,
        "canal.instance.dbPassword": settings.login.password,
        "canal.instance.gtidon": "false",
        "canal.mq.topic": settings.topic,
        **(settings.more or {}),
    }


def _jars() -> list[str]:
    return [str(jar) for jar in fetch.set_jars("canal") if not jar.name.startswith(_OTHER_LOGGING)]


def _write(path: Path, values: Mapping[str, str]) -> None:
    path.touch(mode=0o600)
    path.write_text(properties(values))


# ---- ZooKeeper ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ZooKeeperServer:
    """A running ZooKeeper at `address` (host:port)."""

    address: str
    child: Child


def start_zookeeper(folder: Path) -> ZooKeeperServer:
    """Start a ZooKeeper of one server and wait until its port is open."""
    port = free_port()
    (folder / "data").mkdir(parents=True)
    config = folder / "zoo.cfg"
    values = {
        "tickTime": "500",
        "dataDir": str(folder / "data"),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "admin.enableServer": "false",
    }
    config.write_text(properties(values))
    argv = [
        fetch.java(), *quick("64m"), "-cp", ":".join(_jars()),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config),
    ]  # fmt: skip
    child = spawn("zookeeper", argv, log=folder / "zookeeper.log", grace=5)
    address = f"{HOST}:{port}"
    wait_until(lambda: is_open(address) or None, timeout=START_TIMEOUT_S, what=f"ZooKeeper on {address}", child=child)
    return ZooKeeperServer(address, child)


# ---- a command of the user's -------------------------------------------------------------------


def main(words: list[str]) -> int:
    """start, stop or status of the server in a folder."""
    word, folder = words[0], Path(words[1])
    (conf,) = (folder / "conf").glob("*/instance.properties")
    server = CanalServer(folder, conf.parent.name)
    if word == "status":
        return 0 if server.alive else NOT_RUNNING
    try:
        {"start": server.start, "stop": server.stop}[word]()
    except StackError as error:
        print(error, log_tail(server.log), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
