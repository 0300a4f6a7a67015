"""What ExtractNewRecordState leaves of a change: the row, and as much of the envelope as it was told to keep.

Where a row is all that is left, the records of a key say in the order of their topic what became of its row; nothing says
where in the source's log that was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from airflow_cdc.connectors.debezium.events.envelope import schemas_of, snapshot_of
from airflow_cdc.connectors.debezium.events.keys import Key, KeyReader
from airflow_cdc.connectors.debezium.events.sealing import Pattern
from airflow_cdc.connectors.debezium.events.sealing_flat import FlattenedSealer
from airflow_cdc.connectors.debezium.events.source import BLOCKS, SourceBlock, time_of
from airflow_cdc.connectors.debezium.flattening import DELETED, Deletes, FlattenedForm, check_flattened
from airflow_cdc.connectors.debezium.routing import KeyMark
from airflow_cdc.core.table import Table
from airflow_cdc.core.text import number_in
from airflow_cdc.events.frame import Open, Seal, Standing, said
from airflow_cdc.events.record import (
    CREATE,
    DELETE,
    READ,
    SNAPSHOT_GOES_ON,
    TOMBSTONE,
    UPDATE,
    WITH_AFTER,
    Headers,
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
from airflow_cdc.events.wire.json import Json

_OPS: Final = frozenset({CREATE, UPDATE, DELETE, READ})
_STRING, _INT = Shape(Wire.STRING), Shape(Wire.INT)
# a part of the envelope → its type, where that is no text
_NUMBERS: Final = frozenset(
    {
        "ts_ms",
        "ts_us",
        "ts_ns",
        *(f"source.{name}" for name in ("ts_ms", "ts_us", "ts_ns", "server_id", "pos", "row", "thread")),
        *(f"source.{name}" for name in ("lsn", "txId", "xmin")),
        "transaction.total_order",
        "transaction.data_collection_order",
    }
)
# The row's own fields behind its columns, and the record's headers → one part of the envelope; None if it has none
_Part: TypeAlias = Callable[[Wires, Mapping[str, bytes]], object]


@dataclass(frozen=True, slots=True)
class Flattened:
    """Satisfies events.frame.Frame.

    Attributes:
        form: what the transform leaves.
        key, value: how the two are written.
        source: the kind of source, as in BLOCKS.
        mark: as Envelope's.
    """

    form: FlattenedForm
    key: Wiring
    value: Wiring
    source: str
    mark: KeyMark | None = None

    @property
    def headers(self) -> bool:
        """See Frame."""
        return self.key.headers or self.value.headers or bool(self.form.headers)

    def schemas_of(self, record: Record) -> Sequence[SchemaId]:
        """See Frame."""
        return schemas_of(record, self.key, self.value)

    def sealer(self, table: Table, values: Values, template: Record, schemas: Schemas, place: Standing) -> Seal:
        """See Frame."""
        if self.mark is not None:
            raise not_written("topics that several tables share")
        check_flattened(self.form, table)
        pattern = Pattern(table, values, template, schemas, place)
        return FlattenedSealer.of(self.form, (self.key, self.value), BLOCKS[self.source], pattern)

    def opener(self, table: Table, values: Values, want: Want, schemas: Schemas) -> Open:
        """See Frame. Raises SchemaError also for a table without a key, and for a column with the name of an added field."""
        check_flattened(self.form, table)
        block = BLOCKS[self.source]
        columns = () if want.after is Side.NONE else row_shape(table, values).parts
        shape = Shape(Wire.STRUCT, (*columns, *_added(self.form)), whole=want.after is not Side.NONE)
        keys = KeyReader.of(self.key, table, values, self.mark, schemas)
        parts = _Parts.of(self.form, block, self.source)
        read = self.value.reader(shape, schemas)
        return _Opener(self, table, len(columns), want.after is not Side.NONE, keys, parts, read)


def _added(form: FlattenedForm) -> tuple[tuple[str, Shape], ...]:
    """The fields that the transform adds, each name once."""
    return tuple({name: _shape(part) for part, name in (*form.fields, *_deleted(form))}.items())


def _deleted(form: FlattenedForm) -> tuple[tuple[str, str], ...]:
    return ((DELETED, DELETED),) if Deletes.ROW in form.deletes else ()


def _shape(part: str) -> Shape:
    return _INT if part in _NUMBERS else _STRING


@dataclass(frozen=True, slots=True)
class _Parts:
    """Where a record has what is left of the envelope.

    `place`: the parts of a SourceBlock, in its order; () where a record has no place of its own.
    """

    op: _Part
    deleted: _Part
    snapshot: _Part
    ts_ms: _Part
    schema: _Part
    table: _Part
    place: tuple[_Part, ...]

    @classmethod
    def of(cls, form: FlattenedForm, block: SourceBlock, source: str) -> _Parts:
        in_row = {name: at for at, (name, _) in enumerate(_added(form))}
        fields = {part: in_row[name] for part, name in (*form.fields, *_deleted(form))}
        headers = dict(form.headers)

        def part(name: str) -> _Part:
            if name in fields:
                return _field(fields[name])
            return _header(headers[name], number=name in _NUMBERS) if name in headers else _nothing

        names = [name if "." in name else f"source.{name}" for name, _ in block.parts]
        return cls(
            part("op"),
            part(DELETED),
            part("source.snapshot"),
            part("source.ts_ms"),
            part(f"source.{block.schema}"),
            part("source.table"),
            tuple(map(part, names)) if form.is_placed(source) else (),
        )


def _nothing(_: Wires, __: Mapping[str, bytes]) -> None:
    return None


def _field(at: int) -> _Part:
    return lambda added, _: added[at] if added else None


def _header(name: str, *, number: bool) -> _Part:
    """A header is text, and empty for NULL."""

    def part(_: Wires, headers: Mapping[str, bytes]) -> object:
        try:
            text = headers.get(name, b"").decode()
        except UnicodeDecodeError:
            return WRONG
        if not text:
            return None
        return number_in(text) if number else text

    return part


@dataclass(frozen=True, slots=True)
class _Opener:
    """Opens the records of one table's topic. `columns`: how many of what the reader gives are the row's own."""

    frame: Flattened
    table: Table
    columns: int
    rows: bool
    keys: KeyReader
    parts: _Parts
    read: Read

    def __call__(self, record: Record) -> tuple[Opened]:
        key = self.keys.read(record)
        if other := self.keys.other(key):
            return (Opened("", table=other),)
        row: Wires | None = None
        unknown: tuple[str, ...] = ()
        try:
            if record.value is not None:
                row = self.read(record.value, record.headers if self.frame.value.headers else ())
        except Unreadable as error:
            if not _is_null(self.frame.value, record.value or b""):
                if error.value is None:
                    return (Opened("", key.wires, bad=key.garbled or said("value", error)),)
                row, unknown = error.value, error.unknown
        if row is None:
            # behind a row that is marked as deleted it says nothing new
            return (Opened(DELETE if Deletes.NULL in self.frame.form.deletes else TOMBSTONE, key.wires, bad=key.bad),)
        return (self._opened(row, _named(record.headers) if self.frame.form.headers else {}, key, unknown),)

    def _opened(self, row: Wires, headers: Mapping[str, bytes], key: Key, unknown: tuple[str, ...]) -> Opened:
        added, parts = row[self.columns :], self.parts
        schema, named = parts.schema(added, headers), parts.table(added, headers)
        if type(schema) is type(named) is str and f"{schema}.{named}" != self.table.full_name:
            return Opened("", table=f"{schema}.{named}")
        op, bad = self._op(added, headers)
        ts_ms = time_of(parts.ts_ms(added, headers))
        place = self._place(added, headers, ts_ms)
        if parts.place and place is None:
            bad = bad or "the event has no source position"
        return Opened(
            op,
            key.wires,
            after=row[: self.columns] if self.rows and op in WITH_AFTER else None,
            at=place,
            snapshot=snapshot_of(parts.snapshot(added, headers)) or (SNAPSHOT_GOES_ON if op == READ else ""),
            ts_ms=ts_ms,
            bad=key.garbled or bad or key.bad,
            unknown=unknown if op in WITH_AFTER else (),
        )

    def _op(self, added: Wires, headers: Mapping[str, bytes]) -> tuple[str, str]:
        """The operation, and why it is none. Where nothing tells an INSERT, an UPDATE has the same effect."""
        op, deleted = self.parts.op(added, headers), self.parts.deleted(added, headers)
        if deleted not in (None, "true", "false"):
            return "", f"{DELETED} is neither true nor false"
        if deleted == "true":
            return DELETE, ""
        if op is None:
            return UPDATE, ""
        return (op, "") if op in _OPS else ("", "unknown op" if op is WRONG else f"unknown op {op}")

    def _place(self, added: Wires, headers: Mapping[str, bytes], ts_ms: int | None) -> LogPlace | None:
        if not self.parts.place:
            return None
        return BLOCKS[self.frame.source].place([part(added, headers) for part in self.parts.place], ts_ms)


def _named(headers: Headers) -> Mapping[str, bytes]:
    """A name that is there twice has its last value: a tombstone carries the parts of its delete twice, both the same."""
    return {name: data or b"" for name, data in headers}


def _is_null(wiring: Wiring, value: bytes) -> bool:
    """Whether JSON that is no row says that there is none.

    Cases: the four bytes `null`; {"schema": {…}, "payload": null}, where the converter writes schemas.
    """
    if not isinstance(wiring, Json):
        return False
    try:
        said_ = json.loads(value)
    except (ValueError, RecursionError):
        return False
    if said_ is None:
        return True
    wrapped = wiring.wrapped is not False and type(said_) is dict and said_.keys() == {"schema", "payload"}
    return wrapped and said_["payload"] is None and type(said_["schema"]) is dict
