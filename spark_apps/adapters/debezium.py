"""Decode Debezium's events: a DataFrame of raw records → one row per record of one table.

The record's JSON is parsed with every value as raw text; connectors/debezium/values/ defines how each text becomes a
value of the sink. A record that cannot be read is not dropped: it is returned with the reason in `cdc.bad`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from airflow_cdc.spark_apps.driver.functions import utf8_text
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
_NONE = f"CAST(NULL AS {_MAP})"
# Fields of every `source` block, whatever the database.
_COMMON = "ts_ms: bigint, snapshot: string"
_BEGINS = ("first", "first_in_data_collection")
# The block in the opened event.
SOURCE = "source"


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """What one kind of database writes into an event's `source`, as Spark SQL over SOURCE.

    Attributes:
        fields: fields of the block as "name: type, …", in addition to those that all blocks have.
        table: the event's table as "schema.table".
        placed: whether it contains a place in the database's log.
        origin, n, pos, row, log, log_n, transaction: the fields of record.py; used only where `placed`.
        whole_before: whether before images are complete; if not, events of a table with a key get no before image.
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

    def envelope(self, images: Sequence[str]) -> str:
        """The schema of the event fields we read, with or without a schema envelope around the event."""
        block = f"struct<{self.fields}, {_COMMON}>"
        fields = {"op": "string", **dict.fromkeys(images, _MAP), "source": block, **self.beside}
        inside = ", ".join(f"{name}: {kind}" for name, kind in fields.items())
        outside = ", ".join(f"{name} {kind}" for name, kind in fields.items())
        return f"payload struct<{inside}>, {outside}, cdc_corrupt string"


def decode(
    raw: DataFrame, table: Table, settings: ConnectorSettings, block: SourceBlock, sides: Sequence[str] = SIDES
) -> DataFrame:
    """Records (RAW_SCHEMA, any topics) → the records of `table` in the form of record.py, in no particular order.

    Only the images in `sides` are decoded, and only a wrong value in one of them makes a record bad. Raises SchemaError
    if a column cannot be transferred exactly with the connector's settings.
    """
    # only a key with columns of these names can be mistaken for one in a schema envelope
    wrapped = settings.keys_wrapped if {"schema", "payload"} <= {*table.key} else None
    before = table.keyless or ("before" in sides and block.whole_before)
    images = SIDES if before else ("after",)
    opened = _opened(raw.where(f"topic = {literal(settings.topic_of(table.full_name))}"), wrapped, block, images)
    parts = [("key", table.key_columns)] if table.key else []
    parts += [(side, table.mirrored) for side in sides]
    # text instead of Column objects: a wide table has thousands, and each costs a call into the JVM
    texts = (text for part, columns in parts for text in _texts(part[0], f"{part}_map", columns))
    flat = opened.selectExpr(*_AS_READ, *_named(_source_fields(table, settings, block)), *texts)
    values = (f"{_values(p[0], f'has_{p}', columns, settings.values)} AS {p}" for p, columns in parts)
    return flat.selectExpr("*", *values).selectExpr(_meta(table, settings.values, sides), *(part for part, _ in parts))


# Fields of an opened record that are passed on unchanged.
_AS_READ = ("topic", "partition", "offset", "no_value", "key_garbled", "value_garbled", "corrupt", "op")


# The key's columns as a map, with and without a schema envelope: {"schema": {"type": "struct", …}, "payload": …}.
_UNWRAPPED = f"from_json(k['payload'], '{_MAP}')"
_KEY_MAP = {
    True: _UNWRAPPED,
    False: "k",
    None: f"IF(get_json_object(k['schema'], '$.type') = 'struct', {_UNWRAPPED}, k)",
}


def _opened(raw: DataFrame, keys_wrapped: bool | None, block: SourceBlock, images: Sequence[str]) -> DataFrame:
    """Parse once: the envelope with its images as maps of raw JSON text, with or without the schema around it."""
    texts = raw.selectExpr(
        "topic",
        "partition",
        "offset",
        *(f"{side} IS NULL AS no_{side}" for side in ("key", "value")),
        *(f"{utf8_text(side)} AS {side}_text" for side in ("key", "value")),
    )
    parsed = texts.selectExpr(
        "*",
        f"from_json(value_text, '{block.envelope(images)}', {_CORRUPT}) AS e",
        f"from_json(key_text, '{_MAP}') AS k",
    )
    fields = (f"{_either(name) if name in images else _NONE} AS {name}_map" for name in SIDES)
    return parsed.selectExpr(
        "topic",
        "partition",
        "offset",
        "no_value",
        *(f"NOT no_{side} AND {side}_text IS NULL AS {side}_garbled" for side in ("key", "value")),
        "e IS NULL OR e.cdc_corrupt IS NOT NULL AS corrupt",
        f"IF(no_value, '{TOMBSTONE}', {_either('op')}) AS op",
        *fields,
        *(f"{_either(name)} AS {name}" for name in ("source", *block.beside)),
        f"{_KEY_MAP[keys_wrapped]} AS key_map",
    )


