"""Decode Canal's flat JSON: a record holds the rows of one statement, and becomes a row per changed row of one table.

A protobuf record holds many such statements, and is unpacked to flat JSON first. A record has no key and tells its place in the log by GTID alone: the set of all transactions up to its own. Rows of one
transaction are in the order of the topic. A record that cannot be read is returned with the reason in `cdc.bad`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.connectors.canal.statements import read_statements
from airflow_cdc.spark_apps.adapters.canal_packets import NO_UTF8, unpacked
from airflow_cdc.spark_apps.apply.record import CREATE, DELETE, OPS, SIDES, TRUNCATE, UPDATE
from airflow_cdc.spark_apps.driver.functions import utf8_text
from airflow_cdc.spark_apps.driver.sql import literal, quote_ident, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.connectors.canal.capture import CanalCapture
    from airflow_cdc.connectors.canal.values import CanalValues
    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.decisions.apply.ddl import Ddl
    from airflow_cdc.spark_apps.ports import Defaults

_ROW = "map<string,string>"
_SCHEMA = (
    f"data array<{_ROW}>, old array<{_ROW}>, `database` string, `table` string, type string, isDdl boolean, es bigint,"
    " gtid string, cdc_corrupt string"
)
_CORRUPT = "map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', 'cdc_corrupt')"
_OPS = {"INSERT": CREATE, "UPDATE": UPDATE, "DELETE": DELETE, "TRUNCATE": TRUNCATE}
# One server's transactions without a hole: then the last number is that of the record's own transaction.
_ONE_SERVER = "^[0-9a-f-]{36}:(1-)?[0-9]+$"
_AS_READ = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a Canal server that reads MySQL."""

    routing: CanalCapture

    def decode(self, raw: DataFrame, table: Table, sides: Sequence[str] = SIDES) -> DataFrame:
        """See ports.EventDecoder."""
        mine = raw.where(f"topic = {literal(self.routing.topic_of(table.full_name))}")
        changed = _changes(unpacked(mine) if self.routing.protobuf else _texts_of(mine), table)
        parts = {"key": table.key_columns} if table.key else {}
        parts |= dict.fromkeys(sides, table.mirrored)
        texts = (text for part, columns in parts.items() for text in _texts(part, columns))
        values = self.routing.values
        flat = changed.selectExpr("*", *texts)
        structs = (f"{_values(part, columns, values)} AS {part}" for part, columns in parts.items())
        return flat.selectExpr("*", *structs).selectExpr(_meta(table, values, sides), *parts)

    def statements(self, records: Iterable[TopicRecord], where: str) -> Sequence[Ddl]:
        """See ports.EventDecoder."""
        return read_statements(records, where)

    def nulls_at_risk(self, table: Table, defaults: Defaults) -> tuple[str, ...]:  # noqa: ARG002
        """See ports.EventDecoder: NULL arrives as NULL."""
        return ()


def _texts_of(raw: DataFrame) -> DataFrame:
    """Records as flat JSON, in the form of canal_packets.unpacked."""
    texts = raw.selectExpr(*_AS_READ, "value IS NULL AS no_value", f"{utf8_text('value')} AS text")
    garbled = f"IF(text IS NULL AND NOT no_value, {literal(NO_UTF8)}, NULL)"
    return texts.selectExpr("*", f"{garbled} AS garbled", "0 AS first")


def _changes(texts: DataFrame, table: Table) -> DataFrame:
    """A row per change; columns `now` and `was` are the row's texts after and, of an update, the changed ones before."""
    parsed = f"from_json(text, '{_SCHEMA}', {_CORRUPT}) AS e"
    opened = texts.selectExpr(*_AS_READ, "no_value", "garbled", "first", parsed)
    placed = f"e.gtid RLIKE '{_ONE_SERVER}'"
    number = "IF(placed, try_cast(regexp_extract(gtid, '([0-9]+)$', 1) AS bigint), NULL)"
    named = opened.selectExpr(
        *_AS_READ,
        "no_value",
        "garbled",
        "first",
        "e IS NULL OR e.cdc_corrupt IS NOT NULL AS corrupt",
        f"{_op_of('e.type')} AS told",
        "e.es AS ts_ms",
        "e.gtid AS gtid",
        f"coalesce({placed}, false) AS placed",
        f"CASE WHEN concat(e.`database`, '.', e.`table`) <> {literal(table.full_name)}"
        " THEN concat(e.`database`, '.', e.`table`) END AS other_table",
        "coalesce(e.type = 'UPDATE' AND size(e.data) <> size(e.old), false) AS uneven",
        f"explode({_rows(table)}) AS row",
    )
    origin = "IF(placed, substring_index(gtid, ':', 1), NULL)"
    return named.selectExpr("*", f"{number} AS n", f"{origin} AS origin").selectExpr(
        *_AS_READ,
        *("no_value", "garbled", "corrupt", "ts_ms", "placed", "other_table", "uneven", "n", "origin"),
        "coalesce(row.op, told) AS op",
        "2 * first + row.at AS row_at",
        "row.now AS now",
        "row.was AS was",
        "told = 'd' OR row.was IS NOT NULL AS has_was",
    )


def _op_of(kind: str) -> str:
    known = " ".join(f"WHEN '{name}' THEN '{op}'" for name, op in _OPS.items())
    return f"CASE {kind} {known} ELSE {kind} END"


