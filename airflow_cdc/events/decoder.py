"""The one decoder: records → changes with logical values, for few records in the process and for many in Arrow batches.

Records are opened by their frame one by one, and their values are then read column by column. Only a column in which a value
can't be read is gone through again, value by value, to name the bad records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from airflow_cdc.core.errors import MALFORMED
from airflow_cdc.decisions.apply.applied import LastChange, NotPlainError, PlainChange
from airflow_cdc.events.columns import arrow_of
from airflow_cdc.events.record import (
    CREATE,
    DELETE,
    NO_PLACE,
    TOMBSTONE,
    UPDATE,
    WANTED,
    Opened,
    Record,
    SchemaId,
    Side,
    Want,
    Wires,
)
from airflow_cdc.events.value import WRONG, Conversion, Values, as_is

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.events.frame import Frame

_UNREAD: Final = (*MALFORMED, ArithmeticError)  # Arrow's own errors are among them
# Values of a column, and its type → what is kept of them
_Keep: TypeAlias = Callable[[Sequence[object], pa.DataType], Sequence[object]]
_USUAL: Final = frozenset({CREATE, UPDATE, DELETE, TOMBSTONE})
# The facts of a change, in their order in a batch
FACTS: Final[Mapping[str, pa.DataType]] = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "nth": pa.int32(),
    "op": pa.string(),
    "origin": pa.string(),
    "n": pa.int64(),
    "pos": pa.int64(),
    "row": pa.int32(),
    "log": pa.string(),
    "log_n": pa.int64(),
    "transaction": pa.string(),
    "ts_ms": pa.int64(),
    "snapshot": pa.string(),
    "defaulted": pa.bool_(),
    "other_table": pa.string(),
    "bad": pa.string(),
    "unknown": pa.list_(pa.string()),
}
KEY, BEFORE, AFTER = "key", "before", "after"


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decoding the records of one table needs. Hashable, picklable.

    Attributes:
        want: which images are decoded.
        schemas: the texts of the schemas that the records were written with, by their ids in a registry.
    """

    table: Table
    frame: Frame
    values: Values
    want: Want = WANTED
    schemas: tuple[tuple[SchemaId, str], ...] = ()

    def with_schemas(self, schemas: Mapping[SchemaId, str]) -> Plan:
        """The plan that knows these schemas, too."""
        return self if not schemas else replace(self, schemas=tuple(sorted({**dict(self.schemas), **schemas}.items())))


@dataclass(frozen=True, slots=True)
class _Part:
    """A key or an image: its columns, each with how its values are read.

    Attributes:
        whose: how a dead letter names it.
        decides: whether a wrong value in it makes the record bad; otherwise the image counts as none.
    """

    name: str
    whose: str
    columns: tuple[_Carried, ...]
    decides: bool

    @property
    def type(self) -> pa.DataType:
        """Its Arrow type: fields are named by their places, since a source's names may differ in case alone."""
        return pa.struct({f"c{at}": column.type for at, column in enumerate(self.columns)})


@dataclass(frozen=True, slots=True)
class _Carried:
    """One column. `label`: its name, with why a value of it may not be readable."""

    label: str
    type: pa.DataType
    nullable: bool
    read: Conversion


@dataclass(frozen=True, slots=True)
class _Image:
    """A part's values. `present`: the places of the changes that have it; `columns`: what is kept of those."""

    part: _Part
    present: Sequence[int]
    columns: Sequence[Sequence[object]]
    wrong: Mapping[int, Sequence[str]]  # place of a change → labels

    def array(self, size: int) -> pa.Array:
        """As one Arrow array of structs, NULL where a change has no such part, or one that is wrong and does not decide."""
        structs = pa.StructArray.from_arrays(self.columns, fields=list(self.part.type))
        left_out = () if self.part.decides else self.wrong
        if len(self.present) == size and not left_out:
            return structs
        places: list[int | None] = [None] * size
        for n, at in enumerate(self.present):
            places[at] = None if at in left_out else n
        return structs.take(pa.array(places, pa.int64()))

    def rows(self, size: int) -> list[tuple[object, ...] | None]:
        """As a tuple for each change, None where it has no such part, or a wrong one."""
        rows: list[tuple[object, ...] | None] = [None] * size
        for at, row in zip(self.present, zip(*self.columns, strict=True), strict=True):
            rows[at] = None if at in self.wrong else row
        return rows


class Decoder:
    """Decodes records of one table's topic, by a Plan. Safe to use by several threads."""

    def __init__(self, plan: Plan) -> None:
        table, want = plan.table, plan.want.of(plan.table)
        self._open = plan.frame.opener(table, plan.values, want, dict(plan.schemas))
        self._parts = tuple(_parts(table, plan.values, want))

    @property
    def schema(self) -> pa.Schema:
        """The schema of its batches."""
        return pa.schema([*FACTS.items(), *((part.name, part.type) for part in self._parts)])

    def batch(self, records: Sequence[Record]) -> pa.RecordBatch:
        """All changes of the records, the bad ones with the reason."""
        homes, opened = self._opened(records)
        images = [_read(part, opened, pa.array) for part in self._parts]
        bad = _reasons(opened, images)
        facts = dict(zip(FACTS, zip(*map(_facts, homes, opened, bad), strict=True), strict=True)) if opened else {}
        arrays = [pa.array(facts.get(name, ()), kind) for name, kind in FACTS.items()]
        arrays += [image.array(len(opened)) for image in images]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def plain(self, records: Sequence[Record]) -> list[PlainChange]:
        """The changes of the records. Raises NotPlainError if one is not a readable change of the table itself."""
        homes, opened = self._opened(records)
        images = {part.name: _read(part, opened, _as_values) for part in self._parts}
        unusual = any(one.op not in _USUAL or one.bad or one.table or one.unknown or one.snapshot for one in opened)
        if unusual or any(image.part.decides and image.wrong for image in images.values()):
            raise NotPlainError
        size = len(opened)
        rows = {name: image.rows(size) for name, image in images.items()}
        none: list[None] = [None] * size
        keys, before, after = (rows.get(name, none) for name in (KEY, BEFORE, AFTER))
        return [
            PlainChange(home.partition, home.offset, one.op, key or (), row, _last(one), one.defaulted, old)
            for home, one, key, row, old in zip(homes, opened, keys, after, before, strict=True)
        ]

    def _opened(self, records: Iterable[Record]) -> tuple[Sequence[Record], Sequence[Opened]]:
        """The changes, each beside its record."""
        homes, opened = list[Record](), list[Opened]()
        for record in records:
            for one in self._open(record):
                homes.append(record)
                opened.append(one)
        return homes, opened


