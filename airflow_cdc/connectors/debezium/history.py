"""Debezium's schema history against the source's own table definitions (INV 12).

Debezium decodes rows with the tables of its history. If these differ from the source, values are
shifted or mislabelled without any error, so the comparison is deep, and anything that cannot be compared
counts as different.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.errors import MALFORMED, PositionError, TransportError
from airflow_cdc.core.position import Position
from airflow_cdc.core.table import Column, Table
from airflow_cdc.decisions.diagnosis.connector_rows import NOT_IN_HISTORY
from airflow_cdc.fields import Fields
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.ddl_text import unescaped
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition, mysql_position
from airflow_cdc.sources.mysql.types import MySqlWords, mysql_column, words_of

_QUOTED: Final = re.compile(r'"((?:[^"]|"")*)"')
_DROP_SCHEMA: Final = re.compile(
    r"\s*(?:/\*.*?\*/\s*)?DROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?(`[^`]+`|[^\s;`]+)", re.IGNORECASE | re.DOTALL
)

# A snapshot writes type names as in SHOW CREATE TABLE; a streamed DDL keeps what its author wrote.
_SYNONYMS: Final[dict[str, str]] = {
    "bool": "tinyint",
    "boolean": "tinyint",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "middleint": "mediumint",
    "integer": "int",
    "int4": "int",
    "int8": "bigint",
    "dec": "decimal",
    "numeric": "decimal",
    "fixed": "decimal",
    "real": "double",
    "double precision": "double",
    "float8": "double",
    "float4": "float",
    "character": "char",
    "nchar": "char",
    "national char": "char",
    "national character": "char",
    "character varying": "varchar",
    "char varying": "varchar",
    "varcharacter": "varchar",
    "nvarchar": "varchar",
    "nchar varchar": "varchar",
    "nchar varying": "varchar",
    "national varchar": "varchar",
    "national char varying": "varchar",
    "national character varying": "varchar",
    "long": "mediumtext",
    "long varchar": "mediumtext",
    "long varbinary": "mediumblob",
    "geomcollection": "geometrycollection",
}
# The type that a text type becomes with the character set "binary".
_AS_BYTES: Final[dict[str, str]] = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}
_TEXTS: Final = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS: Final = ("tinyblob", "blob", "mediumblob", "longblob")
_WITH_CHARSET: Final = frozenset({"char", "varchar", *_TEXTS, "enum", "set"})
_FLOAT_BITS: Final = 24
_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
# What a server reports for these types, whatever the statement says.
_FIXED_LENGTHS: Final = {
    kind: size
    for family in (_TEXTS, _BLOBS)
    for kind, size in zip(family, (255, 65535, 16777215, 4294967295), strict=True)
}
_LENGTHS: Final = frozenset({"char", "varchar", "binary", "varbinary", *_FIXED_LENGTHS})
_PRECISIONS: Final = {"decimal": 10, "bit": 1, "float": 12, "double": 22}


@dataclass(frozen=True, slots=True)
class _Old:
    """A column of the history, in the source's own terms."""

    name: str
    ordinal: int
    data_type: str
    unsigned: bool
    length: int | None
    scale: int | None
    charset: str
    optional: bool
    labels: tuple[str, ...]


# Type → the properties that determine how a value is decoded, from the definition and from the history.
_SIZES: Final[dict[str, tuple[Callable[[MySqlWords], object], Callable[[_Old], object]]]] = {
    "char": (lambda c: c.char_length, lambda o: o.length or 1),
    "varchar": (lambda c: c.char_length, lambda o: o.length),
    "binary": (lambda c: c.byte_length, lambda o: o.length or 1),
    "varbinary": (lambda c: c.byte_length, lambda o: o.length),
    "bit": (lambda c: c.precision, lambda o: o.length or 1),
    "decimal": (lambda c: (c.precision, c.scale or 0), lambda o: (o.length or 10, o.scale or 0)),
    "datetime": (lambda c: c.fsp or 0, lambda o: o.length or 0),
    "timestamp": (lambda c: c.fsp or 0, lambda o: o.length or 0),
    "time": (lambda c: c.fsp or 0, lambda o: o.length or 0),
}
_SIGNED: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double"})


