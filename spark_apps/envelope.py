"""Debezium's events, decoded: a DataFrame of raw records → one row per record of one table.

The record's JSON is parsed with every value as its raw text; core/types.py says how each text becomes a value of
the sink. A record that cannot be read is not dropped: it comes out with the reason in `cdc.bad`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.core.chunk import quote_ident
from airflow_cdc.core.types import from_event

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from airflow_cdc.core.connector_config import ConnectorSettings
    from airflow_cdc.core.table import ColumnDef, TableDef
    from airflow_cdc.core.types import DecodeModes

RAW_SCHEMA = "topic string, partition int, offset bigint, key binary, value binary"

CREATE, UPDATE, DELETE, READ, TRUNCATE, TOMBSTONE = "c", "u", "d", "r", "t", "tombstone"
WITH_AFTER = (CREATE, UPDATE, READ)
WITH_BEFORE = (UPDATE, DELETE)

_SOURCE = (
    "source struct<db: string, `table`: string, gtid: string, server_id: bigint, file: string, pos: bigint,"
    " `row`: int, ts_ms: bigint, snapshot: string>"
)
_FIELDS = f"op: string, before: string, after: string, {_SOURCE.replace('source struct', 'source: struct', 1)}"
_BODY = f"op string, before string, after string, {_SOURCE}"
_ENVELOPE = f"payload struct<{_FIELDS}>, {_BODY}, cdc_corrupt string"
_CORRUPT = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "cdc_corrupt"}

# A text that is read as NULL on purpose (core/types.py), so that it is no sign of a wrong value: the instant 0
# stands for a zero date in a nullable TIMESTAMP.
_READ_AS_NULL = {"timestamp": "1970-01-01T00:00:00"}


def decode(raw: DataFrame, table: TableDef, settings: ConnectorSettings) -> DataFrame:
    """Records (RAW_SCHEMA, any topics) → the records of `table`, one row each, in no particular order.

    Columns:
        cdc: struct(topic, partition, offset, op, gtid, server_id, file, pos, row, ts_ms, snapshot, stranger, bad,
            unknown). `op` is c, u, d, r, t or tombstone; `bad` says why the record cannot be applied, else NULL;
            `stranger` is the "schema.table" of a change that belongs to another table (its other columns mean
            nothing then); `unknown` are the names of columns that the definition does not have, else NULL.
        key: struct of the key's columns in sink types (a keyless table has no such column).
        before, after: structs of all mirrored columns in sink types; NULL where the event has none.

    Raises SchemaError if the connector's modes cannot carry a column exactly.
    """
    records = _envelopes(_of_topic(raw, settings.topic_of(table.full_name)))
    marked = _attributed(records, table, settings)
    texts = marked.select("*", *_texts("k", "key_map", table.key_columns), *_image_texts(table))
    values = texts.select(
        "*",
        *([_values("k", "key_map", table.key_columns, settings.modes).alias("key")] if table.key else []),
        _values("b", "before_map", table.mirrored, settings.modes).alias("before"),
        _values("a", "after_map", table.mirrored, settings.modes).alias("after"),
    )
    return values.select(_meta(table), *(["key"] if table.key else []), "before", "after")


def _of_topic(raw: DataFrame, topic: str) -> DataFrame:
    return raw.where(fn.col("topic") == topic)


def _envelopes(raw: DataFrame) -> DataFrame:
    """Parse once: the envelope with images as raw JSON text, with or without the schema around it."""
    texts = raw.select(
        "topic", "partition", "offset", _text("key").alias("key_text"), _text("value").alias("value_text"),
        *(fn.expr(f"{side} IS NOT NULL AND NOT is_valid_utf8(CAST({side} AS string))").alias(f"{side}_garbled") for side in ("key", "value")),
    )
    parsed = texts.withColumn("e", fn.from_json("value_text", _ENVELOPE, _CORRUPT))
    keyed = parsed.withColumn("ks", fn.from_json("key_text", "schema struct<type: string>, payload string"))
    body = fn.expr("coalesce(e.payload, named_struct('op', e.op, 'before', e.before, 'after', e.after, 'source', e.source))")
    opened = keyed.select(
        "topic", "partition", "offset", "key_garbled", "value_garbled",
        (fn.col("value_text").isNull() & ~fn.col("value_garbled")).alias("no_value"),
        fn.col("e.cdc_corrupt").isNotNull().alias("corrupt"),
        body.alias("body"),
        fn.expr("IF(ks.schema.type IS NOT NULL, ks.payload, key_text)").alias("key_json"),
    )
    return opened.select(
        "*",
        fn.from_json("key_json", "map<string,string>").alias("key_map"),
        fn.from_json("body.before", "map<string,string>").alias("before_map"),
        fn.from_json("body.after", "map<string,string>").alias("after_map"),
    )


def _text(side: str) -> Column:
    return fn.expr(f"IF(is_valid_utf8(CAST({side} AS string)), CAST({side} AS string), NULL)")


def _attributed(records: DataFrame, table: TableDef, settings: ConnectorSettings) -> DataFrame:
    """Add `stranger`: in a shared topic a change names its table, a tombstone has only the router's mark in its key."""
    named = fn.expr("concat_ws('.', body.source.db, body.source.`table`)")
    other = fn.when(named.contains(".") & (named != table.full_name), named)
    mark = settings.key_mark(table.full_name)
    if mark is not None:
        marked = fn.col("key_map")[mark.field]
        other = fn.when(fn.col("body.source").isNull() & (marked != mark.value), marked).otherwise(other)
    op = fn.when(fn.col("no_value"), fn.lit(TOMBSTONE)).otherwise(fn.col("body.op"))
    return records.select("*", other.alias("stranger"), op.alias("op"))


