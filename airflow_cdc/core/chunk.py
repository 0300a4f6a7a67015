"""Key ranges of a table: boundaries by rank, predicates over the whole key, literals that survive any sql_mode."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_cdc.core.table import Column, Table

# What a key value may be. Temporal values are text (see `key_select`), so that JSON keeps them.
KeyValue = int | str | bytes | float | Decimal
Key = tuple[KeyValue, ...]

_MICROSECONDS = "%Y-%m-%d %H:%i:%s.%f"
_INDEXED = frozenset({"enum", "set", "bit", "year"})  # ordered by number, not by text
_BINARY = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})


def quote_ident(name: str) -> str:
    """An identifier in backticks; MySQL and Spark agree on it."""
    return "`" + name.replace("`", "``") + "`"


def own_name(name: str) -> str:
    """A name for a value of ours that stands beside a table's columns: it ends with a space, as no column's name can."""
    return f"{name} "


def quote_table(table: Table) -> str:
    """The source table's full name, quoted."""
    return f"{quote_ident(table.schema)}.{quote_ident(table.name)}"


def sql_literal(value: KeyValue | None) -> str:
    """A MySQL literal that means the same under every sql_mode and connection character set.

    Text is written in hexadecimal with its character set named: no quote or backslash can end it.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool | dt.datetime | dt.date | dt.time | dt.timedelta):
        raise SchemaError(f"a {type(value).__name__} is not a key value", todo="read keys with key_select()")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f"_utf8mb4 X'{value.encode().hex()}'"
    if isinstance(value, bytes):
        return f"_binary X'{value.hex()}'"
    if isinstance(value, Decimal):
        return format(value, "f")
    if not math.isfinite(value):
        raise SchemaError(f"{value!r} has no literal")
    text = repr(value)
    return text if "e" in text else f"{text}e0"  # 1.5 alone would be a DECIMAL


def key_select(column: Column) -> str:
    """How a key column is selected so that its value comes back as a `KeyValue` that sorts as the column does."""
    name = quote_ident(column.name)
    kind = column.data_type
    if kind in _INDEXED:
        return f"CAST({name} + 0 AS UNSIGNED)"
    if kind == "date":
        return f"DATE_FORMAT({name}, '%Y-%m-%d')"
    if kind in {"datetime", "timestamp"}:
        return f"DATE_FORMAT({name}, '{_MICROSECONDS}')"
    if kind == "time":
        return f"CAST({name} AS CHAR)"
    if kind == "float":
        return f"{name} + 0e0"
    return name


def key_operand(column: Column) -> str:
    """The left side of a comparison with such a value: plain, so that the index is used, wherever order allows it."""
    name = quote_ident(column.name)
    return f"({name} + 0)" if column.data_type in {"enum", "set"} else name


def boundary_sql(table: Table, after: Key | None, k: int) -> str:
    """The key of the k-th row after `after` (exclusive; None = from the start): one row or none."""
    if table.keyless:
        raise SchemaError("a table without a key has no chunks", where=table.full_name)
    if k < 1:
        raise SchemaError(f"a chunk of {k} rows", where=table.full_name)
    columns = ", ".join(key_select(c) for c in table.key_columns)
    order = ", ".join(quote_ident(name) for name in table.key)
    where = f" WHERE {chunk_predicate(table, after, None)}" if after is not None else ""
    return f"SELECT {columns} FROM {quote_table(table)}{where} ORDER BY {order} LIMIT 1 OFFSET {k - 1}"


def chunk_predicate(table: Table, lo: Key | None, hi: Key | None) -> str:
    """`lo < key <= hi` over the whole key; None leaves that end open.

    Expanded to OR/AND, because MySQL does not use an index for row comparisons: (a, b) > (1, 2) becomes
    `a > 1 OR (a = 1 AND b > 2)`, with `a >= 1` in front so that the range stands in the first index column.
    """
    parts = []
    if lo is not None:
        parts.append(_beyond(table, lo, ">", ""))
    if hi is not None:
        parts.append(_beyond(table, hi, "<", "="))
    return " AND ".join(parts) or "TRUE"


def _beyond(table: Table, key: Key, sign: str, last: str) -> str:
    columns = table.key_columns
    if len(key) != len(columns):
        raise SchemaError(f"a key of {len(key)} values for {len(columns)} columns", where=table.full_name)
    operands = [key_operand(c) for c in columns]
    literals = [sql_literal(v) for v in key]
    alternatives = []
    for i, (operand, literal) in enumerate(zip(operands, literals, strict=True)):
        equal = [f"{o} = {v}" for o, v in zip(operands[:i], literals[:i], strict=True)]
        closing = last if i == len(columns) - 1 else ""
        alternatives.append(" AND ".join([*equal, f"{operand} {sign}{closing} {literal}"]))
    if len(alternatives) == 1:
        return f"({alternatives[0]})"
    expanded = " OR ".join(f"({a})" for a in alternatives)
    return f"({operands[0]} {sign}= {literals[0]} AND ({expanded}))"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Keys from `lo` (exclusive) to `hi` (inclusive); None is an open end."""

    lo: Key | None = None
    hi: Key | None = None

    def __post_init__(self) -> None:
        for end in ("lo", "hi"):
            value = getattr(self, end)
            object.__setattr__(self, end, None if value is None else tuple(value))

    def predicate(self, table: Table) -> str:
        """The chunk's WHERE condition on the source."""
        return chunk_predicate(table, self.lo, self.hi)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; bytes and decimals are tagged, so that `from_json` gives equal values back."""
        return {"lo": key_to_json(self.lo), "hi": key_to_json(self.hi)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Chunk:
        """The inverse of `to_json`."""
        return cls(key_from_json(data["lo"]), key_from_json(data["hi"]))


def key_to_json(key: Key | None) -> list[Any] | None:
    """A key as JSON values: `{"hex": …}` for bytes, `{"decimal": …}` for decimals, the rest as is."""
    return None if key is None else [_value_to_json(v) for v in key]


def key_from_json(values: Sequence[Any] | None) -> Key | None:
    """The inverse of `key_to_json`."""
    return None if values is None else tuple(_value_from_json(v) for v in values)


def _value_to_json(value: KeyValue) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return {"decimal": format(value, "f")} if isinstance(value, Decimal) else value


def _value_from_json(value: Any) -> KeyValue:
    if isinstance(value, dict) and "hex" in value:
        return bytes.fromhex(value["hex"])
    if isinstance(value, dict) and "decimal" in value:
        return Decimal(value["decimal"])
    if isinstance(value, int | str | float) and not isinstance(value, bool):
        return value
    raise SchemaError(f"{value!r} is not a key value")