def _rows(table: Table) -> str:
    """The changes of a record as array of (at, op, now, was): none of a statement that changes no row itself.

    An update that changes the key is a delete of the old key and a create of the new one, as everywhere.
    """
    none = f"CAST(NULL AS {_ROW})"
    kind = f"array<struct<at: int, op: string, now: {_ROW}, was: {_ROW}>>"
    moved = " OR ".join(f"map_contains_key(r.was, {literal(name)})" for name in table.key) or "false"
    whole = _struct({"at": "2 * r.i", "op": "CAST(NULL AS string)", "now": "r.now", "was": "r.was"})
    gone = _struct({"at": "2 * r.i", "op": f"'{DELETE}'", "now": "r.now", "was": "r.was"})
    came = _struct({"at": "2 * r.i + 1", "op": f"'{CREATE}'", "now": "r.now", "was": none})
    was = f"IF(e.type = 'UPDATE', try_element_at(e.old, i + 1), {none})"
    pairs = f"transform(e.data, (x, i) -> {_struct({'i': 'i', 'now': 'x', 'was': was})})"
    split = f"flatten(transform({pairs}, r -> IF(coalesce({moved}, false), array({gone}, {came}), array({whole}))))"
    nothing = _struct({"at": "0", "op": "CAST(NULL AS string)", "now": none, "was": none})
    return (
        f"CASE WHEN e.isDdl AND e.type <> 'TRUNCATE' THEN CAST(array() AS {kind})"
        f" WHEN e.data IS NULL OR size(e.data) = 0 THEN CAST(array({nothing}) AS {kind}) ELSE CAST({split} AS {kind}) END"
    )


def _texts(part: str, columns: Sequence[Column]) -> Iterator[str]:
    """The texts of one image, under positional names: a source may have columns of any name."""
    for at, column in enumerate(columns):
        name = literal(column.name)
        before = f"IF(coalesce(map_contains_key(was, {name}), false), was[{name}], now[{name}])"
        text = {"key": f"IF(op = '{DELETE}', {before}, now[{name}])", "before": before, "after": f"now[{name}]"}[part]
        yield f"{text} AS {part}{at}"


_PRESENT = {
    "key": "now IS NOT NULL",
    "before": f"op IN ('{UPDATE}', '{DELETE}') AND now IS NOT NULL AND has_was",
    "after": f"op IN ('{CREATE}', '{UPDATE}') AND now IS NOT NULL",
}


def _values(part: str, columns: Sequence[Column], values: CanalValues) -> str:
    pairs = (f"{literal(c.name)}, {values.from_event(c, f'{part}{at}')}" for at, c in enumerate(columns))
    return f"IF({_PRESENT[part]}, named_struct({', '.join(pairs)}), NULL)"


def _meta(table: Table, values: CanalValues, sides: Sequence[str]) -> str:
    place = {"n": "n", "pos": "offset", "row": "row_at"}
    fields = {
        **{name: name for name in (*_AS_READ, "op", "origin")},
        "place": _struct({name: f"IF(placed, {value}, NULL)" for name, value in place.items()}),
        "log": _struct({"name": "concat(origin, '/gtid')", "n": "n"}),
        "transaction": "IF(placed, concat(origin, ':', n), NULL)",
        "ts_ms": "ts_ms",
        "snapshot": "CAST(NULL AS string)",
        "defaulted": "false",
        "other_table": "other_table",
        "bad": f"IF(other_table IS NULL, {_bad(table, values, sides)}, NULL)",
        "unknown": f"IF(other_table IS NULL, {_unknown(table)}, NULL)",
    }
    return f"{_struct(fields)} AS cdc"


def _struct(fields: Mapping[str, str]) -> str:
    pairs = (f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({', '.join(pairs)})"


def _bad(table: Table, values: CanalValues, sides: Sequence[str]) -> str:
    """Why a record cannot be applied: the first reason that holds, or NULL."""
    reasons = [
        "WHEN garbled IS NOT NULL THEN garbled",
        "WHEN no_value OR corrupt THEN 'the value is not JSON'",
        "WHEN op IS NULL THEN 'the value is not a change event: it has no type'",
        f"WHEN op NOT IN {OPS} THEN concat('unknown type ', op)",
        "WHEN NOT placed THEN 'the event has no position: its gtid is not the set of one server without a hole'",
        f"WHEN op <> '{TRUNCATE}' AND now IS NULL THEN 'the event has no row'",
        "WHEN uneven THEN 'the event has not an old row for each row'",
    ]
    for part, whose in (("key", "the key's"), ("after", "the row's"), ("before", "the old row's")):
        columns = table.key_columns if part == "key" else table.mirrored
        wanted = bool(table.key) if part == "key" else part in sides and (part == "after" or table.keyless)
        if wanted:
            wrong = _wrong_columns(part, columns, values)
            said = f"concat('{quoted(whose)} column ', array_join({wrong}, ', '), ' cannot be decoded')"
            reasons.append(f"WHEN {_PRESENT[part]} AND size({wrong}) > 0 THEN {said}")
    return f"CASE {' '.join(reasons)} END"


def _wrong_columns(part: str, columns: Sequence[Column], values: CanalValues) -> str:
    wrong = (_wrong(part, at, column, values) for at, column in enumerate(columns))
    return f"array_compact(array({', '.join(wrong)}))"


def _wrong(part: str, at: int, column: Column, values: CanalValues) -> str:
    """The column's name if its text is no value of its type, or its required value is missing."""
    text, value = f"{part}{at}", f"{part}.{quote_ident(column.name)}"
    meant = "false" if part == "key" or not column.nullable else f"{text} IS NULL"
    if other := values.reads_as_null(column, text):
        meant += f" OR {other}"
    return f"IF({value} IS NULL AND NOT coalesce({meant}, false), {literal(column.name)}, NULL)"


def _unknown(table: Table) -> str:
    known = ", ".join(literal(column.name) for column in table.mirrored)
    extra = f"array_except(map_keys(now), array({known}))"
    return f"IF(size({extra}) > 0, {extra}, NULL)"
