"""A place in the log: a file's number, and how many of its lines were read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_cdc.core.errors import PositionError
from airflow_cdc.core.position import JsonObject, Position


@dataclass(frozen=True, slots=True, order=True)
class JsonLogPosition:
    """Behind `line` lines of the file `file`."""

    file: int
    line: int

    kind: ClassVar[str] = "jsonlog"

    def __post_init__(self) -> None:
        for number in (self.file, self.line):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise PositionError(f"{number!r} is not a place in a JSON log")

    def covers(self, other: Position) -> bool | None:
        """By file and line; nothing is said of another kind's positions."""
        return other <= self if isinstance(other, JsonLogPosition) else None

    def __str__(self) -> str:
        return f"{self.file:06}:{self.line}"

    def to_json(self) -> dict[str, Any]:
        """{"kind": "jsonlog", "file": 4, "line": 17}."""
        return {"kind": self.kind, "file": self.file, "line": self.line}


def read_position(value: JsonObject) -> JsonLogPosition:
    """The inverse of to_json(). Raises PositionError."""
    try:
        return JsonLogPosition(value["file"], value["line"])  # type: ignore[arg-type]  # checked there
    except KeyError as error:
        raise PositionError(f"position of a JSON log has no {error}") from error
