"""Change logs that Iceberg's sink connector appends to, for Spark: what is left of them, folded by key and offset."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from airflow_cdc.core.errors import ConfigError, SinkError
from airflow_cdc.events.record import CREATE, DELETE, TRUNCATE, UPDATE
from airflow_cdc.spark_apps.driver.session import kept
from airflow_cdc.spark_apps.driver.sql import literal, quote_ident
from airflow_cdc.spark_apps.events import RAW_ARROW, RAW_SCHEMA, meta
from airflow_cdc.spark_apps.ports import EventDecoder, ReadsAppended

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.table import Table
    from airflow_cdc.sinks.iceberg_changelog.client import ChangelogSink
    from airflow_cdc.sinks.iceberg_changelog.config import Form, Place

# as RAW_ARROW
_Raw: TypeAlias = tuple[str, int, int, bytes, bytes]
CDC: Final = "_cdc"
_EPOCH: Final = date(1970, 1, 1)
# what the flat form calls an operation, in SQL
_OP: Final = (
    f"CASE {{}} WHEN 'I' THEN {literal(CREATE)} WHEN 'U' THEN {literal(UPDATE)} WHEN 'D' THEN {literal(DELETE)} END"
)
_PLACE: Final = ("_at", "_part", "_op", "_before", "_after")


class ChangelogReader:
    """Reads what is left of the logs of a sink, as ports.FoldsLog. `events`: the connector's, which knows its values."""

    def __init__(self, sink: ChangelogSink, events: EventDecoder) -> None:
        self._sink, self._events = sink, events

    def rows(self, spark: SparkSession, table: Table, topic: str, ends: Callable[[], Mapping[int, int]]) -> DataFrame:
        """See ports.FoldsLog."""
        if not isinstance(self._events, ReadsAppended):
            raise ConfigError(
                "what a sink connector appends of such a connector's events is not read",
                where=self._sink.where,
                todo="Use Debezium, or `sink: {kind: topics}`.",
            )
        log = self._sink.pair(table, topic)
        changes = _changes(spark.table(self._name(log.place)), table, log.form).persist()
        try:
            self._check(changes, table, ends)
            raw = changes.mapInArrow(AsRecords(topic, table), RAW_SCHEMA)
            net = kept(_last(self._events.appended(raw, table)))
        finally:
            changes.unpersist()
        self._check_read(net, table)
        return net.where(meta("op") != DELETE).select("after.*")

    def _name(self, place: Place) -> str:
        return ".".join(map(quote_ident, (self._sink.lake.name, *place.namespace.split("."), place.name)))

    def _check(self, changes: DataFrame, table: Table, ends: Callable[[], Mapping[int, int]]) -> None:
        """Raise SinkError for a log whose rows can't be put in order."""
        last, truncates, nowhere = changes.agg(
            fn.max("_at"), fn.count_if(fn.col("_op") == TRUNCATE), fn.count_if(fn.col("_at").isNull())
        ).collect()[0]
        if nowhere:
            raise self._uncertain(table, f"{nowhere} of its rows do not say at which offset of the topic they were")
        if truncates:
            raise self._uncertain(
                table, "it holds a TRUNCATE, whose place among the rows of other partitions is unknown"
            )
        if last is not None and last >= (end := max(ends().values(), default=0)):
            raise self._uncertain(
                table, f"it holds a change of offset {last}, and the topic ends at {end}: it was made anew since"
            )

    def _check_read(self, net: DataFrame, table: Table) -> None:
        doubts = net.where(meta("bad").isNotNull() | fn.col("scattered"))
        if first := doubts.select("scattered", meta("bad"), meta("offset")).take(1):
            several, bad, offset = first[0]
            why = (
                "changes of one key are of several partitions"
                if several
                else f"a key's last change can't be read: {bad}"
            )
            raise self._uncertain(table, f"{why} (offset {offset})")

    def _uncertain(self, table: Table, why: str) -> SinkError:
        return SinkError(
            f"what is left of the change log of {table.full_name} is not certain: {why}",
            where=self._sink.where,
            todo="Let the connector snapshot the table into a new topic, and the sink connector append it to a new table.",
        )


