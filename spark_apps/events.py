"""The neutral record, one decoded event of one table, and the one decoder (airflow_cdc/events/decoder.py) as Spark's tasks run it.

`decode` turns each change in a raw record (RAW_SCHEMA) into a row:
    cdc: struct of
        topic, partition, offset: where the record is; several rows where it holds several changes, which IN_RECORD orders.
        op: c, u, d, r (a row of the connector's own snapshot), t (truncate) or tombstone.
        origin: the server whose numbering orders the change; NULL where the record has no place in the log.
        place: struct(n, pos, row): the change's place within its origin.
        log: struct(name, n): the series of log files, and the number of the file, in which `pos` is an offset; `name`
            is the origin itself where only the place in its files orders changes.
        transaction: the source's id of the transaction, the same on all servers; NULL where it has none.
        ts_ms: when the change was committed.
        snapshot: 'first' for the first record of one of the connector's own snapshots, 'later' for the rest, else NULL.
        defaulted: whether it was written in a way that replaces NULL with a column's default.
        other_table: "schema.table" of a change that belongs to another table; the other fields then mean nothing.
        bad: why the record cannot be applied, else NULL.
        unknown: names of columns that the definition does not have, else NULL.
    key: struct of the key's columns in sink types; a table without a key has no such column.
    before, after: structs of all mirrored columns in sink types; NULL where the event has none, or not all of it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as fn

from airflow_cdc.events.decoder import FACTS, KEY, Plan, decoder
from airflow_cdc.events.record import RawRecord, SchemaId, Side, Want
from airflow_cdc.spark_apps.driver.sql import literal, quote_ident
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.table import Column
    from airflow_cdc.decisions.apply.applied import PlainChange
    from airflow_cdc.events.record import Record
    from airflow_cdc.spark_apps.ports import Bounds

RAW_SCHEMA: Final = "topic string, partition int, offset bigint, key binary, value binary"
HEADERS: Final = "headers"
# the column of a record's headers, in their order, where they are read
RAW_HEADERS: Final = f"{HEADERS} array<struct<key: string, value: binary>>"
RAW_ARROW: Final = pa.schema(
    {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "key": pa.binary(), "value": pa.binary()}
)
SIDES: Final = ("before", "after")
# the order of the changes of one record
IN_RECORD: Final = ("cdc.log.n", "cdc.place.pos", "cdc.place.row")
# More records or bytes than this are worth Spark's plans: in memory a record costs some 30 µs, and a plan a second.
FEW: Final = 20_000
MOST_BYTES: Final = 16 << 20
# ids of schemas → their texts; those that the registry does not know are absent: SchemaRegistry.texts
Texts: TypeAlias = Callable[[Iterable[SchemaId]], Mapping[SchemaId, str]]

_SQL_TYPES: Final = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.list_(pa.string()): "array<string>",
}
_FACTS: Final = ", ".join(f"`{name}` {_SQL_TYPES[kind]}" for name, kind in FACTS.items())
# cdc of the neutral record by the names of the facts
_CDC: Final = (
    "named_struct('topic', {topic}, 'partition', `partition`, 'offset', `offset`, 'op', op, 'origin', origin,"
    " 'place', named_struct('n', n, 'pos', pos, 'row', `row`), 'log', named_struct('name', log, 'n', log_n),"
    " 'transaction', `transaction`, 'ts_ms', ts_ms, 'snapshot', snapshot, 'defaulted', defaulted, 'other_table', other_table,"
    " 'bad', bad, 'unknown', unknown) AS cdc"
)
# Decoding makes many objects that hold no circles: a task's process looks for circles after so many, not after 700
_OBJECTS: Final = 100_000
_RECORD: Final = ("partition", "offset", "key", "value")


def meta(name: str) -> Expression:
    """A field of the record's `cdc` struct."""
    return fn.col(f"cdc.`{name}`")


def offsets_in(bounds: Bounds) -> int:
    """How many offsets there are in these ranges: records, and marks of transactions."""
    return sum(max(0, end - begin) for begin, end in bounds.values())


def want_of(sides: Sequence[str]) -> Want:
    """The images in `sides`."""
    return Want(*(Side.ROW if side in sides else Side.NONE for side in SIDES))


