"""Debezium MySQL and Iceberg's own Kafka Connect sink, which only appends: the log was purged, and what is left of the
change logs is put right through the topics.

What is left is found by a fold of the test's own over what PyIceberg reads, and each column is compared as text that
MySQL makes of it in SQL and the test of the value that stands in the log.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow_cdc.flows.run import Run
from stack import versions
from tests.integration.changelog.logged import Logged, run_of, started
from tests.systems.case import Case, Differences, differences
from tests.systems.debezium_hudi import PURGED
from tests.systems.debezium_jdbc import TABLES, DebeziumJdbc, Kind, document, exact, same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - DATETIME has no zone
KEYS: Final[Mapping[str, tuple[str, ...]]] = {"kinds": ("id",), "words": ("lang", "n")}


def scaled(scale: int, value: Any) -> str:
    """A decimal: as one, or as the bytes of its digits in base64."""
    if not isinstance(value, str):
        return f"{value:f}"
    number = int.from_bytes(base64.b64decode(value), "big", signed=True)
    digits = f"{abs(number):0{scale + 1}d}"
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def single(value: Any) -> str:
    """A number of 32 bits, which JSON writes in the fewest digits that tell it from others."""
    return repr(struct.unpack("<f", struct.pack("<f", value))[0])


def hexed(value: Any) -> str:
    """Bytes, or their base64."""
    return (base64.b64decode(value) if isinstance(value, str) else value).hex().upper()


def day(value: Any) -> str:
    return (date(1970, 1, 1) + timedelta(days=value)).isoformat()


def clock(value: Any) -> str:
    """Microseconds of a day."""
    return (EPOCH + timedelta(microseconds=value)).strftime("%H:%M:%S.%f")


def moment(value: Any) -> str:
    """Microseconds since the epoch."""
    return (EPOCH + timedelta(microseconds=value)).strftime("%Y-%m-%dT%H:%M:%S.%f")


def zoned(value: Any) -> str:
    """A time in UTC as text, without the zeros at the end of its fraction."""
    whole, _, fraction = value.removesuffix("Z").partition(".")
    return f"{whole}.{fraction:0<6}"


def flag(value: Any) -> str:
    return str(int(value))


# column → the text of its value in a log; the others are the same as they are
TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "id": partial(scaled, 0),
    "big": partial(scaled, 0),
    "money": partial(scaled, 2),
    "wide": partial(scaled, 10),
    "f": single,
    "d": exact,
    "bin": hexed,
    "b": hexed,
    "day": day,
    "clock": clock,
    "at": moment,
    "seen": zoned,
    "doc": document,
    "flag": flag,
}


@dataclass(slots=True)
class DebeziumChangelog(DebeziumJdbc):
    """The tables of the rows for Debezium's JDBC sink, and the logs of their changes."""

    @property
    def logged(self) -> Logged:
        """The path, as it is."""
        if not isinstance(self.fed, Logged):
            raise TypeError("another path")
        return self.fed

    @property
    def run(self) -> Run:
        """The pipeline's run."""
        return run_of(self.logged, self.folder, TABLES, approval="never", max_deletes="100%")

    def wait_first_rows(self) -> None:
        """See DebeziumJdbc."""
        self.logged.wait_left("kinds", KEYS["kinds"], 2000)
        self.logged.wait_left("words", KEYS["words"], 500)

    def _compared(self, table: str, kinds: Mapping[str, Kind], key: int) -> Differences:
        source = ", ".join(kind.source.replace("{c}", name) for name, kind in kinds.items())
        ours = [
            tuple(None if value is None else kind.text(value) for kind, value in zip(kinds.values(), row, strict=True))
            for row in self.fed.execute(f"SELECT {source} FROM {table}")
        ]
        theirs = [
            tuple(None if row.get(name) is None else TEXTS.get(name, same)(row[name]) for name in kinds)
            for row in self.logged.left(table, KEYS[table])
        ]
        return differences(ours, theirs, key)


@contextmanager
def opened(folder: Path, spark: SparkSession, lake: Lake, *, flat: bool) -> Iterator[DebeziumChangelog]:
    """Servers of its own, with a worker that has Debezium's connector and Iceberg's sink."""
    with started(folder) as servers:
        logged = Logged(servers, lake=lake, flat=flat)
        about = f"MySQL {servers.mysql.version}, Debezium {versions.DEBEZIUM}, Iceberg's Kafka Connect sink {versions.ICEBERG}"
        try:
            yield DebeziumChangelog(logged, spark, folder, about)
        finally:
            logged.close()


CASES: Final = (
    Case("Debezium MySQL and Iceberg's sink, flat changes", PURGED, partial(opened, flat=True)),
    Case("Debezium MySQL and Iceberg's sink, changes as sent", PURGED, partial(opened, flat=False)),
)
