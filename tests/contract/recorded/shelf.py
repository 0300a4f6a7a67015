"""Where the tapes are kept: one file for each file of tests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from stack.mysql import MySqlServer
from stack.postgres import PostgresServer
from tests.contract.recorded.tape import Talk

# bytes of one test: a longer one is asked of real servers alone
LIMIT: Final = 40_000
TAPES: Final = Path(__file__).parent / "tapes"
Server = MySqlServer | PostgresServer


@dataclass(slots=True)
class Take:
    """What one test and its servers said: server → connections, in the order in which they were opened."""

    talks: dict[str, list[Talk]] = field(default_factory=dict)

    def talks_with(self, server: str) -> list[Talk]:
        """The connections to a server of this name, to be played or to be added to."""
        return self.talks.setdefault(server, [])

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(len(data) for talks in self.talks.values() for talk in talks for _, data in talk.turns)

    def to_json(self) -> dict[str, list[list[str]]]:
        return {name: [talk.to_json() for talk in talks] for name, talks in self.talks.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, list[list[str]]]) -> Take:
        return cls({name: [Talk.from_json(one) for one in talks] for name, talks in value.items()})


@dataclass(eq=False, slots=True)
class Shelf:
    """The tapes of one file of tests.

    Attributes:
        servers: the recorded servers, with their versions and the passwords of their users.
        takes: test → what was said.
    """

    all: ClassVar[dict[Path, Shelf]] = {}

    path: Path
    servers: dict[str, Server] = field(default_factory=dict)
    takes: dict[str, Take] = field(default_factory=dict)

    @classmethod
    def of(cls, tests: Path) -> Shelf:
        """The tapes of a file of tests; none, if it was never recorded."""
        path = TAPES / f"{tests.stem.removeprefix('test_')}.json.gz"
        if path not in cls.all:
            cls.all[path] = cls._read(path)
        return cls.all[path]

    @classmethod
    def _read(cls, path: Path) -> Shelf:
        if not path.exists():
            return cls(path)
        content = json.loads(gzip.decompress(path.read_bytes()))
        servers = {name: _server(value) for name, value in content["servers"].items()}
        return cls(path, servers, {name: Take.from_json(value) for name, value in content["takes"].items()})

    def write(self) -> None:
        """Keep it: the same bytes for the same tapes."""
        content = {
            "servers": {name: _neutral(server.to_json()) for name, server in sorted(self.servers.items())},
            "takes": {name: take.to_json() for name, take in sorted(self.takes.items()) if take.size <= LIMIT},
        }
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))

    @classmethod
    def write_all(cls) -> None:
        for shelf in cls.all.values():
            shelf.write()


def _neutral(server: dict[str, Any]) -> dict[str, Any]:
    """Without the places of the machine on which it was recorded."""
    return {**server, "folder": "", "child": {**server["child"], "log": "", "pid": -1, "started": -1}}


def _server(value: Mapping[str, Any]) -> Server:
    return MySqlServer.from_json(value) if "auth_plugin" in value else PostgresServer.from_json(value)