def compare_history(defn: Table, hist: Mapping[str, object] | None) -> tuple[str, ...]:
    """How a table of the schema history differs from the source's definition; () when it does not.

    Compared: columns by name and order, type, length, unsigned, character set, labels of ENUM and SET
    in order, key. Collation is not in the history and does not affect decoding. A column that is NOT NULL in the
    history while the source allows NULL is a difference too: its NULLs would arrive as defaults.
    """
    if hist is None:
        return (NOT_IN_HISTORY,)
    try:
        table = Fields(hist)
        old = [_old_column(column) for column in table.each("columns", strict=True)]
        key = table.texts("primaryKeyColumnNames", strict=True)
    except MALFORMED as error:
        return (f"the table cannot be compared: {type(error).__name__} {error}",)
    differences = _order(defn, old)
    by_name = {column.name: column for column in old}
    differences += [text for c in defn.columns if c.name in by_name for text in _column(c, by_name[c.name])]
    if set(key) != set(defn.key):
        differences.append(f"key: ({', '.join(defn.key)}) in the source, ({', '.join(key)}) in the history")
    return tuple(differences)


def column_defs(hist: Mapping[str, object]) -> dict[str, Column]:
    """The columns of a table of the schema history, with the properties that decoding depends on.

    Sizes are as a server reports them. Collation, SRID and whether a column is generated are not in the history. Raises
    one of MALFORMED for a table of another shape.
    """
    columns = Fields(hist).each("columns", strict=True)
    return {column.name: _column_def(column) for column in map(_old_column, columns)}


def _column_def(old: _Old) -> Column:
    clock = old.data_type in {"datetime", "timestamp", "time"}
    sized = not clock and old.data_type not in {"enum", "set", *_INTEGERS}
    length = _FIXED_LENGTHS.get(old.data_type, old.length)
    number = old.data_type in {"decimal", "bit", "float", "double"}
    words = MySqlWords(
        data_type=old.data_type,
        column_type=f"{old.data_type} unsigned" if old.unsigned else old.data_type,
        charset=old.charset or None,
        char_length=(length or 1) if sized and old.data_type in _LENGTHS else None,
        precision=(length or _PRECISIONS.get(old.data_type)) if number else None,
        scale=(old.scale or 0) if old.data_type == "decimal" else old.scale if number else None,
        fsp=(old.length or 0) if clock else None,
        labels=old.labels,
    )
    return mysql_column(old.name, old.ordinal, words, nullable=old.optional)


def fold_history(records: Iterable[Mapping[str, object]], server: str = "") -> dict[str, Fields]:
    """The newest table per full name ("shop.orders") after all records, oldest first.

    As Debezium does on start: CREATE and ALTER replace, DROP removes, a rename removes the old name. A
    DROP DATABASE, which carries no table changes, removes its tables. `server`: only records of this
    topic.prefix, "" for all. Raises TransportError for a record of another shape.
    """
    tables: dict[str, Fields] = {}
    for record in records:
        try:
            tables = _folded(tables, Fields(record), server)
        except MALFORMED as error:
            raise TransportError(
                f"a schema history record cannot be read: {error!r}", todo="Rebuild the history in a new topic."
            ) from None
    return tables


def _folded(tables: dict[str, Fields], record: Fields, server: str) -> dict[str, Fields]:
    if server and record.inner("source").get("server", server) != server:
        return tables
    changes = record.each("tableChanges")
    for change in changes:
        _apply(tables, change)
    if not changes and (match := _DROP_SCHEMA.match(record.text("ddl", ""))):
        schema = match[1].strip("`")
        return {name: table for name, table in tables.items() if not name.startswith(f"{schema}.")}
    return tables


def read_at(records: Iterable[Mapping[str, object]], start: Position) -> list[Mapping[str, object]]:
    """The records that Debezium reads when it starts at this position: it skips those that it considers later.

    After a RESET it skips the old records: their tables are then unknown at the first event, or known with an older
    definition. A record with an unknown place is left out too: the history is then rebuilt, which is never wrong.
    """
    there = start if isinstance(start, MariaDbPosition) else mysql_position(start)
    return [record for record in records if _at_or_before(record.get("position"), there)]


def _at_or_before(position: object, start: MySqlPosition | MariaDbPosition) -> bool:
    """Like Debezium's BinlogHistoryRecordComparator, except that files of two servers are not compared by time."""
    try:
        place = Fields.of(position)
        gtids = place.text("gtids", "")
        if (known := _read_before(start, gtids)) is not None:
            return known
        return not gtids and BinlogPosition(place.text("file"), place.number("pos")) <= start.place
    except (PositionError, *MALFORMED):
        return False


def _read_before(start: MySqlPosition | MariaDbPosition, gtids: str) -> bool | None:
    """Whether all of `gtids` had been read at `start`; None where `start` has no transactions."""
    if isinstance(start, MariaDbPosition):
        return None if start.domains is None else Domains.parse(gtids).issubset(start.domains)
    return None if start.gtids is None else GtidSet.parse(gtids).issubset(start.gtids)


