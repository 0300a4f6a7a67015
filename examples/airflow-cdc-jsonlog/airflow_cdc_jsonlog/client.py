"""The folder, as a source: where its log ends, and whether a place is still in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Self

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import PositionError, SourceError
from airflow_cdc.core.position import Availability, Available, Position, Watermark
from airflow_cdc_jsonlog.position import JsonLogPosition


@dataclass(frozen=True, slots=True)
class JsonLogEndpoint:
    """A folder of log files."""

    folder: str

    @property
    def where(self) -> str:
        """How messages name the folder."""
        return f"JSON log {self.folder}"

    @property
    def dataset(self) -> str:
        """OpenLineage's namespace of its tables."""
        return f"file://{self.folder}"

    def limited(self, _: CallLimits) -> Self:
        """Itself: reading a folder is not a call that hangs."""
        return self


class JsonLogSource:
    """A folder of log files that a pipeline reads from."""

    def __init__(self, endpoint: JsonLogEndpoint) -> None:
        self.endpoint = endpoint

    @property
    def where(self) -> str:
        """How messages name the folder."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits))

    def availability(self, position: Position) -> Available:
        """Whether a reader at `position` would still find every change since. Raises SourceError."""
        if not isinstance(position, JsonLogPosition):
            raise PositionError(f"{position} is a position of a {position.kind} source, not of a JSON log")
        files = self._files()
        if position.file in files:
            lines = len(files[position.file].read_text().splitlines())
            reached = position.line <= lines
            why = f"file {position.file} has {lines} lines"
            return Available(Availability.AVAILABLE if reached else Availability.NOT_YET, why)
        state = Availability.LOST if position.file < max(files) else Availability.NOT_YET
        return Available(state, f"the files are {min(files)} to {max(files)}")

    def watermark(self) -> Watermark:
        """Refused: nothing reads the tables behind this log. Raises SourceError."""
        self._no_recovery()

    def position(self) -> Watermark:
        """Refused, as watermark(). Raises SourceError."""
        self._no_recovery()

    def _no_recovery(self) -> NoReturn:
        raise SourceError("a JSON log has no tables to read a snapshot from", where=self.where)

    def _files(self) -> dict[int, Path]:
        """The log files by number. Raises SourceError for a folder that is not there, or holds none."""
        try:
            found = {int(path.suffix[1:]): path for path in Path(self.endpoint.folder).iterdir() if _is_log(path)}
        except OSError as error:
            raise SourceError(f"the log cannot be read: {error.strerror}", where=self.where) from error
        if not found:
            raise SourceError("there is no log file", where=self.where)
        return found


def _is_log(path: Path) -> bool:
    return path.suffix[1:].isdigit()
