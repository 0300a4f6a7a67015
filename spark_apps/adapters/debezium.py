"""Debezium's events, decoded: a DataFrame of raw records → one row per record of one table.

The record's JSON is parsed with every value as its raw text; connectors/debezium/values/ says how each text becomes a value
of the sink. A record that cannot be read is not dropped: it comes out with the reason in `cdc.bad`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_cdc.spark_apps.apply.record import (
    CREATE,
    DELETE,
    OPS,
    READ,
    SIDES,
    SNAPSHOT_BEGINS,
    SNAPSHOT_GOES_ON,
    TOMBSTONE,
    TRUNCATE,
    UPDATE,
)
from airflow_cdc.spark_apps.driver.sql import literal, quote_ident, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.connectors.debezium.config import ConnectorSettings
    from airflow_cdc.connectors.debezium.values.carriage import EventValues
    from airflow_cdc.core.table import Column, Table

WITH_AFTER = (CREATE, UPDATE, READ)
WITH_BEFORE = (UPDATE, DELETE)

_CORRUPT = "map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', 'cdc_corrupt')"
_MAP = "map<string,string>"
# Of every `source` block, whatever the database.
_COMMON = "ts_ms: bigint, snapshot: string"
_BEGINS = ("first", "first_in_data_collection")
# The block in the parsed event.
SOURCE = "body.source"


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """What one kind of database puts into the `source` of an event, as Spark SQL over SOURCE.

    Attributes:
        fields: of the block, as "name: type, …", beyond those that all blocks have.
        table: the event's table as "schema.table".
        placed: whether it names a place in the database's log.
        origin, n, pos, row, log, log_n, transaction: the fields of record.py; asked only where `placed`.
        whole_before: whether the row before a change is whole; where not, an event of a table with a key has none.
        beside: further fields of the event beside `source`, by name, with their types.
    """

    fields: str
    table: str
    placed: str
    origin: str
    n: str
    pos: str
    row: str
    log: str
    log_n: str
    transaction: str
    whole_before: bool = True
    beside: Mapping[str, str] = field(default_factory=dict)

    @property
    def envelope(self) -> str:
        """The schema of an event, with or without the schema around it."""
        block = f"struct<{self.fields}, {_COMMON}>"
        fields = {"op": "string", "before": "string", "after": "string", "source": block, **self.beside}
        inside = ", ".join(f"{name}: {kind}" for name, kind in fields.items())
        outside = ", ".join(f"{name} {kind}" for name, kind in fields.items())
        return f"payload struct<{inside}>, {outside}, cdc_corrupt string"

    @property
    def plain(self) -> str:
        """An event without the schema around it, as a struct of the same fields as `payload`."""
        return _struct({name: f"e.{name}" for name in ("op", "before", "after", "source", *self.beside)})


def decode(
    raw: DataFrame, table: Table, settings: ConnectorSettings, block: SourceBlock, sides: Sequence[str] = SIDES
) -> DataFrame:
    """Records (RAW_SCHEMA, any topics) → the records of `table` in the form of record.py, in no particular order.

    Only the images in `sides` are decoded, and only in them a wrong value makes a record bad. Raises SchemaError if the
    connector's modes cannot carry a column exactly.
    """
    # text instead of Column objects: a wide table has thousands, and each costs a call into the JVM
    # only a key of columns with these names can be taken for one with its schema around it
    wrapped = settings.keys_wrapped if {"schema", "payload"} <= {*table.key} else None
    own = raw.where(f"topic = {literal(settings.topic_of(table.full_name))}")
    opened = _opened(own, wrapped, block, before=block.whole_before or table.keyless)
    marked = opened.selectExpr("*", f"{_other_table(table, settings, block)} AS other_table")
    parts = [("key", table.key_columns)] if table.key else []
    parts += [(side, table.mirrored) for side in sides]
    texts = (text for part, columns in parts for text in _texts(part[0], f"{part}_map", columns))
    values = (f"{_values(p[0], f'{p}_map', columns, settings.values)} AS {p}" for p, columns in parts)
    decoded = marked.selectExpr("*", *texts).selectExpr("*", *values)
    return decoded.selectExpr(_meta(table, settings.values, block, sides), *(part for part, _ in parts))


# The key's columns as a map, by whether its schema stands around it: {"schema": {"type": "struct", …}, "payload": …}.
_UNWRAPPED = f"from_json(k['payload'], '{_MAP}')"
_KEY_MAP = {
    True: _UNWRAPPED,
    False: "k",
    None: f"IF(get_json_object(k['schema'], '$.type') = 'struct', {_UNWRAPPED}, k)",
}


def _opened(raw: DataFrame, keys_wrapped: bool | None, block: SourceBlock, *, before: bool) -> DataFrame:
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
        f"from_json(value_text, '{block.envelope}', {_CORRUPT}) AS e",
        f"from_json(key_text, '{_MAP}') AS k",
    )
    bodies = parsed.selectExpr(
        "topic",
        "partition",
        "offset",
        "no_value",
        "key_garbled",
        "value_garbled",
        "e.cdc_corrupt IS NOT NULL AS corrupt",
        f"coalesce(e.payload, {block.plain}) AS body",
        f"{_KEY_MAP[keys_wrapped]} AS key_map",
    )
    return bodies.selectExpr(
        "*",
        f"IF(no_value, '{TOMBSTONE}', body.op) AS op",
        f"from_json({'body.before' if before else 'CAST(NULL AS string)'}, '{_MAP}') AS before_map",
        f"from_json(body.after, '{_MAP}') AS after_map",
    )


def _other_table(table: Table, settings: ConnectorSettings, block: SourceBlock) -> str:
    """In a shared topic a change names its table; a tombstone has only the router's mark in its key."""
    named = block.table
    other = f"WHEN {named} <> {literal(table.full_name)} THEN {named}"
    mark = settings.key_mark(table.full_name)
    if mark is not None:
        marked = f"key_map[{literal(mark.field)}]"
        other += f" WHEN {SOURCE} IS NULL AND {marked} <> {literal(mark.value)} THEN {marked}"
    return f"CASE {other} END"


