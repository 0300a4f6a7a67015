"""The rooms whose code is changed, and what share of the changes their tests have to notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.paths import ROOT


@dataclass(frozen=True, slots=True)
class Room:
    """Some folders or files of the code. `goal`: the share of its changes that the fast tests must notice."""

    name: str
    paths: tuple[str, ...]
    goal: float = 0.95

    def files(self) -> Iterator[str]:
        """Its Python files, relative to the repository."""
        for path in self.paths:
            found = sorted((ROOT / path).rglob("*.py")) if (ROOT / path).is_dir() else [ROOT / path]
            yield from (file.relative_to(ROOT).as_posix() for file in found)


ROOMS: Final = (
    Room("core", ("airflow_cdc/core",)),
    Room("decisions", ("airflow_cdc/decisions",)),
    Room("control", ("airflow_cdc/control",)),
    Room("flows", ("airflow_cdc/flows",)),
    Room("sinks", ("airflow_cdc/sinks",)),
    Room("events", ("airflow_cdc/events",)),
    Room("debezium", ("airflow_cdc/connectors/debezium",)),
    Room("canal", ("airflow_cdc/connectors/canal",)),
    Room("flink", ("airflow_cdc/connectors/flink",)),
    Room("connect", ("airflow_cdc/connectors/kafka_connect", "airflow_cdc/connectors/debezium_engine")),
    Room("mysql", ("airflow_cdc/sources/mysql",)),
    Room("mariadb", ("airflow_cdc/sources/mariadb",)),
    Room("postgres", ("airflow_cdc/sources/postgres",)),
    Room("apply", ("spark_apps/apply", "spark_apps/events.py"), 0.85),
    Room("compare", ("spark_apps/compare",), 0.85),
)


def room_of(file: str) -> Room:
    """The room that a file stands in. Raises KeyError for a file outside of all rooms."""
    for room in ROOMS:
        if any(file == path or Path(path) in Path(file).parents for path in room.paths):
            return room
    raise KeyError(f"{file} is in none of the rooms of tests/mutants/rooms.py")
