"""The digest of a small table of the sink, computed in memory: planning a Spark job costs more than its rows.

The rows are read by another reader than wrote them, and hashed by the reference (decisions/compare/canonical.py), which no
engine's SQL shares code with.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
from airflow_cdc.decisions.compare.canonical import SEPARATOR, hashed, in_key, outside_hash, text_of
from airflow_cdc.decisions.compare.leaves import IntegerLeaves, leaf_at, leaf_of, leaf_of_hashes

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table
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
_AT_ONCE: Final = 20_000  # rows whose values are Python's at a time
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
    texts = _hashes(table, rows) if table.keyless else key_texts(table, rows)
    wanted = [at for at, text in enumerate(texts) if text in keys]
    found: dict[str, list[Image]] = defaultdict(list)
    for at, image in zip(wanted, images(table, rows.take(pa.array(wanted, pa.int64()))), strict=True):
        found[texts[at]].append(image)
    return dict(found)


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


def key_texts(table: Table, rows: pa.Table) -> list[str]:
    """The key of each row, as the comparison writes it."""
    return [text.decode() for text in _texts(rows, table.key_columns, in_key)]


def images(table: Table, rows: pa.Table) -> list[Image]:
    """The hash of each row, and its columns outside the hash."""
    return list(zip(_hashes(table, rows), *(rows[name].to_pylist() for name in outside_hash(table)), strict=True))


def _hashes(table: Table, rows: pa.Table) -> list[str]:
    parts = (rows.slice(at, _AT_ONCE) for at in range(0, rows.num_rows, _AT_ONCE))
    return [hashlib.sha256(text).hexdigest() for part in parts for text in _texts(part, hashed(table))]


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
    hashes = _hashes(table, rows)
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


def _texts(
    rows: pa.Table, columns: Sequence[Column], as_written: Callable[[LogicalType], LogicalType] = lambda kind: kind
) -> Iterable[bytes]:
    """The text of each row over these columns."""
    texts = []
    for column in columns:
        write, values = text_of(as_written(column.value_type)), rows[column.name].to_pylist()
        plain = map(_plain, values) if isinstance(column.value_type, Float | Geometry) else values
        texts.append([write(value) for value in plain])
    return map(SEPARATOR.join, zip(*texts, strict=True))


def _plain(value: Any) -> object:
    """A value as the reference takes it. Raises ValueError for NaN, of which there are many."""
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("NaN")
    return (value["srid"], value["wkb"]) if isinstance(value, Mapping) else value