def _texts(prefix: str, image: str, columns: Sequence[Column]) -> list[str]:
    # positional names: a source may have columns of any name
    return [f"{image}[{literal(column.name)}] AS {prefix}{at}" for at, column in enumerate(columns)]


def _values(prefix: str, image: str, columns: Sequence[Column], values: EventValues) -> str:
    pairs = (f"{literal(c.name)}, {values.from_event(c, f'{prefix}{at}')}" for at, c in enumerate(columns))
    return f"IF({image} IS NULL, NULL, named_struct({', '.join(pairs)}))"


def _meta(table: Table, values: EventValues, block: SourceBlock, sides: Sequence[str]) -> str:
    snapshot = f"{SOURCE}.snapshot"
    fields = {
        **{name: name for name in ("topic", "partition", "offset", "op")},
        **_place(block),
        "ts_ms": f"{SOURCE}.ts_ms",
        "snapshot": f"CASE WHEN {snapshot} IN {_BEGINS} THEN '{SNAPSHOT_BEGINS}'"
        f" WHEN {snapshot} <> 'false' THEN '{SNAPSHOT_GOES_ON}' END",
        # the field is absent in a streamed change, and has this default
        "defaulted": f"coalesce({snapshot} = 'false', false)",
        "other_table": "other_table",
        "bad": f"IF(other_table IS NULL, {_bad(table, values, block, sides)}, NULL)",
        "unknown": f"IF(other_table IS NULL, {_unknown(table)}, NULL)",
    }
    return f"{_struct(fields)} AS cdc"


def _place(block: SourceBlock) -> dict[str, str]:
    """Where the change stands, NULL where the event names no place."""
    place = {"n": block.n, "pos": block.pos, "row": block.row}
    log = {"name": f"IF({block.placed}, {block.log}, NULL)", "n": block.log_n}
    origin = f"IF({block.placed}, {block.origin}, NULL)"
    return {"origin": origin, "place": _struct(place), "log": _struct(log), "transaction": block.transaction}


def _struct(fields: Mapping[str, str]) -> str:
    pairs = ", ".join(f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({pairs})"


def _bad(table: Table, values: EventValues, block: SourceBlock, sides: Sequence[str]) -> str:
    """Why a record cannot be applied: the first reason that holds, or NULL."""
    has_after = f"op IN {WITH_AFTER}"
    reasons = [
        "WHEN key_garbled THEN 'the key is not valid UTF-8'",
        "WHEN value_garbled THEN 'the value is not valid UTF-8'",
        "WHEN NOT no_value AND (corrupt OR body IS NULL) THEN 'the value is not JSON'",
        "WHEN op IS NULL THEN 'the value is not a change event: it has no op'",
        f"WHEN op NOT IN {OPS} THEN concat('unknown op ', op)",
        f"WHEN op <> '{TOMBSTONE}' AND NOT coalesce({block.placed}, false) THEN 'the event has no source position'",
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
        wrong = _wrong_columns(values, prefix, image, columns)
        reasons.append(
            f"WHEN {when} AND size({wrong}) > 0 THEN concat('{quoted(whose)} column ', array_join({wrong}, ', '), ' cannot be decoded')"
        )
    return f"CASE {' '.join(reasons)} END"


def _wrong_columns(values: EventValues, prefix: str, image: str, columns: Sequence[Column]) -> str:
    """Names of columns whose text is no value of their type, or that must have a value and have none."""
    wrong = (
        _wrong(values, f"{prefix}{at}", f"{image}.{quote_ident(c.name)}", c, in_key=image == "key")
        for at, c in enumerate(columns)
    )
    return f"array_compact(array({', '.join(wrong)}))"


def _wrong(values: EventValues, text: str, value: str, column: Column, *, in_key: bool) -> str:
    meant = "false" if in_key or not column.nullable else f"{text} IS NULL"
    if other := values.reads_as_null(column, text):
        meant += f" OR {other}"
    why = values.why_not(column)
    named = literal(f"{column.name} ({why})" if why else column.name)
    return f"IF({value} IS NULL AND NOT coalesce({meant}, false), {named}, NULL)"


def _unknown(table: Table) -> str:
    known = ", ".join(literal(column.name) for column in table.mirrored)
    names = "map_keys(coalesce(after_map, before_map))" if table.keyless else "map_keys(after_map)"
    extra = f"array_except({names}, array({known}))"
    return f"IF(size({extra}) > 0, {extra}, NULL)"