def decode(raw: DataFrame, topic: str, plan: Plan, sides: Sequence[str], texts: Texts | None = None) -> DataFrame:
    """Records (RAW_SCHEMA, any topics) → those of the plan's table as neutral records, in no particular order.

    `texts`: asks the registry, where records are written with schemas of one. Raises TransportError if it does not answer.
    """
    own = raw.where(f"topic = {literal(topic)}")
    columns = [*_RECORD, *([HEADERS] if HEADERS in raw.columns else [])]
    records = own.select(*columns)
    if texts is not None:
        plan = plan.with_schemas(texts(_ids(records, plan)))
    parts = [(KEY, plan.table.key_columns)] if plan.table.key else []
    parts += [(side, plan.table.mirrored) for side in SIDES if side in sides]
    images = {KEY, *sides}

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.set_threshold(_OBJECTS)
        run = decoder(plan)
        names = [name for name in run.schema.names if name in FACTS or name in images]
        for batch in batches:
            yield run.batch(records_of(batch)).select(names)

    schema = ", ".join([_FACTS, *(f"`{part}` struct<{_positional(cols)}>" for part, cols in parts)])
    flat = records.mapInArrow(decoded, schema)
    columns_of = (f"CAST(`{part}` AS struct<{_named(columns)}>) AS `{part}`" for part, columns in parts)
    return flat.selectExpr(_CDC.format(topic=literal(topic)), *columns_of)


def headers_text(raw: DataFrame) -> Expression:
    """The headers of records as core.dead_letter.headers_text writes them; NULL where none were read."""
    if HEADERS not in raw.columns:
        return fn.lit(None).cast("string").alias(HEADERS)
    pairs = f"transform({HEADERS}, h -> array(h.key, base64(coalesce(h.value, X''))))"
    return fn.expr(f"if(size({HEADERS}) > 0, to_json({pairs}), NULL)").alias(HEADERS)


def records_of(batch: pa.RecordBatch) -> list[RawRecord]:
    """A batch's records."""
    columns = [batch.column(name).to_pylist() for name in _RECORD]
    if HEADERS in batch.schema.names:
        columns.append([_headers(one) for one in batch.column(HEADERS).to_pylist()])
    return [RawRecord(*one) for one in zip(*columns, strict=True)]


def _headers(headers: Sequence[Mapping[str, Any]] | None) -> tuple[tuple[str, bytes], ...]:
    return tuple((one["key"], one["value"]) for one in headers or ())


def _ids(records: DataFrame, plan: Plan) -> list[SchemaId]:
    """The ids of the schemas that the records were written with. It reads them once more: an executor asks no registry."""
    frame = plan.frame

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = {one for record in records_of(batch) for one in frame.schemas_of(record)}
            kinds, numbers = [one.kind for one in ids], [one.number for one in ids]
            yield pa.RecordBatch.from_arrays(
                [pa.array(kinds, pa.string()), pa.array(numbers, pa.int64())], ["kind", "number"]
            )

    rows = records.mapInArrow(found, "kind string, number bigint").distinct().collect()
    return sorted(SchemaId(row["kind"], row["number"]) for row in rows)


def _positional(columns: Sequence[Column]) -> str:
    return ", ".join(f"c{at}: {sink_type(column)}" for at, column in enumerate(columns))


def _named(columns: Sequence[Column]) -> str:
    return ", ".join(f"{quote_ident(column.name)}: {sink_type(column)}" for column in columns)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Python does not look for circles within the block: few records make some hundred thousand objects, and none of these."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class InMemory:
    """The one decoder in the driver's process. Satisfies ports.PlainDecoder.

    Attributes:
        plan: without its images; those that are asked for are added.
        texts: as in `decode`.
    """

    plan: Callable[[Want], Plan]
    texts: Texts | None = None

    def decode(
        self, records: Iterable[TopicRecord], *, before: bool = False, rows_from: Mapping[int, int] = {}
    ) -> Sequence[PlainChange]:
        """See ports.PlainDecoder."""
        every: list[Record] = list(records)  # type: ignore[arg-type]
        with _uncollected():
            return self._of(every, Want(Side.ROW if before else Side.NONE, Side.ROW), rows_from)

    def _of(self, every: Sequence[Record], want: Want, rows_from: Mapping[int, int]) -> Sequence[PlainChange]:
        earlier = [one for one in every if one.offset < rows_from.get(one.partition, 0)]
        if not earlier:
            return self._decoded(every, want)
        own = [one for one in every if one.offset >= rows_from.get(one.partition, 0)]
        changes = [*self._decoded(earlier, Want(Side.NONE, Side.NONE)), *self._decoded(own, want)]
        order = {(one.partition, one.offset): at for at, one in enumerate(every)}
        return sorted(changes, key=lambda change: order[change.partition, change.offset])

    def _decoded(self, records: Sequence[Record], want: Want) -> Sequence[PlainChange]:
        if not records:
            return ()
        plan = self.plan(want)
        if self.texts is not None:
            ids = {one for record in records for one in plan.frame.schemas_of(record)}
            plan = plan.with_schemas(self.texts(sorted(ids)))
        return decoder(plan).plain(records)
