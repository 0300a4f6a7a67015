"""Two definitions of one MySQL column: do values in old rows stay unchanged, and do old and new events decode alike?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from airflow_cdc.core.table import Column, Table
from airflow_cdc.decisions.apply.schema_change import refused
from airflow_cdc.sources.mysql.types import INTEGERS, MySqlWords, with_words, words_of

_TEXTS = frozenset({"varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_SIZED = _TEXTS | _BYTES | {"char", "binary"}


def check_column(table: Table, old: Column, new: Column) -> bool:
    """Whether a column was widened. Raises RereadNeededError for any other change; nullability is ignored."""
    before, after = _comparable(words_of(old)), _comparable(words_of(new))
    reason = _generation(old, new) or next((why for broken in _BREAKS if (why := broken(before, after))), "")
    if reason:
        raise refused(table, f"column {new.name} ({old.native.type} → {new.native.type}): {reason}")
    return _plain(before) != _plain(after) or before.charset != after.charset


def _comparable(words: MySqlWords) -> MySqlWords:
    """The words without what only a server says: a connector's own definitions do not have that."""
    labelled = words.data_type in {"enum", "set"}
    charset = "utf8mb3" if words.charset == "utf8" else words.charset
    length = None if labelled or words.data_type not in _SIZED else words.char_length
    return replace(words, charset=charset, collation=None, byte_length=None, char_length=length)


def meaning(column: Column) -> tuple[object, ...]:
    """The properties of a column that determine how its values are read; if they are equal, the rows are the same."""
    words = _comparable(words_of(column))
    return (*_plain(words), words.charset, column.nullable, column.generated, words.expression)


def generated_as(column: Column, other: Column) -> Column:
    """The column, generated as `other` is: a connector's own definitions do not say how."""
    return replace(with_words(column, expression=words_of(other).expression), generated=other.generated)


def _generation(old: Column, new: Column) -> str:
    same = (old.generated, words_of(old).expression) == (new.generated, words_of(new).expression)
    return "" if same else "how it is generated changed"


def _charset(old: MySqlWords, new: MySqlWords) -> str:
    holds_all = new.charset in {old.charset, "utf8mb4"}  # utf8mb4 can hold whatever the old one could
    return "" if holds_all else "its characters were converted"


def _type(old: MySqlWords, new: MySqlWords) -> str:
    if _plain(old) == _plain(new):
        return ""
    return "" if any(rule(old, new) for rule in _WIDENINGS) else "the change of type is not a lossless widening"


_BREAKS: tuple[Callable[[MySqlWords, MySqlWords], str], ...] = (_charset, _type)


def _plain(words: MySqlWords) -> tuple[object, ...]:
    """What decoding depends on. The display width of an integer does not count: `int(11)` is `int`."""
    size = (words.char_length, words.byte_length, words.precision, words.scale)
    kind = (words.data_type, words.unsigned, words.labels, words.fsp, words.srid)
    return kind if words.is_integer else (*kind, *size)


def _integer(old: MySqlWords, new: MySqlWords) -> bool:
    bits, wider = INTEGERS.get(old.data_type), INTEGERS.get(new.data_type)
    if bits is None or wider is None:
        return False
    if old.unsigned == new.unsigned:
        return wider >= bits
    return old.unsigned and wider > bits


def _decimal(old: MySqlWords, new: MySqlWords) -> bool:
    both = old.data_type == new.data_type == "decimal" and old.unsigned == new.unsigned
    return both and old.scale == new.scale and (old.precision or 0) <= (new.precision or 0)


def _variable(old: MySqlWords, new: MySqlWords) -> bool:
    family = next((f for f in (_TEXTS, _BYTES) if old.data_type in f and new.data_type in f), None)
    return family is not None and (old.char_length or 0) <= (new.char_length or 0)


def _char(old: MySqlWords, new: MySqlWords) -> bool:
    return old.data_type == new.data_type == "char" and (old.char_length or 0) <= (new.char_length or 0)


def _labels(old: MySqlWords, new: MySqlWords) -> bool:
    same = old.data_type == new.data_type and old.data_type in {"enum", "set"}
    return same and new.labels[: len(old.labels)] == old.labels  # appended only: the numbers of the old ones stand


def _fraction(old: MySqlWords, new: MySqlWords) -> bool:
    """More digits of a second, unless events then count in another unit (milliseconds up to 3 digits)."""
    if old.data_type != new.data_type or old.data_type not in {"datetime", "timestamp", "time"}:
        return False
    before, after = old.fsp or 0, new.fsp or 0
    return before <= after and (old.data_type == "timestamp" or (before <= 3) == (after <= 3))


def _bits(old: MySqlWords, new: MySqlWords) -> bool:
    # BIT(1) is true or false in events, BIT(2) is bytes
    return old.data_type == new.data_type == "bit" and 1 < (old.precision or 1) <= (new.precision or 1)


_WIDENINGS: tuple[Callable[[MySqlWords, MySqlWords], bool], ...] = (
    _integer,
    _decimal,
    _variable,
    _char,
    _labels,
    _fraction,
    _bits,
)