@lru_cache(maxsize=1_000)
def decoder(plan: Plan) -> Decoder:
    """The decoder of a plan, made once in a process. Raises SchemaError if a column can't be carried exactly."""
    return Decoder(plan)


def _parts(table: Table, values: Values, want: Want) -> Iterator[_Part]:
    if table.key:
        yield _Part(KEY, "the key's", _carried(table.key_columns, values, in_key=True), decides=True)
    if want.before is not Side.NONE:
        yield _Part(BEFORE, "the old row's", _carried(table.mirrored, values), decides=table.keyless)
    if want.after is not Side.NONE:
        yield _Part(AFTER, "the row's", _carried(table.mirrored, values), decides=True)


def _carried(columns: Sequence[Column], values: Values, *, in_key: bool = False) -> tuple[_Carried, ...]:
    carried = []
    for column in columns:
        value = values.value(column)
        label = f"{column.name} ({value.doubt})" if value.doubt else column.name
        carried.append(_Carried(label, arrow_of(column.value_type), column.nullable and not in_key, value.read))
    return tuple(carried)


def _as_values(values: Sequence[object], _: pa.DataType) -> Sequence[object]:
    return values


def _read(part: _Part, opened: Sequence[Opened], keep: _Keep) -> _Image:
    images: list[Wires | None] = list(map(attrgetter(part.name), opened))
    present: Sequence[int] = range(len(opened))
    if None in images:
        present = [at for at, wires in enumerate(images) if wires is not None]
    there = [wires for wires in images if wires is not None] if len(present) < len(images) else images
    wrong: dict[int, list[str]] = {}
    columns = []
    by_column: Iterable[Wires] = zip(*there, strict=True) if there else ((),) * len(part.columns)
    for column, wires in zip(part.columns, by_column, strict=True):
        kept, bad = _column(column, wires, keep)
        columns.append(kept)
        for n in bad:
            wrong.setdefault(present[n], []).append(column.label)
    return _Image(part, present, columns, wrong)


def _column(column: _Carried, wires: Wires, keep: _Keep) -> tuple[Sequence[object], Sequence[int]]:
    """What is kept of the column's values, and the places of those that are none."""
    read = column.read
    try:
        if WRONG not in wires:
            values = wires if read is as_is else [None if one is None else read(one) for one in wires]
            if column.nullable or None not in values:
                return keep(values, column.type), ()
    except _UNREAD:
        pass  # which of them it was is found one by one
    return _one_by_one(column, wires, keep)


def _one_by_one(column: _Carried, wires: Wires, keep: _Keep) -> tuple[Sequence[object], Sequence[int]]:
    values, wrong = list[object](), list[int]()
    for at, wire in enumerate(wires):
        value, is_one = _one(column, wire)
        values.append(value)
        if not is_one:
            wrong.append(at)
    return keep(values, column.type), wrong


def _one(column: _Carried, wire: object) -> tuple[object, bool]:
    """A value, and whether it is one of the column's: NULL is one where the column may hold it."""
    if wire is WRONG:
        return None, False
    try:
        value = None if wire is None else column.read(wire)
        pa.array([value], column.type)
    except _UNREAD:
        return None, False
    return value, value is not None or column.nullable


def _reasons(opened: Sequence[Opened], images: Sequence[_Image]) -> list[str | None]:
    """Why each change can't be applied: its frame's own reason, else the columns of its first wrong part."""
    reasons: list[str | None] = [None if one.table else one.bad or None for one in opened]
    for image in images:
        if not image.part.decides:
            continue
        for at, labels in image.wrong.items():
            if reasons[at] is None:
                reasons[at] = f"{image.part.whose} column {', '.join(labels)} cannot be decoded"
    return reasons


def _facts(home: Record, change: Opened, bad: str | None) -> tuple[object, ...]:
    at = change.at or NO_PLACE
    return (
        home.partition,
        home.offset,
        change.nth,
        change.op or None,
        at.origin,
        at.n,
        at.pos,
        at.row,
        at.log,
        at.log_n,
        at.transaction,
        change.ts_ms if at.ts_ms is None else at.ts_ms,
        change.snapshot or None,
        change.defaulted,
        change.table or None,
        bad,
        change.unknown if change.unknown and not change.table else None,
    )


def _last(change: Opened) -> LastChange | None:
    at = change.at
    if at is None or at.origin is None:
        return None
    place = (at.n or 0, at.pos or 0, at.row or 0)
    return LastChange(at.origin, place, at.log or "", at.log_n or 0, at.transaction, at.ts_ms or 0)
