"""What a row of `make systems` is made of, and what it comes to.

A system is one module with a `CASE`, named in `__main__.CASES`. It says how the system is set up, how it fails in its own
way, and how its rows are compared with the sink's by SQL and an idea of each type that are the test's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stack.errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

Row = tuple[str | None, ...]


class Differences(NamedTuple):
    """Rows of all tables that are not alike: only in the source, only in the sink, under one key and different."""

    missing: int = 0
    ghosts: int = 0
    different: int = 0

    def __add__(self, other: object) -> Differences:
        if not isinstance(other, Differences):
            return NotImplemented
        return Differences(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def differences(source: Sequence[Row], sink: Sequence[Row], key: int) -> Differences:
    """Compare rows whose first `key` values tell them apart; without a key (0) they are counted."""
    left = Counter(source) - Counter(sink)
    right = Counter(sink) - Counter(source)
    if not key:
        return Differences(left.total(), right.total(), 0)
    both = {row[:key] for row in left} & {row[:key] for row in right}
    missing = sum(n for row, n in left.items() if row[:key] not in both)
    ghosts = sum(n for row, n in right.items() if row[:key] not in both)
    return Differences(missing, ghosts, len(both))


# what a comparison has to find after System.spoil, or it finds nothing at all
SPOILT = Differences(1, 1, 1)


class Recovered(NamedTuple):
    """What a recovery said: the problem it found, and the verdict of its own check."""

    problem: str
    verdict: str


class System(Protocol):
    """One pipeline of the system, on real servers."""

    version: str

    def fill(self) -> None:
        """Rows in the source, the connector streaming them, and their mirror."""
        ...

    def fail(self) -> str:
        """Lose the connector's position in the system's own way, with inserts, updates and deletes in the gap.

        Returns the text by which the system itself says so.
        """
        ...

    def writing(self) -> AbstractContextManager[Any]:
        """Inserts, updates and deletes meanwhile."""
        ...

    def recover(self) -> Recovered:
        """The steps of cdc_recovery."""
        ...

    def catch_up(self) -> None:
        """Apply everything that was written since."""
        ...

    def differences(self) -> Differences:
        """All rows of all tables, source against sink."""
        ...

    def spoil(self) -> None:
        """Make one row missing in the sink, one too much and one different, in the source alone: SPOILT."""
        ...


@dataclass(frozen=True, slots=True)
class Case:
    """A row: its name, what its failure is called, and how a pipeline of it is set up in a folder.

    `elsewhere`: with another Spark, in a process of its own. `needs`: raises UnavailableError where it cannot be run.
    """

    system: str
    failure: str
    opened: Callable[[Path, SparkSession, Lake], AbstractContextManager[System]]
    elsewhere: bool = False
    needs: Callable[[], object] = tuple

    @property
    def left_out(self) -> str:
        """Why the row cannot be run here; "" if it can."""
        try:
            self.needs()
        except UnavailableError as error:
            return str(error)
        return ""


@dataclass(frozen=True, slots=True)
class Result:
    """A row's outcome, as it stands in build/systems.json. `seconds`: of the recovery. `text`: the failure's own words."""

    system: str
    version: str
    failure: str
    text: str
    problem: str
    seconds: float
    missing: int
    ghosts: int
    different: int
    verdict: str

    @property
    def good(self) -> bool:
        """Whether the recovery says MATCH and the independent check agrees."""
        return self.verdict == "MATCH" and not (self.missing or self.ghosts or self.different)
