"""Leaves of a table: one scan per side gives a count and two sums per leaf; only unequal leaves are looked into.

A leaf's digest is (n, lane1, lane2): the rows in it, and the sum over its rows of the first 64 bits of the row's hash,
as 32-bit digits: lane1 = sum div 2^32, lane2 = sum mod 2^32. MySQL sums the 64 bits at once, so that it computes each
hash once; Spark sums two halves as bigint, because its decimal sums cost more than the hash. Sums, not XOR: XOR of CRCs
misses the same change on an even number of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_cdc.core.chunk import quote_ident, quote_table
from airflow_cdc.core.encoding import (
    mysql_key_text,
    mysql_row_hash,
    not_pushed,
    spark_key_text,
    spark_lanes,
    spark_row_hash,
)
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import read_sql
from airflow_cdc.sources.mysql.key_text import key_predicate

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table

LEAF_ROWS = 50_000
LANE = 1 << 32


class Leaf(NamedTuple):
    """The digest of one leaf."""

    n: int
    lane1: int
    lane2: int


@dataclass(frozen=True, slots=True)
class IntegerLeaves:
    """Leaf = column DIV width (towards zero): ranges of an integer key, which both engines sort alike."""

    column: str
    width: int

    def __post_init__(self) -> None:
        if self.width < 2:  # with 1 a BIGINT UNSIGNED key would not fit Spark's bigint
            raise SchemaError(f"leaves of {self.width} ids", todo="Use a width of at least 2.")


@dataclass(frozen=True, slots=True)
class HashLeaves:
    """Leaf = CRC-32 of the key's text modulo n: for keys that the engines sort differently, and keyless tables."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SchemaError(f"{self.n} leaves", todo="Use at least 1.")


LeafScheme = IntegerLeaves | HashLeaves


def leads_with_integer(table: Table) -> bool:
    """Whether the table can have IntegerLeaves (over the first key column)."""
    return bool(table.key) and table.key_columns[0].is_integer


def bounds_sql(table: Table) -> str:
    """MySQL: (lo, hi) of the first key column from the ends of its index; NULLs for an empty table."""
    column = quote_ident(table.key_columns[0].name)
    return f"SELECT MIN({column}) AS lo, MAX({column}) AS hi FROM {quote_table(table)}"


