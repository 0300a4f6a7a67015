"""A few of Debezium's records decoded in memory, as long as every one of them is plain.

Plain is a create, an update, a delete or a tombstone of the table itself, in JSON, with its place in the source's log
and every column's value in the form in which the connector always writes it. Whatever is not plain is left to Spark's
decoding, which is slower for few records, decodes the same to the same values, and says what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_cdc.decisions.apply.applied import LastChange
from airflow_cdc.decisions.apply.plain import NotPlainError, PlainChange

if TYPE_CHECKING:
    from airflow_cdc.connectors.debezium.config import ConnectorSettings
    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.table import Column, Table

Convert = Callable[[Any], Any]
# The `source` of an event → the change's place in the log
ChangeOf = Callable[[Mapping[str, Any]], LastChange]

_ALL: Mapping[int, int] = {}
_CREATE, _UPDATE, _DELETE, _TOMBSTONE = "c", "u", "d", "tombstone"


@dataclass(frozen=True, slots=True)
class PlainDecoder:
    """Decodes the plain records of one table.

    `converters`: for the key's columns, then for the mirrored ones.
    """

    table: Table
    change_of: ChangeOf
    key: Sequence[tuple[Column, Convert]]
    row: Sequence[tuple[Column, Convert]]

    @classmethod
    def of(
        cls, table: Table, settings: ConnectorSettings, change_of: ChangeOf, convert: Callable[[Column], Convert | None]
    ) -> PlainDecoder | None:
        """The decoder of a table; None if one of its columns, or its topic, needs Spark's decoding."""
        ways = {column.name: convert(column) for column in table.mirrored}
        shared = settings.key_mark(table.full_name) is not None or {"schema", "payload"} <= {*table.key}
        if shared or any(way is None for way in ways.values()):
            return None
        pairs = {column.name: (column, way) for column in table.mirrored if (way := ways[column.name]) is not None}
        return cls(table, change_of, [pairs[name] for name in table.key], list(pairs.values()))

    def decode(
        self, records: Iterable[TopicRecord], *, before: bool = False, rows_from: Mapping[int, int] = _ALL
    ) -> list[PlainChange]:
        """`before`: with the rows as they were, which the change of a table without a key must have. Of records before
        `rows_from` (partition → offset), whose rows may have other columns, the rows are left out. Raises NotPlainError,
        or another ValueError, TypeError or LookupError, if a record is not plain.
        """
        return [
            self._decoded(record, before=before, rows=record.offset >= rows_from.get(record.partition, 0))
            for record in records
        ]

    def _decoded(self, record: TopicRecord, *, before: bool, rows: bool) -> PlainChange:
        key = self._key(_parsed(record.key)) if self.key else ()
        if record.value is None:
            return PlainChange(record.partition, record.offset, _TOMBSTONE, key)
        event = _parsed(record.value)
        event = event if event.get("payload") is None else event["payload"]
        op, source, after = event["op"], event["source"], event.get("after")
        named = f"{source['db']}.{source['table']}"
        if op not in (_CREATE, _UPDATE, _DELETE) or named != self.table.full_name:
            raise NotPlainError
        snapshot = source.get("snapshot")
        if snapshot not in (None, "false") or (op == _DELETE and after is not None):
            raise NotPlainError
        change, defaulted = self.change_of(source), snapshot == "false"
        if not rows:
            return PlainChange(record.partition, record.offset, op, key, None, change, defaulted)
        row, was = None if op == _DELETE else self._row(after), event.get("before") if before else None
        old = None if was is None else self._row(was)
        if before and not self.key and (old is None) != (op == _CREATE):
            raise NotPlainError
        return PlainChange(record.partition, record.offset, op, key, row, change, defaulted, old)

    def _key(self, fields: dict[str, Any]) -> tuple[Any, ...]:
        schema = fields.get("schema")
        wrapped = isinstance(schema, dict) and schema.get("type") == "struct"
        values = fields["payload"] if wrapped else fields
        return tuple(convert(_present(values[column.name])) for column, convert in self.key)

    def _row(self, fields: Any) -> tuple[Any, ...]:
        if type(fields) is not dict or len(fields) != len(self.row):
            raise NotPlainError
        return tuple(_value(fields[column.name], column, convert) for column, convert in self.row)


def _value(value: Any, column: Column, convert: Convert) -> Any:
    if value is None and column.nullable:
        return None
    return convert(_present(value))


def _present(value: Any) -> Any:
    if value is None:
        raise NotPlainError
    return value


def _parsed(text: bytes | None) -> dict[str, Any]:
    try:
        value = (
            None if text is None else json.loads(text.decode(), parse_constant=_no_constant, object_pairs_hook=_once)
        )
    except RecursionError:
        raise NotPlainError from None
    if type(value) is not dict:
        raise NotPlainError
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise NotPlainError
    return fields


def _no_constant(_: str) -> float:
    raise NotPlainError


def within(value: Any, low: int, high: int) -> int:
    """The integer, if it is one of these."""
    if type(value) is not int or not low <= value <= high:
        raise NotPlainError
    return value


def whole(value: Any, bits: int = 64) -> int:
    """The integer, if it is one of so many bits."""
    return within(value, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def number_in(text: str) -> int:
    """The number that ASCII digits write."""
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**63:
        raise NotPlainError
    return int(text)


def binlog_change(source: Mapping[str, Any], order: Callable[[str], tuple[str, int]]) -> LastChange:
    """A change of a binary log. `order`: GTID → (origin, number) by which it is ordered."""
    file, gtid = source["file"], source.get("gtid")
    if type(file) is not str or (gtid is not None and type(gtid) is not str):
        raise NotPlainError
    base, dot, number = file.rpartition(".")
    if not dot or not base:
        raise NotPlainError
    log, log_n = f"{whole(source['server_id'])}/{base}", number_in(number)
    origin, n = (log, log_n) if gtid is None else order(gtid)
    place = (n, whole(source["pos"]), whole(source["row"], 32))
    return LastChange(origin, place, log, log_n, gtid, whole(source["ts_ms"]))