def _changes(log: DataFrame, table: Table, form: Form) -> DataFrame:
    """The table's own changes in its log: its place, its operation, and structs of the table's columns that the log has."""
    own_names = {column.name for column in table.mirrored}
    part = f"CAST({quote_ident(form.partition)} AS int)" if form.partition else "0"
    if form.flat:
        row = _struct("", [name for name in log.columns if name in own_names])
        own = log.where(f"{CDC}.source = {literal(table.full_name)}")
        place: tuple[str, ...] = (f"{CDC}.offset", part, _OP.format(f"{CDC}.op"), "NULL", row)
    else:
        source = log.schema["source"].dataType
        schema = "schema" if isinstance(source, StructType) and "schema" in source.names else "db"
        own = log.where(f"source.{schema} = {literal(table.schema)} AND source.`table` = {literal(table.name)}")
        images = (_image(log, side, own_names) for side in ("before", "after"))
        place = (quote_ident(form.offset), part, "op", *images)
    return own.selectExpr(*(f"{value} AS {name}" for value, name in zip(place, _PLACE, strict=True)))


def _image(log: DataFrame, side: str, own_names: set[str]) -> str:
    """SQL: an image. A log has no column for a side that no change had yet."""
    kind = log.schema[side].dataType if side in log.columns else None
    names = [name for name in kind.names if name in own_names] if isinstance(kind, StructType) else []
    return f"IF({side} IS NULL, NULL, {_struct(side, names)})" if names else "NULL"


def _struct(of: str, names: list[str]) -> str:
    prefix = f"{of}." if of else ""
    return f"named_struct({', '.join(f'{literal(name)}, {prefix}{quote_ident(name)}' for name in names)})"


@dataclass(frozen=True, slots=True)
class AsRecords:
    """Makes records of changes, as the connector would write them without a schema."""

    topic: str
    table: Table

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = zip(*(batch.column(name).to_pylist() for name in _PLACE), strict=True)
            records = [self._record(*change) for change in columns]
            yield pa.RecordBatch.from_pylist(
                [dict(zip(RAW_ARROW.names, record, strict=True)) for record in records], schema=RAW_ARROW
            )

    def _record(
        self,
        offset: int,
        partition: int,
        op: str | None,
        before: Mapping[str, object] | None,
        after: Mapping[str, object] | None,
    ) -> _Raw:
        row = before if before is not None and op == DELETE else after
        values = {name: connect_value(value) for name, value in (row or {}).items()}
        key = {name: values.get(name) for name in self.table.key}
        event = {"op": op, "after": None if row is None else values}
        return self.topic, partition, offset, _json(key), _json(event)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def connect_value(value: object) -> object:
    """A value of a log as JSON that Connect would write of it. Cases: b"a" → "YQ==", Decimal("1.5") → "Dw==", NaN → "NaN"."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map
        value = dict(value)
    if isinstance(value, dict):
        return {name: connect_value(one) for name, one in value.items()}
    if isinstance(value, list):
        return [connect_value(one) for one in value]
    write = _WRITTEN.get(type(value))
    return value if write is None else write(value)


def _float(value: float) -> float | str:
    return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _instant(value: datetime) -> int:
    return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)


def _time(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def _decimal(value: Decimal) -> str:
    return _bytes(_unscaled(value))


_WRITTEN: Final[Mapping[type, Callable[[Any], object]]] = {
    float: _float,
    bytes: _bytes,
    Decimal: _decimal,
    datetime: _instant,
    date: lambda value: (value - _EPOCH).days,
    time: _time,
}


def _unscaled(value: Decimal) -> bytes:
    """The bytes of Connect's Decimal: the digits as a whole number, in the fewest bytes that hold its sign."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    size = ((number if number >= 0 else ~number).bit_length() // 8) + 1
    return number.to_bytes(size, "big", signed=True)


def _last(changes: DataFrame) -> DataFrame:
    """(after, cdc, scattered) of each key's last change. A change that was appended again has the same offset."""
    key = Window.partitionBy("key")
    newest = key.orderBy(meta("offset").desc())
    many = fn.min(meta("partition")).over(key) < fn.max(meta("partition")).over(key)
    rank = fn.row_number().over(newest).alias("cdc_rank")
    return changes.select("after", "cdc", many.alias("scattered"), rank).where("cdc_rank = 1").drop("cdc_rank")
