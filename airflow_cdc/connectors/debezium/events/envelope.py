"""Debezium's own form of a change: an envelope with the operation, the row before and after it, and where it is in the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_cdc.connectors.debezium.events.keys import KeyReader
from airflow_cdc.connectors.debezium.events.sealing import EnvelopeSealer, KeySealer, Pattern
from airflow_cdc.connectors.debezium.events.source import BLOCKS, SourceBlock, time_of
from airflow_cdc.connectors.debezium.routing import KeyMark
from airflow_cdc.core.table import Table
from airflow_cdc.events.frame import Open, Seal, Standing, said
from airflow_cdc.events.record import (
    CREATE,
    DELETE,
    READ,
    SNAPSHOT_BEGINS,
    SNAPSHOT_GOES_ON,
    TOMBSTONE,
    TRUNCATE,
    UPDATE,
    WITH_AFTER,
    WITH_BEFORE,
    LogPlace,
    Opened,
    Record,
    SchemaId,
    Side,
    Unreadable,
    Want,
    Wires,
)
from airflow_cdc.events.value import WRONG, Shape, Values, Wire, row_shape
from airflow_cdc.events.wire import Read, Schemas, Wiring
from airflow_cdc.events.wire.drafts import not_written

_OPS: Final = frozenset({CREATE, UPDATE, DELETE, READ, TRUNCATE})
_BEGINS: Final = frozenset({"first", "first_in_data_collection"})
_STRING, _INT = Shape(Wire.STRING), Shape(Wire.INT)
# what of a block is always read, before its parts
_COMMON: Final = (("snapshot", _STRING), ("ts_ms", _INT), ("table", _STRING))


@dataclass(frozen=True, slots=True)
class Envelope:
    """Satisfies events.frame.Frame.

    Attributes:
        key, value: how the two are written.
        source: the kind of source, as in BLOCKS.
        mark: the field of a key by which a router tells the tables of a shared topic apart, and its value for this table.
    """

    key: Wiring
    value: Wiring
    source: str
    mark: KeyMark | None = None

    @property
    def headers(self) -> bool:
        """See Frame."""
        return self.key.headers or self.value.headers

    def schemas_of(self, record: Record) -> Sequence[SchemaId]:
        """See Frame."""
        return schemas_of(record, self.key, self.value)

    def opener(self, table: Table, values: Values, want: Want, schemas: Schemas) -> Open:
        """See Frame."""
        block = BLOCKS[self.source]
        keys = KeyReader.of(self.key, table, values, self.mark, schemas)
        layout = _Layout.of(block, table, values, want)
        read = self.value.reader(layout.shape, schemas)
        route = None if self.mark is None else _router(self.value, block, schemas)
        return _Opener(table.full_name, table.keyless, block, layout, keys, read, route, self.value.headers)

    def sealer(self, table: Table, values: Values, template: Record, schemas: Schemas, place: Standing) -> Seal:
        """See Frame."""
        if self.mark is not None:
            raise not_written("topics that several tables share")
        pattern = Pattern(table, values, template, schemas, place)
        return EnvelopeSealer.of(KeySealer.of(self.key, pattern), self.value, BLOCKS[self.source], pattern)


def schemas_of(record: Record, key: Wiring, value: Wiring) -> Sequence[SchemaId]:
    """The ids of the schemas with which a record's parts were written."""
    parts = ((key, record.key), (value, record.value))
    ids = (
        wiring.schema_of(data, record.headers if wiring.headers else ()) for wiring, data in parts if data is not None
    )
    return [one for one in ids if one is not None]


def _block_shape(block: SourceBlock) -> Shape:
    own = tuple(part for part in block.parts if "." not in part[0])
    return Shape(Wire.STRUCT, (*_COMMON, (block.schema, _STRING), *own))


def _router(value: Wiring, block: SourceBlock, schemas: Schemas) -> Callable[[Record], str | None]:
    """Tells the table of a record of a shared topic without reading its row."""
    names = Shape(Wire.STRUCT, ((block.schema, _STRING), ("table", _STRING)))
    read = value.reader(Shape(Wire.STRUCT, (("source", names),)), schemas)

    def table_of(record: Record) -> str | None:
        try:
            (source,) = (
                read(record.value, record.headers if value.headers else ()) if record.value is not None else (None,)
            )
        except Unreadable:
            return None
        return None if source is None or source is WRONG else _named(*source)

    return table_of


