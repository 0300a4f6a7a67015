"""What a changed table definition means for a mirror that only sees row events (INV 13).

DDL may change rows without any row event. Only changes that leave every old row's value as it was, and under which
events from before and after the change decode alike, pass; everything else stops the table and is named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from airflow_cdc.core.errors import MALFORMED, RereadNeededError, SchemaError
from airflow_cdc.core.table import Column, Table

# A sink table's property: the source definition its rows were written by, as JSON.
DEFINITION = "cdc.definition"

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TEXTS = frozenset({"varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_SIZED = _TEXTS | _BYTES | {"char", "binary"}


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """What a mirror has to do to follow its source from one definition to the next. Nothing: nothing changed.

    Attributes:
        added: new columns; old rows hold NULL in them, unless they are `filled`.
        widened: columns whose type holds more than before.
        dropped: columns that are gone; events from before still name them.
        filled: new column → what all old rows hold in it, as text. It never was nullable.
        never_null: columns that allowed NULL before and do not now: followed if no row of the mirror holds one.
    """

    added: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    filled: Mapping[str, str] = field(default_factory=dict)
    never_null: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether the mirror's columns change."""
        return bool(self.added or self.widened or self.dropped)


def dump_definition(table: Table) -> str:
    """The text for the property DEFINITION."""
    return json.dumps(table.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def load_definition(properties: Mapping[str, str]) -> Table | None:
    """The definition that a table's properties hold, or None. Raises SchemaError if it cannot be read."""
    text = properties.get(DEFINITION)
    try:
        return None if text is None else Table.from_json(json.loads(text))
    except MALFORMED as error:
        raise SchemaError(f"the property {DEFINITION} cannot be read: {error}") from error


def check_added(table: Table, column: Column, defaults: Mapping[str, str | None] | None) -> None:
    """Raise SchemaError unless every row from before the column was added holds NULL in it."""
    if column.generated:
        raise refused(table, f"the generated column {column.name} was added: old rows have a value in it")
    if not column.nullable:
        raise refused(table, f"column {column.name} was added as NOT NULL: old rows have a value in it")
    if defaults is None or column.name not in defaults:
        raise refused(table, f"column {column.name} was added and its default is not known")
    if defaults[column.name] is not None:
        raise refused(table, f"column {column.name} was added with a default: old rows have that value in it")


def stored_definition(properties: Mapping[str, str], fingerprint: str | None) -> Table | None:
    """The definition that a table's properties hold, if it is of that fingerprint (None: none is known).

    Compared as it was written: a newer version of this package may describe more of a column.
    """
    found = load_definition(properties)
    if found is None or fingerprint is None:
        return found
    text = json.dumps(json.loads(properties[DEFINITION]), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return found if hashlib.sha256(text.encode("ascii")).hexdigest() == fingerprint else None


def refused(table: Table, what: str) -> RereadNeededError:
    """The error for a change that only reading the table again can follow."""
    return RereadNeededError(
        f"the source's definition changed in a way that events do not carry: {what}",
        where=f"table {table.full_name}",
        todo="Recover the table (full_snapshot), or let apply read it again: policy.schema_change.",
    )


def check_column(table: Table, old: Column, new: Column) -> bool:
    """Whether a column was widened. Raises RereadNeededError if it was changed otherwise; NULL is not looked at."""
    before, after = comparable(old), comparable(new)
    for broken in _BREAKS:
        if reason := broken(before, after):
            raise refused(table, f"column {new.name} ({old.column_type} → {new.column_type}): {reason}")
    return _plain(before) != _plain(after) or before.charset != after.charset


def comparable(column: Column) -> Column:
    """The column without what only a server says of it: a connector's own definitions do not have that."""
    labelled = column.data_type in {"enum", "set"}
    charset = "utf8mb3" if column.charset == "utf8" else column.charset
    length = None if labelled or column.data_type not in _SIZED else column.char_length
    return replace(column, charset=charset, collation=None, byte_length=None, char_length=length)


def meaning(column: Column) -> tuple[object, ...]:
    """What of a column decides how its values are read; two that agree in it hold the same rows."""
    plain = comparable(column)
    return (*_plain(plain), plain.charset, plain.nullable, plain.generated, plain.expression)


def _generation(old: Column, new: Column) -> str:
    same = (old.generated, old.expression) == (new.generated, new.expression)
    return "" if same else "how it is generated changed"


def _charset(old: Column, new: Column) -> str:
    kept = new.charset in {old.charset, "utf8mb4"}  # utf8mb4 can hold whatever the old one could
    return "" if kept else "its characters were converted"


def _type(old: Column, new: Column) -> str:
    if _plain(old) == _plain(new):
        return ""
    return "" if any(rule(old, new) for rule in _WIDENINGS) else "the change of type is not a lossless widening"


_BREAKS: tuple[Callable[[Column, Column], str], ...] = (_generation, _charset, _type)


def _plain(column: Column) -> tuple[object, ...]:
    """What decoding depends on. The display width of an integer does not count: `int(11)` is `int`."""
    size = (column.char_length, column.byte_length, column.precision, column.scale)
    kind = (column.data_type, column.unsigned, column.labels, column.fsp, column.srid)
    return kind if column.is_integer else (*kind, *size)


def _integer(old: Column, new: Column) -> bool:
    bits, wider = _INTEGER_BITS.get(old.data_type), _INTEGER_BITS.get(new.data_type)
    if bits is None or wider is None:
        return False
    if old.unsigned == new.unsigned:
        return wider >= bits
    return old.unsigned and wider > bits


def _decimal(old: Column, new: Column) -> bool:
    both = old.data_type == new.data_type == "decimal" and old.unsigned == new.unsigned
    return both and old.scale == new.scale and (old.precision or 0) <= (new.precision or 0)


def _variable(old: Column, new: Column) -> bool:
    family = next((f for f in (_TEXTS, _BYTES) if old.data_type in f and new.data_type in f), None)
    return family is not None and (old.char_length or 0) <= (new.char_length or 0)


def _char(old: Column, new: Column) -> bool:
    return old.data_type == new.data_type == "char" and (old.char_length or 0) <= (new.char_length or 0)


def _labels(old: Column, new: Column) -> bool:
    same = old.data_type == new.data_type and old.data_type in {"enum", "set"}
    return same and new.labels[: len(old.labels)] == old.labels  # appended only: the numbers of the old ones stand


def _fraction(old: Column, new: Column) -> bool:
    """More digits of a second, unless events then count in another unit (milliseconds up to 3 digits)."""
    if old.data_type != new.data_type or old.data_type not in {"datetime", "timestamp", "time"}:
        return False
    before, after = old.fsp or 0, new.fsp or 0
    return before <= after and (old.data_type == "timestamp" or (before <= 3) == (after <= 3))


def _bits(old: Column, new: Column) -> bool:
    # BIT(1) is true or false in events, BIT(2) is bytes
    return old.data_type == new.data_type == "bit" and 1 < (old.precision or 1) <= (new.precision or 1)


_WIDENINGS: tuple[Callable[[Column, Column], bool], ...] = (
    _integer,
    _decimal,
    _variable,
    _char,
    _labels,
    _fraction,
    _bits,
)
