"""Whether a snapshot holds what its readers may rely on: its rows, its columns, no NULL where none may be, a unique key.

The comparison has already looked at every row; this states the result in terms that readers of the tables know. Great
Expectations says the same of the same facts on the page that it makes (reports/data_docs.py). It is not asked before
publishing: its import alone takes as much processor time as the comparison of a small table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

ROWS = "rows"
REPEATED = "rows whose key another row has"
MISSING = "none"

_TYPE_NAMES = {
    "int": "IntegerType",
    "bigint": "LongType",
    "decimal": "DecimalType",
    "double": "DoubleType",
    "boolean": "BooleanType",
    "string": "StringType",
    "binary": "BinaryType",
    "date": "DateType",
    "timestamp": "TimestampType",
    "timestamp_ntz": "TimestampNTZType",
    "array": "ArrayType",
    "struct": "StructType",
}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a snapshot of a sink table must hold.

    Attributes:
        name: "schema.table"; `snapshot_id`: the snapshot that is checked.
        columns: name → Spark SQL type, in order.
        not_null: columns in which NULL is an error (the key, and what the source declares NOT NULL).
        rows: rows of the source; `tolerance`: rows in flight during the comparison, by which the count may differ.
        key: columns that are unique together; empty for a table without a key.
        key_proven: whether equal digests already prove that the key is unique, so that it is not counted again.
        events: how many events were applied to a copy of the snapshot before it was checked; 0 if it was not copied.
    """

    name: str
    snapshot_id: int
    columns: Mapping[str, str]
    not_null: tuple[str, ...]
    rows: int
    tolerance: int = 0
    key: tuple[str, ...] = ()
    key_proven: bool = False
    events: int = 0

    @property
    def version(self) -> str:
        """What was checked, in words."""
        more = f" with the {self.events:,} events that wait for it" if self.events else ""
        return f"snapshot {self.snapshot_id}{more}"

    @property
    def least(self) -> int:
        """The fewest rows that the snapshot may have."""
        return max(0, self.rows - self.tolerance)

    @property
    def most(self) -> int:
        """The most rows that it may have."""
        return self.rows + self.tolerance


@dataclass(frozen=True, slots=True)
class StageFacts:
    """Counts and column types of a table.

    Attributes:
        rows: the row count; `types`: column → the name of its Spark type, in order.
        nulls: column → rows in which it is NULL; all rows if the column does not exist.
        repeated: rows that share their key with another row; 0 where no key was asked for.
    """

    rows: int
    types: Mapping[str, str]
    nulls: Mapping[str, int]
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """A snapshot's facts beside what they should be."""

    expected: Expected
    facts: StageFacts

    def of_main(self, snapshot_id: int | None, events: int) -> Counted:
        """The same, named by the snapshot of main that was copied: the copy is dropped after the comparison."""
        if snapshot_id is None:
            return self
        return replace(self, expected=replace(self.expected, snapshot_id=snapshot_id, events=events))


@dataclass(frozen=True, slots=True)
class Judged:
    """What is said of one table; `failures` are sentences, `checks` is the number of expectations about it."""

    name: str
    checks: int
    failures: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        """Whether the snapshot holds all of it."""
        return not self.failures


def judged(counted: Counted) -> Judged:
    """Each fact that is not as expected, in words."""
    expected, facts = counted.expected, counted.facts
    checks = 2 + bool(expected.not_null) + bool(expected.key)
    return Judged(expected.name, checks, tuple(_failures(expected, facts)))


def columns_beside(expected: Expected, facts: StageFacts) -> list[tuple[str, str]]:
    """Each column that the snapshot has beside the one that it should have, as "name type"; "none" where there is none."""
    wanted = [f"{name} {type_name(text)}" for name, text in expected.columns.items()]
    present = [f"{name} {kind}" for name, kind in facts.types.items()]
    return list(zip_longest(present, wanted, fillvalue=MISSING))


def type_name(text: str) -> str:
    """The name of a Spark SQL type, without its parameters. Not asked of Spark: 3.5 parses types in a session only."""
    return _TYPE_NAMES[re.split(r"[(<]", text, maxsplit=1)[0]]


def _failures(expected: Expected, facts: StageFacts) -> Iterator[str]:
    if not expected.least <= facts.rows <= expected.most:
        yield f"{ROWS}: {facts.rows}, expected {_between(expected.least, expected.most)}"
    beside = columns_beside(expected, facts)
    different = [number for number, (present, wanted) in enumerate(beside) if present != wanted]
    if different:  # those after the first are often only moved by it
        present, wanted = beside[different[0]]
        more = f", and {len(different) - 1} after it" if len(different) > 1 else ""
        yield f"column {different[0] + 1}: {present}, expected {wanted}{more}"
    for name in expected.columns:
        if nulls := facts.nulls.get(name, 0):
            yield f"NULLs in {name}: {nulls}, expected 0"
    if expected.key and facts.repeated:
        yield f"{REPEATED}: {facts.repeated}, expected 0"


def _between(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"
