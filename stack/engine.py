"""Debezium's engine without Kafka Connect, writing to Kafka: what Debezium Server is inside.

Debezium Server is in no Maven repository, so a few lines of our own (`engine_files/EngineMain.java`) start the engine and
hand its events to a producer; the engine, its connector and the stores of its offsets are Debezium's and Kafka's.

    python -m stack.engine start|stop|status FOLDER

is how a command of a user would start and stop it: `status` ends with 0 while it runs and with 3 when it does not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stack import fetch
from stack.errors import StackError, log_tail
from stack.kafka import java_command, properties, quick, write_log_config
from stack.process import Child, end, spawn, start_time, wait_until

MAIN: Final = Path(__file__).with_name("engine_files") / "EngineMain.java"
HEAP: Final = "256m"
START_TIMEOUT_S: Final = 120.0
NOT_RUNNING: Final = 3  # what `status` of a service ends with
_SETS: Final = ("kafka", "debezium-engine")


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine in its folder: application.properties, engine.log, and engine.json, which says what runs.

    `connector`: the set of jars with its connector. `more`: sets with a driver of the database of its offsets.
    """

    folder: Path

    @property
    def config(self) -> Path:
        """Its settings, as Debezium Server names them."""
        return self.folder / "application.properties"

    @property
    def log(self) -> Path:
        """What it logs."""
        return self.folder / "engine.log"

    @property
    def offsets(self) -> Path:
        """Its offsets, if they are in a file."""
        return self.folder / "offsets.dat"

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        child = self._child
        return child is not None and child.alive

    def commands(self) -> dict[str, str]:
        """Word → the command that does it."""
        words = ("start", "stop", "status")
        return {word: f"{sys.executable} -m stack.engine {word} {self.folder}" for word in words}

    def start(self) -> None:
        """Start it unless it runs, and wait until the engine has begun."""
        if self.alive:
            return
        written = self._written()
        owner = (written["owner"], written["since"])
        jars = [fetch.classpath(name) for name in (*_SETS, *written["sets"])]
        argv = java_command(
            (*quick(HEAP), "-Duser.timezone=UTC"),
            write_log_config(self.folder),
            os.pathsep.join(jars),
            str(MAIN),
            str(self.config),
        )
        size = self.log.stat().st_size if self.log.exists() else 0
        lives = start_time(owner[0]) == owner[1]
        child = spawn("engine", argv, log=self.log, owner=owner[0] if lives else None)
        self._note({**written, "child": child.to_json()})
        wait_until(
            lambda: "Engine state has changed" in self.log.read_text()[size:] or None,
            timeout=START_TIMEOUT_S,
            what="Debezium's engine to start",
            child=child,
        )

    def stop(self) -> None:
        """End it and wait until it is gone; it stores its offset first."""
        if (child := self._child) is not None:
            end(child)

    @property
    def _child(self) -> Child | None:
        value = self._written()["child"]
        return Child.from_json(value) if value else None

    def _written(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.folder / "engine.json").read_text())
        return value

    def _note(self, value: Mapping[str, object]) -> None:
        part = self.folder / "engine.part"
        part.write_text(json.dumps(value))
        part.replace(self.folder / "engine.json")


def make_engine(folder: Path, config: Mapping[str, str], kafka: str, *, sets: tuple[str, ...]) -> Engine:
    """Write the files of an engine with the settings `config` (without a prefix); it ends with the calling process.

    `sets`: of jars: its connector, and the driver of the database of its offsets.
    """
    folder.mkdir(parents=True, exist_ok=True)
    engine = Engine(folder)
    sink = {
        "debezium.sink.type": "kafka",
        "debezium.sink.kafka.producer.bootstrap.servers": kafka,
        "debezium.format.key.schemas.enable": "false",
        "debezium.format.value.schemas.enable": "false",
    }
    engine.config.touch(mode=0o600)
    engine.config.write_text(properties({**sink, **{f"debezium.source.{key}": value for key, value in config.items()}}))
    pid = os.getpid()
    engine._note({"child": None, "sets": list(sets), "owner": pid, "since": start_time(pid) or 0})  # noqa: SLF001
    return engine


# ---- a command of the user's -------------------------------------------------------------------


def main(words: list[str]) -> int:
    """start, stop or status of the engine in a folder."""
    word, engine = words[0], Engine(Path(words[1]))
    if word == "status":
        return 0 if engine.alive else NOT_RUNNING
    try:
        {"start": engine.start, "stop": engine.stop}[word]()
    except StackError as error:
        print(error, log_tail(engine.log), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
