"""Debezium's events, decoded: a DataFrame of raw records → one row per record of one table.

The record's JSON is parsed with every value as its raw text; connectors/debezium/values/mysql.py says how each text becomes a value of
the sink. A record that cannot be read is not dropped: it comes out with the reason in `cdc.bad`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_cdc.connectors.debezium.values.mysql import from_event
from airflow_cdc.connectors.debezium.values.mysql_charsets import doubt
from airflow_cdc.core.types import Instant, Json
from airflow_cdc.spark_apps.driver.sql import literal, quote_ident, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.connectors.debezium.config import ConnectorSettings
    from airflow_cdc.connectors.debezium.values.mysql import DecodeModes
    from airflow_cdc.core.table import Column, Table

RAW_SCHEMA = "topic string, partition int, offset bigint, key binary, value binary"

CREATE, UPDATE, DELETE, READ, TRUNCATE, TOMBSTONE = "c", "u", "d", "r", "t", "tombstone"
SIDES = ("before", "after")
WITH_AFTER = (CREATE, UPDATE, READ)
WITH_BEFORE = (UPDATE, DELETE)

_SOURCE = (
    "source struct<db: string, `table`: string, gtid: string, server_id: bigint, file: string, pos: bigint,"
    " `row`: int, ts_ms: bigint, snapshot: string>"
)
_FIELDS = f"op: string, before: string, after: string, {_SOURCE.replace('source struct', 'source: struct', 1)}"
_BODY = f"op string, before string, after string, {_SOURCE}"
_ENVELOPE = f"payload struct<{_FIELDS}>, {_BODY}, cdc_corrupt string"
_CORRUPT = "map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', 'cdc_corrupt')"
_MAP = "map<string,string>"
_POSITION = ("gtid", "server_id", "file", "pos", "row", "ts_ms", "snapshot")

# A text that is read as NULL on purpose (connectors/debezium/values/mysql.py), so that it is no sign of a wrong value:
# the instant 0 stands for a zero date in a nullable TIMESTAMP.
_READ_AS_NULL = "1970-01-01T00:00:00"
# Why a JSON value cannot be decoded.
_JSON_DOUBT = "no JSON, or a negative TIME of MySQL's own, which Debezium garbles"


def decode(raw: DataFrame, table: Table, settings: ConnectorSettings, sides: Sequence[str] = SIDES) -> DataFrame:
    """Records (RAW_SCHEMA, any topics) → the records of `table`, one row each, in no particular order.

    Columns:
        cdc: struct(topic, partition, offset, op, gtid, server_id, file, pos, row, ts_ms, snapshot, stranger, bad,
            unknown). `op` is c, u, d, r, t or tombstone; `bad` says why the record cannot be applied, else NULL;
            `stranger` is the "schema.table" of a change that belongs to another table (its other columns mean
            nothing then); `unknown` are the names of columns that the definition does not have, else NULL.
        key: struct of the key's columns in sink types (a keyless table has no such column).
        before, after: structs of all mirrored columns in sink types; NULL where the event has none. Only those in
            `sides` are decoded, and only in them a wrong value makes a record bad.

    Raises SchemaError if the connector's modes cannot carry a column exactly.
    """
    # text instead of Column objects: a wide table has thousands, and each costs a call into the JVM
    # only a key of columns with these names can be taken for one with its schema around it
    wrapped = settings.keys_wrapped if {"schema", "payload"} <= {*table.key} else None
    opened = _opened(raw.where(f"topic = {literal(settings.topic_of(table.full_name))}"), wrapped)
    marked = opened.selectExpr("*", f"{_stranger(table, settings)} AS stranger")
    parts = [("key", table.key_columns)] if table.key else []
    parts += [(side, table.mirrored) for side in sides]
    texts = (text for part, columns in parts for text in _texts(part[0], f"{part}_map", columns))
    values = (f"{_values(p[0], f'{p}_map', columns, settings.modes)} AS {p}" for p, columns in parts)
    decoded = marked.selectExpr("*", *texts).selectExpr("*", *values)
    return decoded.selectExpr(_meta(table, sides), *(part for part, _ in parts))


# The key's columns as a map, by whether its schema stands around it: {"schema": {"type": "struct", …}, "payload": …}.
_UNWRAPPED = f"from_json(k['payload'], '{_MAP}')"
_KEY_MAP = {
    True: _UNWRAPPED,
    False: "k",
    None: f"IF(get_json_object(k['schema'], '$.type') = 'struct', {_UNWRAPPED}, k)",
}


def _opened(raw: DataFrame, keys_wrapped: bool | None) -> DataFrame:
    """Parse once: the envelope with its images as maps of raw JSON text, with or without the schema around it."""
    texts = raw.selectExpr(
        "topic",
        "partition",
        "offset",
        "value IS NULL AS no_value",
        *(
            f"IF(is_valid_utf8(CAST({side} AS string)), CAST({side} AS string), NULL) AS {side}_text"
            for side in ("key", "value")
        ),
        *(
            f"{side} IS NOT NULL AND NOT is_valid_utf8(CAST({side} AS string)) AS {side}_garbled"
            for side in ("key", "value")
        ),
    )
    parsed = texts.selectExpr(
        "*",
        f"from_json(value_text, '{_ENVELOPE}', {_CORRUPT}) AS e",
        f"from_json(key_text, '{_MAP}') AS k",
    )
    plain = "named_struct('op', e.op, 'before', e.before, 'after', e.after, 'source', e.source)"
    bodies = parsed.selectExpr(
        "topic",
        "partition",
        "offset",
        "no_value",
        "key_garbled",
        "value_garbled",
        "e.cdc_corrupt IS NOT NULL AS corrupt",
        f"coalesce(e.payload, {plain}) AS body",
        f"{_KEY_MAP[keys_wrapped]} AS key_map",
    )
    return bodies.selectExpr(
        "*",
        f"IF(no_value, '{TOMBSTONE}', body.op) AS op",
        f"from_json(body.before, '{_MAP}') AS before_map",
        f"from_json(body.after, '{_MAP}') AS after_map",
    )


def _stranger(table: Table, settings: ConnectorSettings) -> str:
    """In a shared topic a change names its table; a tombstone has only the router's mark in its key."""
    named = "concat(body.source.db, '.', body.source.`table`)"
    other = f"WHEN {named} <> {literal(table.full_name)} THEN {named}"
    mark = settings.key_mark(table.full_name)
    if mark is not None:
        marked = f"key_map[{literal(mark.field)}]"
        other += f" WHEN body.source IS NULL AND {marked} <> {literal(mark.value)} THEN {marked}"
    return f"CASE {other} END"