def newest_snapshot_ms(records: Iterable[Mapping[str, object]]) -> int | None:
    """When the connector last wrote its history from a snapshot (epoch milliseconds), or None."""
    every = (Fields(record) for record in records)
    times = [record for record in every if record.inner("position").get("snapshot") in (True, "true", "INITIAL")]
    return max((record.number("ts_ms") if record.get("ts_ms") else 0 for record in times), default=None)


def _apply(tables: dict[str, Fields], change: Fields) -> None:
    for gone in (change.text("previousId", ""), change.text("id") if change["type"] == "DROP" else ""):
        if gone:
            tables.pop(full_name(gone), None)
    if change["type"] != "DROP" and change.get("table"):
        tables[full_name(change.text("id"))] = change.inner("table")


def full_name(table_id: str) -> str:
    """The full name for Debezium's table id: `"shop"."orders"` → shop.orders."""
    parts = [part.replace('""', '"') for part in _QUOTED.findall(table_id)]
    return ".".join(parts) if parts else table_id


def _order(defn: Table, old: list[_Old]) -> list[str]:
    new_names = [column.name for column in defn.columns]
    old_names = [column.name for column in sorted(old, key=lambda column: column.ordinal)]
    if new_names == old_names:
        return []
    missing = [name for name in new_names if name not in old_names]
    extra = [name for name in old_names if name not in new_names]
    differences = [f"column {name}: not in the history" for name in missing]
    differences += [f"column {name}: only in the history" for name in extra]
    return differences or [
        f"order of columns: {', '.join(new_names)} in the source, {', '.join(old_names)} in the history"
    ]


def _column(new: Column, old: _Old) -> list[str]:
    words = words_of(new)
    kind = _SYNONYMS.get(words.data_type, words.data_type)
    if not _same_type(kind, old):
        return [_differs(new.name, "type", kind, old.data_type)]
    differences: list[str] = []
    if kind in _SIGNED and words.unsigned != old.unsigned:
        differences.append(_differs(new.name, "unsigned", words.unsigned, old.unsigned))
    if kind in _SIZES:
        ours, theirs = _SIZES[kind]
        if ours(words) != theirs(old):
            differences.append(_differs(new.name, "length", ours(words), theirs(old)))
    if kind in _WITH_CHARSET and _charset(words.charset) != old.charset:
        differences.append(_differs(new.name, "character set", _charset(words.charset), old.charset or "unknown"))
    if kind in ("enum", "set") and words.labels != old.labels:
        differences.append(_differs(new.name, "labels", list(words.labels), list(old.labels)))
    if new.nullable and not old.optional:
        differences.append(_differs(new.name, "nullable", True, False))
    return differences


def _same_type(kind: str, old: _Old) -> bool:
    if old.length is not None:  # the server turns TEXT(70000) into MEDIUMTEXT
        for family in (_TEXTS, _BLOBS):
            if old.data_type in family:
                return kind in family
    return kind == old.data_type


def _differs(name: str, what: str, ours: object, theirs: object) -> str:
    return f"column {name}, {what}: {ours} in the source, {theirs} in the history"


def _old_column(column: Fields) -> _Old:
    words = str(column["typeName"]).lower().split()
    unsigned = "unsigned" in words or "zerofill" in words
    plain = " ".join(word for word in words if word not in ("unsigned", "zerofill", "signed"))
    length, scale = _number(column, "length"), _number(column, "scale")
    charset = _charset(column.text("charsetName", ""))
    return _Old(
        name=str(column["name"]),
        ordinal=column.number("position"),
        data_type=_old_type(plain, length, scale, charset),
        unsigned=unsigned,
        length=length,
        scale=scale,
        charset=charset,
        optional=bool(column.get("optional", True)),
        labels=tuple(map(_label, column.texts("enumValues"))),
    )


def _old_type(plain: str, length: int | None, scale: int | None, charset: str) -> str:
    kind = _SYNONYMS.get(plain, plain)
    if kind == "float" and scale is None and (length or 0) > _FLOAT_BITS:
        return "double"  # FLOAT(p) is a DOUBLE from 25 bits on
    return _AS_BYTES.get(kind, kind) if charset == "binary" else kind


def _charset(name: str | None) -> str:
    """utf8 and utf8mb3 are one character set; older servers say utf8."""
    lowered = (name or "").lower()
    return "utf8mb3" if lowered == "utf8" else lowered


def _label(text: str) -> str:
    """A label as the server stores it: the history keeps the literal of the DDL with quotes and escapes."""
    quote = text[:1]
    if quote not in ("'", '"') or text[-1:] != quote:
        return text
    return unescaped(text[1:-1], quote).rstrip(" ")  # the server trims them


def _number(column: Fields, name: str) -> int | None:
    return None if column.get(name) is None else column.number(name)
