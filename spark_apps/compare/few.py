"""The digest of a small table of the sink, computed in memory: planning a Spark job costs more than its rows.

The rows are read by another reader than wrote them, and hashed by the reference (decisions/compare/canonical.py), which no
engine's SQL shares code with.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from airflow_cdc.core.types import (
    Bits,
    Boolean,
    Bytes,
    Date,
    Decimal,
    Float,
    Geometry,
    Instant,
    Integer,
    LocalDateTime,
    Text,
    Time,
    Uuid,
)
from airflow_cdc.decisions.compare.canonical import hashed, outside_hash
from airflow_cdc.decisions.compare.leaves import IntegerLeaves, leaf_at, leaf_of, leaf_of_hashes
from airflow_cdc.spark_apps.canonical.arrow import images, key_texts, row_hashes

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table
    from airflow_cdc.core.types import LogicalType
    from airflow_cdc.decisions.compare.leaves import Leaf, LeafScheme
    from airflow_cdc.decisions.compare.verdict import Image

log = logging.getLogger("airflow_cdc.verify")

# More rows or bytes (in files) of a table than this are a matter for Spark.
FEW_ROWS: Final = 5_000
FEW_BYTES: Final = 8 << 20
# Unless all tables of a driver have no more rows together: it then needs no session, which costs five seconds of a processor,
# and a second more for each table's plans. In memory 100,000 rows of nine columns cost one.
FEW_IN_ALL: Final = 250_000
Answer = TypeVar("Answer")
# All rows of a pinned version, if they are few
FewRows = Callable[[], "pa.Table | None"]
# The same, if they are no more than so many
ReadRows = Callable[[int], "pa.Table | None"]
# What reading a table into memory can raise; Spark then reads it, and says what is wrong with its rows.
UNREADABLE: Final = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    NotImplementedError,
    OSError,
    pa.ArrowException,
)
# Types of which a value in memory is the one in the sink.
_EXACT: Final[tuple[type[LogicalType], ...]] = (
    Bits,
    Boolean,
    Bytes,
    Date,
    Decimal,
    Float,
    Geometry,
    Instant,
    Integer,
    LocalDateTime,
    Text,
    Time,
    Uuid,
)


@dataclass(frozen=True, slots=True)
class Counted:
    """What the rows of a table were: their schema, their number, and how many are NULL in each column."""

    schema: pa.Schema
    rows: int
    nulls: Mapping[str, int]

    @classmethod
    def of(cls, rows: pa.Table) -> Counted:
        """Count the rows."""
        return cls(rows.schema, rows.num_rows, {name: rows[name].null_count for name in rows.column_names})


@dataclass(slots=True)
class Counting:
    """Reads the rows of a pinned version, and remembers their counts: what asks for these alone reads nothing again."""

    read: ReadRows
    most_rows: int = FEW_ROWS
    counted: Counted | None = None

    def __call__(self) -> pa.Table | None:
        """All rows, if they are few."""
        rows = self.read(self.most_rows)
        self.counted = None if rows is None else Counted.of(rows)
        return rows


def most_rows(tables: Iterable[int]) -> int:
    """How many rows of a table are few, for a driver whose tables have so many rows each."""
    return FEW_IN_ALL if sum(tables) <= FEW_IN_ALL else FEW_ROWS


def leaves(table: Table, scheme: LeafScheme, read: FewRows) -> dict[int, Leaf] | None:
    """The digest of every leaf; None if it is left to Spark, which also says what is wrong with the rows."""
    return _in_memory(table, read, lambda rows: _digests(table, scheme, rows), "digested")


def sink_images(table: Table, keys: Collection[str], read: FewRows) -> dict[str, list[Image]] | None:
    """Key text → the rows under it, as SinkView.images; None if that is left to Spark."""
    return _in_memory(table, read, lambda rows: _under(table, keys, rows), "looked up")


def _under(table: Table, keys: Collection[str], rows: pa.Table) -> dict[str, list[Image]]:
    texts = row_hashes(table, rows) if table.keyless else key_texts(table, rows)
    indices = [at for at, text in enumerate(texts) if text in keys]
    rows_of: dict[str, list[Image]] = defaultdict(list)
    for at, image in zip(indices, images(table, rows.take(pa.array(indices, pa.int64()))), strict=True):
        rows_of[texts[at]].append(image)
    return dict(rows_of)


def differing_outside(table: Table, source: pa.Table, read: FewRows) -> frozenset[str] | None:
    """Keys of the rows whose columns outside the hash differ; None if that is left to Spark."""

    def differing(sink: pa.Table) -> frozenset[str]:
        return frozenset(key for key, *_ in _outside(table, source) ^ _outside(table, sink))

    return _in_memory(table, read, differing, "compared")


def _outside(table: Table, rows: pa.Table) -> set[tuple[str, ...]]:
    """Each row's key, which copy of such a row it is, and its columns outside the hash."""
    copies = Counter[tuple[str, ...]]()
    texts = zip(key_texts(table, rows), *(rows[name].to_pylist() for name in outside_hash(table)), strict=True)
    for row in texts:
        copies[row] += 1
    return {(key, str(count), *others) for (key, *others), count in copies.items()}


def _in_memory(table: Table, read: FewRows, use: Callable[[pa.Table], Answer], what: str) -> Answer | None:
    """What `use` makes of the rows; None if they are many, or if one of them is left to Spark, which the log says."""
    if not all(isinstance(column.value_type, _EXACT) for column in (*hashed(table), *table.key_columns)):
        return None
    try:
        rows = read()
        return None if rows is None else use(rows)
    except UNREADABLE as error:
        log.info("%s: %s by Spark: %r", table.full_name, what, error)
        return None


def _digests(table: Table, scheme: LeafScheme, rows: pa.Table) -> dict[int, Leaf]:
    """Column by column: to look a column's type up for each of its values takes longer than to write them."""
    hashes = row_hashes(table, rows)
    leaves = defaultdict[int, list[str]](list)
    for leaf, h in zip(_leaf_numbers(table, scheme, rows, hashes), hashes, strict=True):
        leaves[leaf].append(h)
    return {leaf: leaf_of_hashes(own) for leaf, own in leaves.items()}


def _leaf_numbers(table: Table, scheme: LeafScheme, rows: pa.Table, hashes: Sequence[str]) -> Iterable[int]:
    """The leaf of each row."""
    if isinstance(scheme, IntegerLeaves):
        return (leaf_at(scheme.width, int(number)) for number in rows[scheme.column].to_pylist())
    if table.keyless:
        return (leaf_of(table, scheme, h) for h in hashes)
    return (leaf_of(table, scheme, text) for text in key_texts(table, rows))