def _texts(prefix: str, image: str, columns: Sequence[Column]) -> list[str]:
    # positional names: a source may have columns of any name
    return [f"{image}[{literal(column.name)}] AS {prefix}{at}" for at, column in enumerate(columns)]


def _values(prefix: str, image: str, columns: Sequence[Column], modes: DecodeModes) -> str:
    pairs = (f"{literal(c.name)}, {from_event(c, modes, f'{prefix}{at}')}" for at, c in enumerate(columns))
    return f"IF({image} IS NULL, NULL, named_struct({', '.join(pairs)}))"


def _meta(table: Table, sides: Sequence[str]) -> str:
    fields = {
        **{name: name for name in ("topic", "partition", "offset", "op")},
        **{name: f"body.source.`{name}`" for name in _POSITION},
        "stranger": "stranger",
        "bad": f"IF(stranger IS NULL, {_bad(table, sides)}, NULL)",
        "unknown": f"IF(stranger IS NULL, {_unknown(table)}, NULL)",
    }
    pairs = ", ".join(f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({pairs}) AS cdc"


def _bad(table: Table, sides: Sequence[str]) -> str:
    """Why a record cannot be applied: the first reason that holds, or NULL."""
    has_after = f"op IN {WITH_AFTER}"
    reasons = [
        "WHEN key_garbled THEN 'the key is not valid UTF-8'",
        "WHEN value_garbled THEN 'the value is not valid UTF-8'",
        "WHEN NOT no_value AND (corrupt OR body IS NULL) THEN 'the value is not JSON'",
        "WHEN op IS NULL THEN 'the value is not a change event: it has no op'",
        f"WHEN op NOT IN {(*WITH_AFTER, DELETE, TRUNCATE, TOMBSTONE)} THEN concat('unknown op ', op)",
        f"WHEN op <> '{TOMBSTONE}' AND body.source.file IS NULL THEN 'the event has no source position'",
        f"WHEN {has_after} AND after_map IS NULL THEN 'the event has no row after the change'",
    ]
    rows = [] if table.keyless else [(f"op <> '{TRUNCATE}'", "the key's", "k", "key", "key_map", table.key_columns)]
    if "after" in sides:
        rows.append((has_after, "the row's", "a", "after", "after_map", table.mirrored))
    if table.keyless:
        has_before = f"op IN {WITH_BEFORE}"
        reasons.append(f"WHEN {has_before} AND before_map IS NULL THEN 'the event has no row before the change'")
        if "before" in sides:
            rows.append((has_before, "the old row's", "b", "before", "before_map", table.mirrored))
    for when, whose, prefix, image, texts, columns in rows:
        if image == "key":
            reasons.append(f"WHEN {when} AND {texts} IS NULL THEN 'the record has no key'")
        wrong = _wrong_columns(prefix, image, columns, in_key=image == "key")
        reasons.append(
            f"WHEN {when} AND size({wrong}) > 0 THEN concat('{quoted(whose)} column ', array_join({wrong}, ', '), ' cannot be decoded')"
        )
    return f"CASE {' '.join(reasons)} END"


def _wrong_columns(prefix: str, image: str, columns: Sequence[Column], *, in_key: bool) -> str:
    """Names of columns whose text is no value of their type, or that must have a value and have none."""
    wrong = (
        _wrong(f"{prefix}{at}", f"{image}.{quote_ident(c.name)}", c, in_key=in_key) for at, c in enumerate(columns)
    )
    return f"array_compact(array({', '.join(wrong)}))"


def _wrong(text: str, value: str, column: Column, *, in_key: bool) -> str:
    meant = "false" if in_key or not column.nullable else f"{text} IS NULL"
    if column.nullable and isinstance(column.type, Instant):
        meant += f" OR startswith({text}, '{_READ_AS_NULL}')"
    why = doubt(column) or (_JSON_DOUBT if isinstance(column.type, Json) else "")
    named = literal(f"{column.name} ({why})" if why else column.name)
    return f"IF({value} IS NULL AND NOT coalesce({meant}, false), {named}, NULL)"


def _unknown(table: Table) -> str:
    known = ", ".join(literal(column.name) for column in table.mirrored)
    found = "map_keys(coalesce(after_map, before_map))" if table.keyless else "map_keys(after_map)"
    extra = f"array_except({found}, array({known}))"
    return f"IF(size({extra}) > 0, {extra}, NULL)"
