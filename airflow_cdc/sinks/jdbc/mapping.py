"""What the sink connector makes of a column: how the two columns are compared, or why they can't be.

The connector writes a source's column into a column of its own choice, or into one that a person made. Both are read here
by their types: a pair in the table below is compared as the common type, so that each side writes the same canonical text
(decisions/compare/canonical.py). For any other pair the value is not what the source holds, which is said by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from airflow_cdc.core.table import Column, Table
from airflow_cdc.core.types import (
    Bits,
    Boolean,
    Bytes,
    Date,
    Decimal,
    Float,
    Instant,
    Integer,
    Json,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Unsupported,
    Uuid,
)

_BLANK_PADDED: Final = "bpchar"
# the types by which the source's and the copy's column are read
Types = tuple[LogicalType, LogicalType]


@dataclass(frozen=True, slots=True)
class Paired:
    """A table of the source and its copy, with the columns that can be compared, under the source's names and in its order.

    `losses`: (column of the source, why it is not compared).
    """

    source: Table
    copy: Table
    losses: tuple[tuple[str, str], ...] = ()


def paired(source: Table, copy: Table, name_of: Callable[[str], str]) -> Paired:
    """The columns of a table with those of its copy. `name_of`: the copy's name of a column.

    The key's columns must be among them: without them no row is found (see `key_loss`).
    """
    there = {column.name: column for column in copy.columns}
    ours, theirs, losses = list[Column](), list[Column](), list[tuple[str, str]]()
    for number, column in enumerate(source.columns, 1):
        other = there.get(name_of(column.name))
        if other is None:
            losses.append((column.name, "the sink's table has no such column"))
            continue
        if _is_filled_up(column, other):
            losses.append((column.name, f"{column.native.type} is {other.native.type} in the sink: blanks fill it up"))
            continue
        types = common(column.type, other.type)
        if isinstance(types, str):
            losses.append((column.name, f"{column.native.type} is {other.native.type} in the sink: {types}"))
            continue
        ours.append(replace(column, type=types[0]))
        theirs.append(replace(other, ordinal=number, type=types[1], zoned=column.zoned))
    names = {column.name for column in ours}
    key = tuple(name for name in source.key if name in names)
    return Paired(
        replace(source, columns=tuple(ours), key=key, left_out=source.left_out),
        Table(copy.schema, copy.name, tuple(theirs), tuple(name_of(name) for name in key)),
        tuple(losses),
    )


def _is_filled_up(column: Column, copy: Column) -> bool:
    """Whether a copy has blanks at its values' ends that mean nothing at the source: a char(n) of PostgreSQL is sent with them."""
    if dict(column.native.words).get("type") != _BLANK_PADDED:
        return False
    return dict(copy.native.words).get("type") != _BLANK_PADDED and not copy.native.type.startswith("char(")


def common(source: LogicalType, copy: LogicalType) -> Types | str:
    """The types by which both columns write the same text for a value that was carried whole; or what is lost."""
    for kinds, row in _PAIRS.items():
        if isinstance(source, kinds[0]) and isinstance(copy, kinds[1]):
            return row(source, copy)
    if isinstance(source, Unsupported) or isinstance(copy, Unsupported):
        return "values of such a type are not compared"
    return "the values have another form there"


def _alike(source: LogicalType, copy: LogicalType) -> Types | str:
    return source, copy


def _decimals(source: LogicalType, copy: LogicalType) -> Types | str:
    digits = _digits(source), _digits(copy)
    if digits[0].scale != digits[1].scale:
        return "digits behind the point are cut or added"
    # one precision: it decides how the number is written
    wide = replace(digits[0], precision=max(digits[0].precision, digits[1].precision))
    return wide if isinstance(source, Decimal) else source, wide


def _digits(kind: LogicalType) -> Decimal:
    return kind if isinstance(kind, Decimal) else Decimal(20 if isinstance(kind, Integer) and kind.unsigned else 19)


def _whole(source: LogicalType, copy: LogicalType) -> Types | str:
    """A whole number is written alike as an integer and as a decimal without digits behind the point."""
    if not isinstance(copy, Decimal) or copy.scale:
        return "the values have another form there"
    return source, copy


def _floats(source: LogicalType, copy: LogicalType) -> Types | str:
    if isinstance(source, Float) and isinstance(copy, Float) and source.bits > copy.bits:
        return "numbers are rounded to 32 bits"
    return source, copy


def _texts(source: LogicalType, _copy: LogicalType) -> Types | str:
    long = isinstance(source, Text) and source.long
    return Text(long), Text(long)


def _bytes(source: LogicalType, _copy: LogicalType) -> Types | str:
    long = isinstance(source, Bytes) and source.long
    return Bytes(long), Bytes(long)


def _documents(_source: LogicalType, _copy: LogicalType) -> Types | str:
    return Json(), Json()


def _bits(source: LogicalType, copy: LogicalType) -> Types | str:
    if isinstance(source, Bits) and isinstance(copy, Bits) and source.size > copy.size:
        return f"only {copy.size} of {source.size} bits have room"
    return source, copy


def _flags(source: LogicalType, copy: LogicalType) -> Types | str:
    if isinstance(source, Bits) and source.size > 1:
        return "only one bit has room"
    return source, copy


_PAIRS: Final[Mapping[tuple[type, type], Callable[[LogicalType, LogicalType], Types | str]]] = {
    (Integer, Integer): _alike,
    (Integer, Decimal): _whole,
    (Decimal, Decimal): _decimals,
    (Float, Float): _floats,
    (Boolean, Boolean): _alike,
    (Boolean, Integer): _alike,
    (Boolean, Bits): _alike,
    (Bits, Boolean): _flags,
    (Bits, Bits): _bits,
    (Bits, Integer): _flags,
    (Text, Text): _texts,
    (Uuid, Text): _texts,
    (Uuid, Uuid): _alike,
    (Json, Json): _documents,
    (Json, Text): _documents,
    (Bytes, Bytes): _bytes,
    (Date, Date): _alike,
    (Time, Time): _alike,
    (LocalDateTime, LocalDateTime): _alike,
    (Instant, Instant): _alike,
}
