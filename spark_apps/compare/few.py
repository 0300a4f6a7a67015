"""The digest of a small table of the sink, computed in memory: planning a Spark job costs more than its rows.

The rows are read by another reader than wrote them, and hashed by the reference (decisions/compare/canonical.py), which no
engine's SQL shares code with.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

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
from airflow_cdc.decisions.compare.canonical import hashed, key_text, row_hash
from airflow_cdc.decisions.compare.leaves import Leaf, add_leaves, leaf_of, row_leaf

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table
    from airflow_cdc.core.types import LogicalType
    from airflow_cdc.decisions.compare.leaves import LeafScheme

log = logging.getLogger("airflow_cdc.verify")

# More rows or bytes (in files) than this are a matter for Spark.
FEW_ROWS: Final = 5_000
FEW_BYTES: Final = 8 << 20
# All rows of a pinned version, if they are few
FewRows = Callable[[], "pa.Table | None"]
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


def leaves(table: Table, scheme: LeafScheme, read: FewRows) -> dict[int, Leaf] | None:
    """The digest of every leaf; None if it is left to Spark, which also says what is wrong with the rows."""
    if not all(isinstance(column.value_type, _EXACT) for column in (*hashed(table), *table.key_columns)):
        return None
    digests = dict[int, Leaf]()
    names = [column.name for column in table.mirrored if column in hashed(table) or column in table.key_columns]
    try:
        rows = read()
        if rows is None:
            return None
        for row in rows.select(names).to_pylist():
            values = {name: _plain(value) for name, value in row.items()}
            leaf, digest = leaf_of(table, scheme, key_text(table, values)), row_leaf(row_hash(table, values))
            digests[leaf] = add_leaves(digests.get(leaf, Leaf(0, 0, 0)), digest)
    except UNREADABLE as error:
        log.info("%s: digested by Spark: %r", table.full_name, error)
        return None
    return digests


def _plain(value: Any) -> object:
    """A value as the reference takes it. Raises ValueError for NaN, of which there are many."""
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("NaN")
    return (value["srid"], value["wkb"]) if isinstance(value, Mapping) else value
