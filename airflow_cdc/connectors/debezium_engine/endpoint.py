"""Where the files, the offsets and the commands of Debezium's engine are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.core.endpoint import CallLimits


@dataclass(frozen=True, slots=True)
class EngineEndpoint:
    """An engine, as seen from where this runs.

    Attributes:
        machine: where it runs, for messages; "": not said.
        database: of its offsets; None: they are in a file.
        config: its properties file.
        offsets_file: the file of its offsets; "": as `config` says.
        log: its log; "": it cannot be read from here.
        start, stop, status: commands, as lists of words.
        environment: names of variables that the commands get beside the usual ones, or NAME=value.
        timeout: how long `status` may take to answer, in seconds.
    """

    machine: str = ""
    database: SqlEndpoint | None = None
    config: str = ""
    offsets_file: str = ""
    log: str = ""
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    timeout: float = 30.0

    def __post_init__(self) -> None:
        for name in ("start", "stop", "status", "environment"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        database: object = self.database
        if isinstance(database, dict):  # read from JSON
            object.__setattr__(self, "database", SqlEndpoint(**database))

    @property
    def where(self) -> str:
        """How messages name the engine."""
        if self.database is not None:
            return f"Debezium's engine with its offsets in {self.database.where}"
        return f"Debezium's engine at {self.machine}"

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return replace(self, timeout=min(self.timeout, limits.answer))