def _either(name: str) -> str:
    """A field of an event with or without the schema around it."""
    return f"IF(e.payload IS NULL, e.{name}, e.payload.{name})"


def _named(fields: Mapping[str, str]) -> Iterator[str]:
    return (f"{text} AS {name}" for name, text in fields.items())


def _source_fields(table: Table, settings: ConnectorSettings, block: SourceBlock) -> dict[str, str]:
    """The event's own metadata, extracted so that its maps need not be carried along."""
    snapshot = f"{SOURCE}.snapshot"
    maps = ("key", *SIDES)
    return {
        **_place(block),
        "placed": f"coalesce({block.placed}, false)",
        "ts_ms": f"{SOURCE}.ts_ms",
        "snapshot": f"CASE WHEN {snapshot} IN {_BEGINS} THEN '{SNAPSHOT_BEGINS}'"
        f" WHEN {snapshot} <> 'false' THEN '{SNAPSHOT_GOES_ON}' END",
        # the field is absent in a streamed change, and has this default
        "defaulted": f"coalesce({snapshot} = 'false', false)",
        "other_table": _other_table(table, settings, block),
        "unknown": _unknown(table),
        **{f"has_{name}": f"{name}_map IS NOT NULL" for name in maps},
    }


def _other_table(table: Table, settings: ConnectorSettings, block: SourceBlock) -> str:
    """The table of a record in a shared topic: a change names it; a tombstone has only the router's mark in its key."""
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


def _values(prefix: str, present: str, columns: Sequence[Column], values: EventValues) -> str:
    pairs = (f"{literal(c.name)}, {values.from_event(c, f'{prefix}{at}')}" for at, c in enumerate(columns))
    return f"IF({present}, named_struct({', '.join(pairs)}), NULL)"


_PLACE = ("origin", "place", "log", "transaction")


def _meta(table: Table, values: EventValues, sides: Sequence[str]) -> str:
    fields = {
        **{name: name for name in ("topic", "partition", "offset", "op", *_PLACE)},
        **{name: name for name in ("ts_ms", "snapshot", "defaulted", "other_table")},
        "bad": f"IF(other_table IS NULL, {_bad(table, values, sides)}, NULL)",
        "unknown": "IF(other_table IS NULL, unknown, NULL)",
    }
    return f"{_struct(fields)} AS cdc"


def _place(block: SourceBlock) -> dict[str, str]:
    """The change's place in the log; NULL where the event has none."""
    place = {"n": block.n, "pos": block.pos, "row": block.row}
    log = {"name": f"IF({block.placed}, {block.log}, NULL)", "n": block.log_n}
    origin = f"IF({block.placed}, {block.origin}, NULL)"
    return {"origin": origin, "place": _struct(place), "log": _struct(log), "transaction": block.transaction}


def _struct(fields: Mapping[str, str]) -> str:
    pairs = ", ".join(f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({pairs})"


def _bad(table: Table, values: EventValues, sides: Sequence[str]) -> str:
    """Why a record cannot be applied: the first reason that holds, or NULL."""
    has_after = f"op IN {WITH_AFTER}"
    reasons = [
        "WHEN key_garbled THEN 'the key is not valid UTF-8'",
        "WHEN value_garbled THEN 'the value is not valid UTF-8'",
        "WHEN NOT no_value AND corrupt THEN 'the value is not JSON'",
        "WHEN op IS NULL THEN 'the value is not a change event: it has no op'",
        f"WHEN op NOT IN {OPS} THEN concat('unknown op ', op)",
        f"WHEN op <> '{TOMBSTONE}' AND NOT placed THEN 'the event has no source position'",
        f"WHEN {has_after} AND NOT has_after THEN 'the event has no row after the change'",
    ]
    rows = [] if table.keyless else [(f"op <> '{TRUNCATE}'", "the key's", "k", "key", table.key_columns)]
    if "after" in sides:
        rows.append((has_after, "the row's", "a", "after", table.mirrored))
    if table.keyless:
        has_before = f"op IN {WITH_BEFORE}"
        reasons.append(f"WHEN {has_before} AND NOT has_before THEN 'the event has no row before the change'")
        if "before" in sides:
            rows.append((has_before, "the old row's", "b", "before", table.mirrored))
    for when, whose, prefix, image, columns in rows:
        if image == "key":
            reasons.append(f"WHEN {when} AND NOT has_key THEN 'the record has no key'")
        wrong = _wrong_columns(values, prefix, image, columns)
        reasons.append(
            f"WHEN {when} AND size({wrong}) > 0 THEN concat('{quoted(whose)} column ', array_join({wrong}, ', '), ' cannot be decoded')"
        )
    return f"CASE {' '.join(reasons)} END"


def _wrong_columns(values: EventValues, prefix: str, image: str, columns: Sequence[Column]) -> str:
    """Names of columns whose text is not a value of their type, or whose required value is missing."""
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
