"""What one apply refused, table by table, heard from its log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow_cdc.core.errors import CdcError
from airflow_cdc.spark_apps.apply_changes import IS_REREAD
from airflow_cdc.spark_apps.stages.waiting import UNRESOLVED


@dataclass(slots=True)
class Refusals(logging.Handler):
    """Which tables an apply stopped and did not read again, and why, from its log: its error holds only the first of them.

    `letters`: tables that were applied but for so many dead letters.
    """

    by_table: dict[str, CdcError] = field(default_factory=dict)
    letters: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        logging.Handler.__init__(self)

    __hash__ = logging.Handler.__hash__

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        if record.msg == UNRESOLVED and isinstance(arguments[1], int):
            self.letters[str(arguments[0])] = arguments[1]
        if len(arguments) != 2 or not isinstance(arguments[1], CdcError):
            return
        if record.msg == IS_REREAD:
            self.by_table.pop(str(arguments[0]), None)
        else:
            self.by_table[str(arguments[0])] = arguments[1]

    @contextmanager
    def listening(self) -> Iterator[None]:
        log = logging.getLogger("airflow_cdc.apply_changes")
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)
