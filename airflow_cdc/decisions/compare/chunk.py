"""Key ranges of a table, and the values of a key."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# What a key value may be. Dates and times are text, so that JSON keeps them.
KeyValue = int | str | bytes | float | Decimal
Key = tuple[KeyValue, ...]

FEWEST_ROWS, MOST_ROWS = 50_000, 200_000
CHUNK_BYTES = 64 << 20
FETCH_ROWS, FETCH_BYTES = 10_000, 16 << 20
# of a table with fewer rows, the pages that it has say nothing of a row
TELLING_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class TableSize:
    """The server's own estimate of a table: its rows, and the bytes that all of them take (0: not known)."""

    rows: int = 0
    total_bytes: int = 0

    @property
    def row_bytes(self) -> int:
        """About what a row takes; 1 if that is not known."""
        return max(1, self.total_bytes // max(1, self.rows))

    def fetched_rows(self) -> int:
        """How many rows to ask a server for at once: a driver holds all of them.

        Worked case: 10,000 rows with a document of 1 MB each are 10 GB, and the driver's heap is a tenth of it.
        """
        return max(1, min(FETCH_ROWS, FETCH_BYTES // self.row_bytes))

    @property
    def divided(self) -> bool:
        """Whether how many rows a task reads depends on how many tasks run at a time."""
        return self.rows > 2 * FEWEST_ROWS

    def chunk_rows(self, at_once: int) -> int:
        """How many rows one task reads, and writes to one file, where `at_once` tasks run at a time.

        A file of 50,000 narrow rows never gives up its dictionaries, which cost Parquet's writer more than they save:
        200,000 are better, if that leaves each task two chunks. Wide rows are fewer.
        """
        fair = max(FEWEST_ROWS, self.rows // (2 * max(1, at_once)))
        by_bytes = CHUNK_BYTES // self.row_bytes if self.rows >= TELLING_ROWS else MOST_ROWS
        return max(TELLING_ROWS, min(MOST_ROWS, fair, by_bytes))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Keys from `lo` (exclusive) to `hi` (inclusive); None is an open end."""

    lo: Key | None = None
    hi: Key | None = None

    def __post_init__(self) -> None:
        for end in ("lo", "hi"):
            value = getattr(self, end)
            object.__setattr__(self, end, None if value is None else tuple(value))

    def to_json(self) -> dict[str, object]:
        """Plain JSON; bytes and decimals are tagged, so that `from_json` gives equal values back."""
        return {"lo": key_to_json(self.lo), "hi": key_to_json(self.hi)}

    @classmethod
    def from_json(cls, data: Mapping[str, Sequence[object] | None]) -> Chunk:
        """The inverse of `to_json`."""
        return cls(key_from_json(data["lo"]), key_from_json(data["hi"]))


def batches(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """`items` in runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def key_to_json(key: Key | None) -> list[object] | None:
    """A key as JSON values: `{"hex": …}` for bytes, `{"decimal": …}` for decimals, the rest as is."""
    return None if key is None else [_value_to_json(v) for v in key]


def key_from_json(values: Sequence[object] | None) -> Key | None:
    """The inverse of `key_to_json`."""
    return None if values is None else tuple(_value_from_json(v) for v in values)


def _value_to_json(value: KeyValue) -> object:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return {"decimal": format(value, "f")} if isinstance(value, Decimal) else value


def _value_from_json(value: object) -> KeyValue:
    if isinstance(value, dict) and "hex" in value:
        return bytes.fromhex(value["hex"])
    if isinstance(value, dict) and "decimal" in value:
        return Decimal(value["decimal"])
    if isinstance(value, int | str | float) and not isinstance(value, bool):
        return value
    raise SchemaError(f"{value!r} is not a key value")
