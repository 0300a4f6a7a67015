"""A record of a topic, the change that its frame opens, and why one cannot be opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from airflow_cdc.core.ports import TopicRecord
from airflow_cdc.core.table import Table

# Kafka's headers of a record, in its own order; a name may be there twice
Headers: TypeAlias = Sequence[tuple[str, bytes]]
# The Connect values of a row, or a key, by the column's place; None for NULL and for a field that is not there
Wires: TypeAlias = Sequence[object]

CREATE, UPDATE, DELETE, READ, TRUNCATE, TOMBSTONE = "c", "u", "d", "r", "t", "tombstone"
OPS = (CREATE, UPDATE, DELETE, READ, TRUNCATE, TOMBSTONE)
WITH_BEFORE, WITH_AFTER = (UPDATE, DELETE), (CREATE, UPDATE, READ)
# The first record of one of the connector's own snapshots, and the others
SNAPSHOT_BEGINS, SNAPSHOT_GOES_ON = "first", "later"


class Record(TopicRecord, Protocol):
    """A record of a topic, as bytes. Only a frame that says so needs its headers; others may be given ()."""

    @property
    def headers(self) -> Headers: ...


class RawRecord(NamedTuple):
    """A Record, from wherever its bytes come."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Ids(StrEnum):
    """Where the id of the schema of a record's bytes is. The bytes do not say which: the connector's configuration does.

    Bare Avro may begin with the byte 0, as Confluent's format does.
    """

    CONFLUENT = "confluent"  # the byte 0, four bytes of a content id, the message
    APICURIO = "apicurio"  # the byte 0, eight bytes of a global id, the message
    HEADERS = "headers"  # in the record's headers; the bytes are the message


class SchemaId(NamedTuple):
    """The number of a schema in a registry. One registry numbers its schemas in several ways, which must not be mixed.

    `kind`: contentId or globalId.
    """

    kind: str
    number: int


class LogPlace(NamedTuple):
    """Where a change is in its source's log; see decisions.apply.applied.LastChange.

    (n, pos, row) orders changes of one origin; `log` and `log_n` name the file in which `pos` is an offset.
    """

    origin: str | None
    n: int | None
    pos: int | None
    row: int | None
    log: str | None
    log_n: int | None
    transaction: str | None = None
    ts_ms: int | None = None


NO_PLACE = LogPlace(None, None, None, None, None, None)


@dataclass(slots=True)
class Opened:
    """A change as its frame reads it: Connect values, which no table of values has looked at.

    Attributes:
        op: one of OPS; "" where the record does not say it.
        key: None: the record has none that counts, as a truncate, or a change of another table.
        before, after: None: the operation, or the record, has none, not all of it, or it was not asked for.
        at: None: the record has no place in a log, as a tombstone.
        snapshot: SNAPSHOT_BEGINS or SNAPSHOT_GOES_ON for a row of the connector's own snapshot, else "".
        defaulted: whether it was written in a way that replaces NULL with a column's default.
        nth: which change of its record it is, from 0.
        table: "schema.table" of a change that belongs to another table, and then nothing else of it counts; else "".
        ts_ms: when it was committed, where the record says it without a place.
        bad: why it cannot be applied, whatever its values are; "" if nothing keeps it from that.
        unknown: names of fields that the table's definition has no column for.
    """

    op: str
    key: Wires | None = None
    before: Wires | None = None
    after: Wires | None = None
    at: LogPlace | None = None
    snapshot: str = ""
    defaulted: bool = False
    nth: int = 0
    table: str = ""
    ts_ms: int | None = None
    bad: str = ""
    unknown: tuple[str, ...] = ()


class Unreadable(ValueError):  # noqa: N818 - a record is, no program is wrong
    """A record, or one value of it, that cannot be read: an outcome of reading, not a failure.

    Attributes:
        why: the reason for a dead letter; "" where only `unknown` or `schema_id` keep it from being read.
        doubted: the bytes are well formed, and their meaning is not certain.
        unknown: names of fields that the table's definition has no column for.
        schema_id: the id of a schema that the reader was not given.
        value: what was read, where nothing but `unknown` is wrong with it.
    """

    def __init__(
        self,
        why: str = "",
        *,
        doubted: bool = False,
        unknown: tuple[str, ...] = (),
        schema_id: SchemaId | None = None,
        value: Any = None,
    ) -> None:
        super().__init__(why)
        self.why, self.doubted, self.unknown, self.schema_id, self.value = why, doubted, unknown, schema_id, value

    def __reduce__(self) -> tuple[object, ...]:
        return _unreadable, (self.why, self.doubted, self.unknown, self.schema_id, self.value)


def _unreadable(
    why: str, doubted: bool, unknown: tuple[str, ...], schema_id: SchemaId | None, value: object
) -> Unreadable:
    return Unreadable(why, doubted=doubted, unknown=unknown, schema_id=schema_id, value=value)


class Side(StrEnum):
    """How much of a row's image is wanted."""

    NONE = "none"
    ROW = "row"
    IMAGE = "image"  # for a comparison: its hash, and its JSON columns


class Want(NamedTuple):
    """Which images are decoded. Only in them a wrong value makes a record bad."""

    before: Side = Side.NONE
    after: Side = Side.ROW

    def of(self, table: Table) -> Want:
        """The same, with the old row where a table without a key is changed by it."""
        return Want(Side.ROW, self.after) if table.keyless and self.before is Side.NONE else self


WANTED: Final = Want()