def _named(schema: object, table: object) -> str | None:
    return f"{schema}.{table}" if type(schema) is str and type(table) is str else None


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where what is in the tuple that a reader gives. `after`, `before`: None where the image is not wanted."""

    shape: Shape
    beside: tuple[tuple[int, int], ...]  # (place in the tuple, place in its struct) of parts that are not in the block
    after: int | None
    before: int | None

    @classmethod
    def of(cls, block: SourceBlock, table: Table, values: Values, want: Want) -> _Layout:
        row = row_shape(table, values)
        parts: list[tuple[str, Shape]] = [("op", _STRING), ("source", _block_shape(block))]
        beside = []
        for name, shape in block.parts:
            struct, dot, own = name.partition(".")
            if dot:
                beside.append((len(parts), 0))
                parts.append((struct, Shape(Wire.STRUCT, ((own, shape),))))
        places: dict[str, int | None] = {"after": None, "before": None}
        old = want.before is not Side.NONE and (table.keyless or block.whole_before)
        for name, wanted in (("after", want.after is not Side.NONE), ("before", old)):
            if wanted:
                places[name] = len(parts)
                parts.append((name, row))
        return cls(Shape(Wire.STRUCT, tuple(parts)), tuple(beside), **places)


@dataclass(frozen=True, slots=True)
class _Opener:
    """Opens the records of one table's topic."""

    table: str
    keyless: bool
    block: SourceBlock
    layout: _Layout
    keys: KeyReader
    read: Read
    route: Callable[[Record], str | None] | None
    headers: bool

    def __call__(self, record: Record) -> tuple[Opened]:
        key = self.keys.read(record)
        if record.value is None:
            other = self.keys.other(key)
            return (Opened(TOMBSTONE, None if other else key.wires, table=other, bad=key.bad),)
        if self.route is not None and (named := self.route(record)) not in {None, self.table}:
            return (Opened("", table=str(named)),)
        unknown: tuple[str, ...] = ()
        try:
            event = self.read(record.value, record.headers if self.headers else ())
        except Unreadable as error:
            if error.value is None:
                return (Opened("", key.wires, bad=key.garbled or said("value", error)),)
            event, unknown = error.value, error.unknown
        return (self._opened(event, key.wires, key.bad, key.garbled, unknown),)

    def _opened(self, event: Any, key: Wires | None, key_bad: str, garbled: str, unknown: tuple[str, ...]) -> Opened:
        op, source = event[0], event[1]
        if source is WRONG:
            source = None
        snapshot, ts_ms, place = None, None, None
        if source is not None:
            snapshot, ts_ms = source[0], time_of(source[1])
            named = _named(source[3], source[2])
            if named is not None and named != self.table:
                return Opened(op if type(op) is str else "", table=named)
            if named is not None and source[1] is not WRONG:
                place = self._place(event, source, ts_ms)
        before, after = self._images(event, op)
        bad = garbled or self._bad(op, place, before, after) or (key_bad if op != TRUNCATE else "")
        return Opened(
            op if type(op) is str else "",
            None if op == TRUNCATE else key,
            before,
            after,
            place,
            snapshot_of(snapshot),
            snapshot == "false",
            ts_ms=ts_ms,
            bad=bad,
            unknown=unknown,
        )

    def _place(self, event: Sequence[Any], source: Sequence[Any], ts_ms: int | None) -> LogPlace | None:
        parts = source[4:]
        for at, inside in self.layout.beside:
            struct = event[at]
            parts = (*parts, None if struct is None or struct is WRONG else struct[inside])
        return self.block.place(parts, ts_ms)

    def _images(self, event: Sequence[Any], op: object) -> tuple[Wires | None, Wires | None]:
        """The images that such an operation has."""
        layout = self.layout
        after = event[layout.after] if layout.after is not None and op in WITH_AFTER else None
        before = event[layout.before] if layout.before is not None and op in WITH_BEFORE else None
        return None if before is WRONG else before, None if after is WRONG else after

    def _bad(self, op: object, place: LogPlace | None, before: Wires | None, after: Wires | None) -> str:
        """Why a change can't be applied, whatever its values are."""
        if type(op) is not str:
            return "the value is not a change event: it has no op"
        if op not in _OPS:
            return f"unknown op {op}"
        if place is None:
            return "the event has no source position"
        if after is None and self.layout.after is not None and op in WITH_AFTER:
            return "the event has no row after the change"
        if before is None and self.layout.before is not None and self.keyless and op in WITH_BEFORE:
            return "the event has no row before the change"
        return ""


def snapshot_of(value: object) -> str:
    """Debezium writes true, first, last and their like for a row of its own snapshot; false, or nothing, for a change."""
    if value is None or value == "false":
        return ""
    return SNAPSHOT_BEGINS if value in _BEGINS else SNAPSHOT_GOES_ON