def _texts(prefix: str, image: str, columns: Sequence[ColumnDef]) -> list[Column]:
    # positional names: a source may have columns of any name
    return [fn.col(image)[column.name].alias(f"{prefix}{at}") for at, column in enumerate(columns)]


def _image_texts(table: TableDef) -> list[Column]:
    return _texts("b", "before_map", table.mirrored) + _texts("a", "after_map", table.mirrored)


def _values(prefix: str, image: str, columns: Sequence[ColumnDef], modes: DecodeModes) -> Column:
    pairs = (f"{_literal(c.name)}, {from_event(c, modes, f'{prefix}{at}')}" for at, c in enumerate(columns))
    return fn.expr(f"IF({image} IS NULL, NULL, named_struct({', '.join(pairs)}))")


def _meta(table: TableDef) -> Column:
    names = ("gtid", "server_id", "file", "pos", "row", "ts_ms", "snapshot")
    return fn.struct(
        "topic", "partition", "offset", "op",
        *(fn.col(f"body.source.{quote_ident(name)}").alias(name) for name in names),
        "stranger",
        fn.when(fn.col("stranger").isNull(), _bad(table)).alias("bad"),
        fn.when(fn.col("stranger").isNull(), _unknown(table)).alias("unknown"),
    ).alias("cdc")


def _bad(table: TableDef) -> Column:
    """Why a record cannot be applied: the first reason that holds, or NULL."""
    op, of_row = fn.col("op"), fn.col("op") != TRUNCATE
    after = op.isin(*WITH_AFTER)
    before = op.isin(*WITH_BEFORE) & fn.lit(table.keyless)
    reasons = [
        fn.when(fn.col("key_garbled"), fn.lit("the key is not valid UTF-8")),
        fn.when(fn.col("value_garbled"), fn.lit("the value is not valid UTF-8")),
        fn.when(~fn.col("no_value") & (fn.col("corrupt") | fn.col("body").isNull()), fn.lit("the value is not JSON")),
        fn.when(op.isNull(), fn.lit("the value is not a change event: it has no op")),
        fn.when(~op.isin(*WITH_AFTER, DELETE, TRUNCATE, TOMBSTONE), fn.concat(fn.lit("unknown op "), op)),
        fn.when((op != TOMBSTONE) & fn.col("body.source.file").isNull(), fn.lit("the event has no source position")),
        fn.when(after & fn.col("after_map").isNull(), fn.lit("the event has no row after the change")),
        fn.when(before & fn.col("before_map").isNull(), fn.lit("the event has no row before the change")),
        fn.when(of_row, _bad_columns("the key's", "k", "key", "key_map", table.key_columns, nullable=False)) if table.key else None,
        fn.when(after, _bad_columns("the row's", "a", "after", "after_map", table.mirrored, nullable=True)),
        fn.when(before, _bad_columns("the old row's", "b", "before", "before_map", table.mirrored, nullable=True)) if table.keyless else None,
    ]
    return fn.coalesce(*(reason for reason in reasons if reason is not None))


def _bad_columns(whose: str, prefix: str, image: str, texts: str, columns: Sequence[ColumnDef], *, nullable: bool) -> Column:
    """Names of columns whose text is no value of their type, or that must have a value and have none."""
    wrong = [_wrong_value(f"{prefix}{at}", image, column, nullable=nullable) for at, column in enumerate(columns)]
    names = fn.array_compact(fn.array(*wrong))
    text = fn.concat(fn.lit(f"{whose} column "), fn.array_join(names, ", "), fn.lit(" cannot be decoded"))
    return fn.when(fn.col(texts).isNull(), fn.lit(f"{whose} columns are missing")).when(fn.size(names) > 0, text)


def _wrong_value(text: str, image: str, column: ColumnDef, *, nullable: bool) -> Column:
    raw, value = fn.col(text), fn.col(f"{image}.{quote_ident(column.name)}")
    empty = _READ_AS_NULL.get(column.data_type)
    meant = raw.isNull() if nullable and column.nullable else fn.lit(False)
    if empty is not None and column.nullable:
        meant = meant | raw.startswith(empty)
    return fn.when(value.isNull() & ~fn.coalesce(meant, fn.lit(False)), fn.lit(column.name))


def _unknown(table: TableDef) -> Column:
    known = fn.array(*(fn.lit(column.name) for column in table.mirrored))
    found = fn.map_keys(fn.coalesce("after_map", "before_map"))
    extra = fn.array_except(found, known)
    return fn.when(fn.size(extra) > 0, extra)


def _literal(name: str) -> str:
    # a column's name as a Spark SQL text literal; raw strings know no escapes, so the quote is doubled instead
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