def choose_scheme(
    table: Table, rows: int, bounds: tuple[int, int] | None = None, leaf_rows: int = LEAF_ROWS
) -> LeafScheme:
    """A scheme with about `rows / leaf_rows` leaves, never more, however the ids are spread.

    `bounds`: the smallest and greatest id of a table with IntegerLeaves (None: hash leaves). Rows beyond them still
    have a leaf, so nothing is missed.
    """
    count = max(1, -(-rows // leaf_rows))
    if bounds is None or not leads_with_integer(table):
        return HashLeaves(count)
    low, high = bounds
    return IntegerLeaves(table.key[0], max(2, -(-(high - low + 1) // count)))


def scheme_to_json(scheme: LeafScheme) -> dict[str, Any]:
    """The scheme as plain JSON."""
    if isinstance(scheme, IntegerLeaves):
        return {"column": scheme.column, "width": scheme.width}
    return {"n": scheme.n}


def scheme_from_json(data: Mapping[str, Any]) -> LeafScheme:
    """The inverse of `scheme_to_json`."""
    return IntegerLeaves(data["column"], int(data["width"])) if "column" in data else HashLeaves(int(data["n"]))


def mysql_leaf(scheme: LeafScheme, table: Table) -> str:
    """MySQL expression: the row's leaf."""
    if isinstance(scheme, IntegerLeaves):
        return f"CAST({quote_ident(scheme.column)} DIV {scheme.width} AS SIGNED)"
    return f"CAST(CRC32({mysql_key_text(table)}) % {scheme.n} AS SIGNED)"


def spark_leaf(scheme: LeafScheme, table: Table) -> str:
    """Spark expression: the row's leaf (bigint), the same as MySQL's."""
    if isinstance(scheme, IntegerLeaves):
        return f"({quote_ident(scheme.column)} div {scheme.width})"
    return f"(crc32({spark_key_text(table)}) % {scheme.n})"


def mysql_digest_sql(table: Table, scheme: LeafScheme, where: str = "") -> str:
    """MySQL: one scan → rows (leaf, n, lane1, lane2)."""
    number = f"CAST(CONV(SUBSTR({mysql_row_hash(table)}, 1, 16), 16, 10) AS UNSIGNED)"
    # grouped by its place: a name would be taken for a column of the table that has it
    sums = (
        f"SELECT {mysql_leaf(scheme, table)} AS leaf, COUNT(*) AS n, SUM({number}) AS total"
        f" FROM {quote_table(table)}{_where(where)} GROUP BY 1"
    )
    return (
        f"SELECT leaf, n, total DIV {LANE} AS lane1, CAST(total MOD {LANE} AS UNSIGNED) AS lane2 FROM ({sums}) AS sums"
    )


def spark_digest_sql(table: Table, scheme: LeafScheme, relation: str, where: str = "") -> str:
    """Spark: the same over `relation` (a table, a view, or `t VERSION AS OF n`, already quoted)."""
    first, second = spark_lanes("h")
    rows = f"SELECT {spark_leaf(scheme, table)} AS leaf, {spark_row_hash(table)} AS h FROM {relation}{_where(where)}"
    sums = f"SELECT leaf, COUNT(*) AS n, SUM({first}) AS hi, SUM({second}) AS lo FROM ({rows}) GROUP BY leaf"
    return f"SELECT leaf, n, hi + lo div {LANE}L AS lane1, lo % {LANE}L AS lane2 FROM ({sums})"


def mysql_rows_sql(table: Table, scheme: LeafScheme, leaves: Sequence[int], where: str = "") -> str:
    """MySQL: (key_text, h) of every row in these leaves; a keyless row's key_text is its hash."""
    inside = both(mysql_leaves_where(table, scheme, leaves), where)
    return f"SELECT {_mysql_row(table)} FROM {quote_table(table)} WHERE {inside}"


def spark_rows_sql(table: Table, scheme: LeafScheme, leaves: Sequence[int], relation: str, where: str = "") -> str:
    """Spark: the same over `relation`."""
    inside = both(spark_leaves_where(table, scheme, leaves), where)
    return f"SELECT {_spark_row(table)} FROM {relation} WHERE {inside}"


def both(condition: str, other: str) -> str:
    """Two conditions as one; an empty one is none."""
    return f"({condition}) AND ({other})" if condition and other else condition or other


def mysql_keys_sql(table: Table, keys: Iterable[str]) -> str:
    """MySQL: (key_text, h) of the rows with these key texts, found by the key's index (keyless: by a scan).

    Under a case-insensitive collation it may return other keys too: look at key_text.
    """
    row = _mysql_row(table)
    if table.keyless:
        hashes = ", ".join(f"'{h}'" for h in sorted({*keys}) if _checked_hash(h))
        where = f"{mysql_row_hash(table)} IN ({hashes})" if hashes else "FALSE"
    else:
        where = key_predicate(table, keys)
    return f"SELECT {row} FROM {quote_table(table)} WHERE {where}"


def spark_keys_sql(table: Table, keys_relation: str, relation: str) -> str:
    """Spark: (key_text, h) of the rows of `relation` whose key text stands in `keys_relation` (column key_text)."""
    rows = f"SELECT {_spark_row(table)} FROM {relation}"
    return f"SELECT /*+ BROADCAST(k) */ r.key_text, r.h FROM ({rows}) r LEFT SEMI JOIN {keys_relation} k ON r.key_text = k.key_text"


def mysql_unpushed_sql(table: Table, where: str = "") -> str:
    """MySQL: key_text and x0, x1 …: the read values of the columns outside the hash, for the comparison of all rows.

    Read it through JDBC and apply `types.from_read` to each column.
    """
    columns = "".join(f", {read_sql(table.column(name))} AS x{at}" for at, (name, _) in enumerate(not_pushed(table)))
    return f"SELECT {mysql_key_text(table)} AS key_text{columns} FROM {quote_table(table)}{_where(where)}"


def mysql_leaves_where(table: Table, scheme: LeafScheme, leaves: Sequence[int]) -> str:
    """MySQL condition: rows in these leaves; ranges of the key's index for integer leaves."""
    if isinstance(scheme, IntegerLeaves):
        return _ranges(scheme, leaves)
    return f"{mysql_leaf(scheme, table)} IN ({_numbers(leaves)})" if leaves else "FALSE"


def spark_leaves_where(table: Table, scheme: LeafScheme, leaves: Sequence[int]) -> str:
    """Spark condition: rows in these leaves; ranges for integer leaves, so that files are pruned."""
    if isinstance(scheme, IntegerLeaves):
        return _ranges(scheme, leaves)
    return f"{spark_leaf(scheme, table)} IN ({_numbers(leaves)})" if leaves else "FALSE"


def _mysql_row(table: Table) -> str:
    return f"{mysql_key_text(table)} AS key_text, {mysql_row_hash(table)} AS h"


def _spark_row(table: Table) -> str:
    return f"{spark_key_text(table)} AS key_text, {spark_row_hash(table)} AS h"


def _where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def _numbers(leaves: Sequence[int]) -> str:
    return ", ".join(str(int(leaf)) for leaf in leaves)


def _checked_hash(text: str) -> bool:
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise SchemaError(f"not a row hash: {text!r}")
    return True


def _ranges(scheme: IntegerLeaves, leaves: Sequence[int]) -> str:
    column = quote_ident(scheme.column)
    ranges: list[tuple[int, int]] = []
    for low, high in (leaf_bounds(scheme.width, leaf) for leaf in sorted({*leaves})):
        if ranges and ranges[-1][1] + 1 == low:
            ranges[-1] = (ranges[-1][0], high)
        else:
            ranges.append((low, high))
    return " OR ".join(f"{column} BETWEEN {low} AND {high}" for low, high in ranges) or "FALSE"


def leaf_bounds(width: int, leaf: int) -> tuple[int, int]:
    """Ids of a leaf: DIV rounds towards zero, so leaf 0 holds the ids on both sides of it."""
    low, high = leaf * width, leaf * width + width - 1
    if leaf < 0:
        low, high = leaf * width - width + 1, leaf * width
    return (-width + 1 if leaf == 0 else low), high


# --- comparing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeafDiff:
    """Which leaves agree."""

    equal: int
    unequal: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowDiff:
    """Key texts by what is wrong with them, sorted; a keyless row stands once per missing or surplus copy."""

    missing: tuple[str, ...]
    ghosts: tuple[str, ...]
    different: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(sorted({*self.missing, *self.ghosts, *self.different}))


def read_leaves(rows: Iterable[Sequence[Any]]) -> dict[int, Leaf]:
    """Rows (leaf, n, lane1, lane2) of either engine, whose drivers give decimals or ints → digests by leaf."""
    return {int(leaf): Leaf(int(n), int(lane1), int(lane2)) for leaf, n, lane1, lane2 in rows}


def merge_leaves(parts: Iterable[Mapping[int, Leaf]]) -> dict[int, Leaf]:
    """Digests of parts of a table (read by several connections) → the table's."""
    merged: dict[int, Leaf] = {}
    for part in parts:
        for leaf, digest in part.items():
            merged[leaf] = add_leaves(merged.get(leaf, Leaf(0, 0, 0)), digest)
    return merged


def add_leaves(a: Leaf, b: Leaf, times: int = 1) -> Leaf:
    """`a` and `times` times `b` (negative: taken out), with the carry in its place."""
    total = (a.lane1 + times * b.lane1) * LANE + a.lane2 + times * b.lane2
    return Leaf(a.n + times * b.n, *divmod(total, LANE))


def row_leaf(h: str) -> Leaf:
    """The digest of one row, from its hash."""
    return Leaf(1, int(h[:8], 16), int(h[8:16], 16))


def compare(src: Mapping[int, Leaf], sink: Mapping[int, Leaf]) -> LeafDiff:
    """Leaves that differ, or that only one side has."""
    every = src.keys() | sink.keys()
    unequal = tuple(sorted(leaf for leaf in every if src.get(leaf) != sink.get(leaf)))
    return LeafDiff(len(every) - len(unequal), unequal)


def compare_rows(src: Iterable[tuple[str, str]], sink: Iterable[tuple[str, str]]) -> RowDiff:
    """Rows (key_text, h) of a keyed table. A key may stand twice on a side: each side's rows under it are counted."""
    theirs, ours = _by_key(src), _by_key(sink)
    both_sides = theirs.keys() & ours.keys()
    return RowDiff(
        missing=tuple(sorted(k for k, hashes in theirs.items() if len(hashes) > len(ours.get(k, ())))),
        ghosts=tuple(sorted(k for k, hashes in ours.items() if len(hashes) > len(theirs.get(k, ())))),
        different=tuple(
            sorted(k for k in both_sides if len(theirs[k]) == len(ours[k]) and sorted(theirs[k]) != sorted(ours[k]))
        ),
    )


def _by_key(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    hashes: dict[str, list[str]] = {}
    for key, h in rows:
        hashes.setdefault(key, []).append(h)
    return hashes


def compare_multisets(src: Iterable[str], sink: Iterable[str]) -> RowDiff:
    """Row hashes of a keyless table: copies that the sink lacks, and copies too many."""
    theirs, ours = Counter(src), Counter(sink)
    missing, ghosts = theirs - ours, ours - theirs
    return RowDiff(tuple(sorted(missing.elements())), tuple(sorted(ghosts.elements())), ())
